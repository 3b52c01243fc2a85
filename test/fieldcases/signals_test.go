package fieldcases

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/test/harness"
)

func shows(w, of *harness.Client, kind, data string) func() bool {
	return func() bool { return w.Shows(room, of, kind) == data }
}

// TestA09NoSignalBringsALeaverBack: nothing of a connection is told after the
// leave, and what comes late is refused.
func TestA09NoSignalBringsALeaverBack(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		ready := ana.Ready()
		late := func() *harness.Answer {
			return s.Do(harness.Call{
				Method: "POST", Path: harness.ConnectionPath(room, ready.Connection) + "/signals",
				Resume: ready.Resume, Body: `{"kind":"cursor","data":"late"}`,
			})
		}
		var sending sync.WaitGroup
		sending.Go(func() {
			for i := range 20 {
				ana.Point(room, fmt.Sprintf(`{"kind":"cursor","data":%d}`, i))
				time.Sleep(20 * time.Millisecond)
			}
		})
		w.Until(soon, "ana moves", func() bool { return w.Shows(room, ana, "cursor") != "" })
		sending.Wait()
		ana.Release(false)
		if a := late(); a.Status != 410 {
			t.Errorf("a signal after the end: status %d, want 410", a.Status)
		}
		w.Until(soon, "ana is gone", gone(w, "ana"))
		w.Until(soon, "and the cursor with her, in the same write", shows(w, ana, "cursor", ""))
		w.Never(300*time.Millisecond, "ana is back", func() bool { return w.Has(room, "ana") || w.Shows(room, ana, "cursor") != "" })
		left := false
		for _, e := range w.Events("diff", "signals") {
			text := string(e.Data)
			switch {
			case e.Name == "diff" && strings.Contains(text, `"leave"`):
				left = true
			case left && e.Name == "signals" && strings.Contains(text, `"ana"`) && !strings.Contains(text, `"data":null`):
				t.Errorf("after the leave: %s", text)
			}
		}
	})
}

// TestA25SlowReaderOfSignalsGetsTheNewest: who does not read costs the others
// nothing, and holds the newest when it reads again.
func TestA25SlowReaderOfSignalsGetsTheNewest(t *testing.T) {
	harness.Worlds(t, harness.Config{Lease: 20 * time.Second, Beat: 6 * time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		slow := s.Open(t, over, harness.Options{Rooms: []string{room}, Observe: true, Small: true})
		w := s.Watch(t, over, room)
		slow.Freeze()
		const clients, rounds = 5, 60
		pad := strings.Repeat("x", 900)
		var members []*harness.Client
		var sending sync.WaitGroup
		for i := range clients {
			c := joined(t, s, over, w, in(fmt.Sprintf("u%d", i)))
			members = append(members, c)
			sending.Go(func() {
				for n := range rounds {
					c.Point(room, fmt.Sprintf(`{"kind":"cursor","data":"%s%d"}`, pad, n+1))
					time.Sleep(25 * time.Millisecond)
				}
			})
		}
		sending.Wait()
		last := fmt.Sprintf(`"%s%d"`, pad, rounds)
		final := func(c *harness.Client) func() bool {
			return func() bool {
				for _, m := range members {
					if c.Shows(room, m, "cursor") != last {
						return false
					}
				}
				return true
			}
		}
		w.Until(2*time.Second, "the others hold the newest", final(w))
		joined(t, s, over, w, in("late")).Leave(room)
		slow.Thaw()
		slow.Until(soon, "the newest, or the end", func() bool { return final(slow)() || !slow.Open() })
		if n := len(slow.Events("signals")); slow.Open() && n >= len(w.Events("signals")) {
			t.Errorf("the slow client was sent %d events of signals: that is a backlog", n)
		}
	})
}

