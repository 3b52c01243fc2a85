package fieldcases

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/test/harness"
)

// TestA25SlowReaderSlowsNobody: a client that reads nothing costs the others
// nothing, and has the newest state when it reads again.
func TestA25SlowReaderSlowsNobody(t *testing.T) {
	harness.Worlds(t, harness.Config{
		Lease: 20 * time.Second, Beat: 6 * time.Second,
		Limits: func(l *rollcall.Limits) { l.SetsPerSecond, l.MessagesPerSecond = 10000, 10000 },
	}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		slow := s.Open(t, over, harness.Options{Rooms: []string{room}, Observe: true, Small: true})
		w := s.Watch(t, over, room)
		slow.Freeze()
		const clients, rounds = 6, 70
		var members []*harness.Client
		for i := range clients {
			members = append(members, joined(t, s, over, w, in(fmt.Sprintf("u%d", i))))
		}
		pad := strings.Repeat("x", 900)
		var sets sync.WaitGroup
		for i, c := range members {
			ready := c.Ready()
			sets.Go(func() {
				for n := range rounds {
					time.Sleep(25 * time.Millisecond) // so that it takes many ticks
					body := fmt.Sprintf(`{"data":{"n":%d,"i":%d,"pad":"%s"}}`, n+1, i, pad)
					if over == harness.WS {
						c.Send(`{"type":"set","room":"` + room + `",` + body[1:])
					} else {
						s.Do(harness.Call{Method: "PATCH", Path: harness.ConnectionPath(room, ready.Connection), Resume: ready.Resume, Body: body})
					}
				}
			})
		}
		sets.Wait()
		final := func(c *harness.Client) func() bool {
			return func() bool {
				for i := range clients {
					m, _ := c.Member(room, fmt.Sprintf("u%d", i))
					if !strings.HasPrefix(string(m.Data), fmt.Sprintf(`{"n":%d,"i":%d,`, rounds, i)) {
						return false
					}
				}
				return true
			}
		}
		for _, c := range members {
			c.Until(soon, "the final state", final(c))
		}
		joined(t, s, over, w, in("late")).Leave(room)
		w.Until(soon, "the others come and go", func() bool { return len(w.Leaves(room, "late")) == 1 })
		if final(slow)() {
			t.Error("the slow client has the final state while it does not read")
		}
		before := len(w.Events("diff"))
		slow.Thaw()
		slow.Until(soon, "the newest state, or the end", func() bool { return final(slow)() || !slow.Open() })
		if !slow.Open() {
			slow.Reopen() // was away for too long
			slow.Until(soon, "the newest state", final(slow))
		}
		if n := len(slow.Events("diff", "snapshot")); n >= before {
			t.Errorf("the slow client was sent %d events, and the others %d: that is a backlog", n, before)
		}
	})
}

// TestA34DeadlinesOfRequestsEndNoStream: the time-outs of an http.Server are made
// for requests.
func TestA34DeadlinesOfRequestsEndNoStream(t *testing.T) {
	harness.Worlds(t, harness.Config{HTTP: func(h *http.Server) {
		h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = time.Second, time.Second, time.Second
	}}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		w.Never(2500*time.Millisecond, "the stream ends", func() bool { return !w.Open() })
		joined(t, s, over, w, in("ana"))
		if n := w.Streams(); n != 1 {
			t.Errorf("streams: got %d, want the first", n)
		}
	})
}

// TestA34DeadSocketIsNoticed: a stream whose client is gone is closed within a
// beat.
func TestA34DeadSocketIsNoticed(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c := joined(t, s, over, w, in("ana"))
		c.Kill()
		harness.Eventually(t, s.Beat+time.Second, "one stream", func() bool { return s.Metric("rollcall_connections") == 1 })
	})
}