// TestA26FloodOfCursorsIsMerged: however often they move, viewers are told 20
// times a second, and hold the last position soon after.
func TestA26FloodOfCursorsIsMerged(t *testing.T) {
	harness.Worlds(t, harness.Config{Lease: 20 * time.Second, Beat: 6 * time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		clients, rate, moves := 20, 120, 240
		if over == harness.SSE {
			clients, rate, moves = 5, 40, 80 // each is a request
		}
		var members []*harness.Client
		for i := range clients {
			members = append(members, joined(t, s, over, w, in(fmt.Sprintf("u%d", i))))
		}
		began := time.Now()
		var sending sync.WaitGroup
		for _, c := range members {
			sending.Go(func() {
				for n := range moves {
					c.Point(room, fmt.Sprintf(`{"kind":"cursor","data":{"x":%d,"y":%d}}`, n+1, -n))
					time.Sleep(time.Second / time.Duration(rate))
				}
			})
		}
		sending.Wait()
		stopped := time.Now()
		last := fmt.Sprintf(`{"x":%d,"y":%d}`, moves, 1-moves)
		for _, m := range members {
			w.Until(2*time.Second, "the last position", shows(w, m, "cursor", last))
		}
		t.Logf("the last positions are there after %v", time.Since(stopped))
		most := int(time.Since(began)/(50*time.Millisecond)) + 5
		if n := len(w.Events("signals")); n > most {
			t.Errorf("%d events of signals in %v, want at most 20 a second", n, time.Since(began))
		}
		for _, m := range members {
			if !m.Open() || m.Streams() != 1 {
				t.Errorf("a client was disconnected")
			}
			if n := len(m.Events("error")); n > 0 {
				t.Errorf("%d errors; a rate is none", n)
			}
		}
	})
}

// TestA26WhoMovesIsAnsweredAndGoes: among many who move all the time, what else one
// of them says is heard, and its end is seen.
func TestA26WhoMovesIsAnsweredAndGoes(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Lease: 20 * time.Second, Beat: 6 * time.Second})
	w := s.Watch(t, harness.WS, room)
	var members []*harness.Client
	for i := range 16 {
		members = append(members, joined(t, s, harness.WS, w, in(fmt.Sprintf("u%d", i))))
	}
	asks, leaves, closes := members[0], members[1], members[2]
	for n := range 20 {
		for _, c := range members {
			c.Point(room, fmt.Sprintf(`{"kind":"cursor","data":%d}`, n))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if r := asks.Set(room, `{"data":{"page":"2"}}`); !r.OK {
		t.Errorf("a set of somebody who moves: %s", r.Raw)
	}
	leaves.Leave(room)
	closes.Close()
	w.Until(soon, "two have gone", func() bool { return gone(w, "u1")() && gone(w, "u2")() })
	for _, c := range []*harness.Client{leaves, closes} {
		if got := w.Shows(room, c, "cursor"); got != "" {
			t.Errorf("of somebody who has gone: %s", got)
		}
	}
	w.Until(soon, "the last position", shows(w, asks, "cursor", "19"))
	sawOnly(t, w, "u1", 1, 1)
	sawOnly(t, w, "u2", 1, 1)
}

// TestA27SignalsOverTheLimitAreRefused: with the limit, and everything stays.
func TestA27SignalsOverTheLimitAreRefused(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		fits := `"` + strings.Repeat("é", 511) + `"`
		if r := ana.Signal(room, `{"kind":"cursor","data":`+fits+`}`); !r.OK {
			t.Errorf("1024 bytes: %s", r.Raw)
		}
		r := ana.Signal(room, `{"kind":"cursor","data":"`+strings.Repeat("é", 512)+`"}`)
		if r.OK || r.Code != "too_large" || r.Limit != 1024 {
			t.Errorf("1026 bytes: %s", r.Raw)
		}
		w.Until(soon, "what was there", shows(w, ana, "cursor", fits))
		if r := w.Signal(room, `{"kind":"cursor","data":1}`); r.OK || r.Code != "forbidden" {
			t.Errorf("an observer: %s", r.Raw)
		}
	})
}

// TestA50TypingEndsByItself: by its time if nothing more is heard, at once when
// its sender closes, and never for the other tab.
func TestA50TypingEndsByItself(t *testing.T) {
	harness.Worlds(t, harness.Config{Lease: 12 * time.Second, Beat: 3 * time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		ben := joined(t, s, over, s.Watch(t, over, room), in("ben"))
		lost := joined(t, s, over, ben, in("ana"))
		lost.Signal(room, `{"kind":"typing","data":true,"ttlMs":2000}`)
		began := time.Now()
		lost.Cut()
		ben.Until(soon, "ana types", shows(ben, lost, "typing", "true"))
		ben.Until(4*time.Second, "ana types no more", shows(ben, lost, "typing", ""))
		if d := time.Since(began); d < 1900*time.Millisecond || !ben.Has(room, "ana") {
			t.Errorf("off after %v, present %v; want 2 s, before the leave", d, ben.Has(room, "ana"))
		}
		one, two := joined(t, s, over, ben, in("cleo")), joined(t, s, over, ben, in("cleo"))
		for _, c := range []*harness.Client{one, two} {
			c.Signal(room, `{"kind":"typing","data":true}`)
			ben.Until(soon, "cleo types", shows(ben, c, "typing", "true"))
		}
		one.Close()
		ben.Until(3*time.Second, "off at once", shows(ben, one, "typing", ""))
		if got := ben.Shows(room, two, "typing"); got != "true" {
			t.Errorf("the other tab: %q", got)
		}
		before := len(ben.Events("signals"))
		keys := time.Now()
		for i := range 60 { // 2.4 s of keys
			two.Point(room, fmt.Sprintf(`{"kind":"typing","data":{"n":%d}}`, i))
			time.Sleep(40 * time.Millisecond)
		}
		if n := len(ben.Events("signals")) - before; n > int(time.Since(keys)/time.Second)+2 {
			t.Errorf("%d events in %v of keys, want one a second", n, time.Since(keys))
		}
		two.Signal(room, `{"kind":"typing","data":null}`)
		ben.Until(soon, "nobody types", shows(ben, two, "typing", ""))
		if n := len(s.Open(t, over, in("newcomer")).Signals(room)); n != 0 {
			t.Errorf("a newcomer is told of %d signals", n)
		}
	})
}

// TestA51VersionsAndPositionsComeAsTheyWereSent: the server interprets nothing.
func TestA51VersionsAndPositionsComeAsTheyWereSent(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		for i, v := range []struct{ data, version string }{
			{`{"line":12,"col":8}`, `482`}, {`{"line":-1,"col":0.5}`, `-1.50`}, {`{"line":1e12}`, `9007199254740993`},
			{`{}`, `"v 482 ü"`}, {`[null,true]`, ``},
		} {
			body := fmt.Sprintf(`{"kind":"k%d","data":%s}`, i, v.data)
			if v.version != "" {
				body = fmt.Sprintf(`{"kind":"k%d","data":%s,"docVersion":%s}`, i, v.data, v.version)
			}
			if r := ana.Signal(room, body); !r.OK {
				t.Fatalf("%s: %s", body, r.Raw)
			}
			key := harness.SignalKey{Connection: ana.Ready().Connection, Kind: fmt.Sprint("k", i)}
			w.Until(soon, body, func() bool {
				got := w.Signals(room)[key]
				return string(got.Data) == v.data && string(got.DocVersion) == v.version
			})
		}
	})
}

// TestA49NobodySeesAHiddenUserMove: byte for byte as without them.
func TestA49NobodySeesAHiddenUserMove(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		token := func(user string, hidden bool) string {
			return s.Token(harness.Claims{User: rollcall.UserID(user), Hidden: hidden, Grants: map[string][]harness.Capability{"*": {auth.Presence, auth.Signal}}})
		}
		w := s.Open(t, over, harness.Options{Rooms: []string{room}, User: "ben", Token: token("ben", false)})
		ana := s.Open(t, over, harness.Options{Rooms: []string{room}, User: "ana", Hidden: true, Token: token("ana", true)})
		before := len(w.Events("signals", "diff"))
		for _, kind := range []string{"cursor", "typing"} {
			if r := ana.Signal(room, `{"kind":"`+kind+`","data":1}`); !r.OK {
				t.Errorf("%s: %s", kind, r.Raw)
			}
		}
		w.Never(300*time.Millisecond, "something is seen", func() bool { return len(w.Events("signals", "diff")) != before })
		// A token without the capability may not.
		mute := s.Open(t, over, harness.Options{Rooms: []string{room}, User: "mia", Token: s.Token(harness.Claims{User: "mia"})})
		if r := mute.Signal(room, `{"kind":"cursor","data":1}`); r.OK || r.Code != "forbidden" {
			t.Errorf("without the capability: %s", r.Raw)
		}
	})
}
