package fieldcases

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/test/harness"
)

// A link of the slow kind, in a room where everybody moves.
const (
	linkBytes = 20_000 / 8 // a second
	movers    = 49
	moveEvery = 100 * time.Millisecond
	mostLag   = time.Second
	warmUp    = 40 * time.Second // at most: a roster and 49 cursors take 5 s to pass
	slowFor   = 8 * time.Second
)

// moving is what a viewer got of the cursors of others.
type moving struct {
	lags   []time.Duration // between the sending of a position and its coming; sorted
	movers map[string]bool
}

func movesSince(c *harness.Client, start time.Time) moving {
	m := moving{movers: make(map[string]bool)}
	for _, e := range c.Events("signals") {
		var s struct {
			Full    bool
			Signals []struct {
				User string
				Data struct{ Sent int64 }
			}
		}
		if e.At.Before(start) || json.Unmarshal(e.Data, &s) != nil || s.Full {
			continue
		}
		for _, v := range s.Signals {
			m.movers[v.User] = true
			m.lags = append(m.lags, e.At.Sub(time.UnixMilli(v.Data.Sent)))
		}
	}
	slices.Sort(m.lags)
	return m
}

// within is the lag that so many of a hundred positions do not exceed.
func (m moving) within(percent int) time.Duration {
	if len(m.lags) == 0 {
		return 0
	}
	return m.lags[(len(m.lags)-1)*percent/100]
}

// busyTest is held by a test that keeps the machine busy and measures time.
var busyTest sync.Mutex

// TestSlowLinkShowsNothingOld: on a link of 20 kbit/s, in a room of 50 who all
// move, a position that comes is fresh, joins and leaves come before cursors, and
// everybody's turn comes. The others notice nothing.
func TestSlowLinkShowsNothingOld(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		busyTest.Lock()
		defer busyTest.Unlock()
		s := harness.Start(t, harness.Config{Lease: 20 * time.Second, Beat: 6 * time.Second})
		proxy := s.NewProxy(t)
		proxy.Slow(linkBytes)
		for i := range movers {
			s.Know(room, fmt.Sprint("u", i))
		}
		fast := s.Watch(t, over, room)
		stop := make(chan struct{})
		var moves sync.WaitGroup
		end := sync.OnceFunc(func() {
			close(stop)
			moves.Wait()
		})
		defer end()
		for i := range movers {
			var granted harness.Ready
			a := s.Do(harness.Call{Method: "POST", Path: strings.TrimSuffix(harness.ConnectionPath(room, ""), "/") + "?user=" + fmt.Sprint("u", i), Body: `{}`})
			if err := a.JSON(&granted); err != nil || a.Status != http.StatusCreated {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			moves.Go(func() {
				tick := time.NewTicker(moveEvery)
				defer tick.Stop()
				for n := 0; ; n++ {
					select {
					case <-stop:
						s.Do(harness.Call{Method: "DELETE", Path: harness.ConnectionPath(room, granted.Connection), Resume: granted.Resume})
						return
					case now := <-tick.C:
						s.Do(harness.Call{
							Method: "POST", Path: harness.ConnectionPath(room, granted.Connection) + "/signals", Resume: granted.Resume,
							Body: fmt.Sprintf(`{"kind":"cursor","data":{"x":%d,"y":%d,"sent":%d}}`, n, i, now.UnixMilli()),
						})
					}
				}
			})
		}
		slow := s.Open(t, over, harness.Options{User: "slow", Rooms: []string{room}, URL: proxy.URL, Observe: true})
		opened := time.Now()
		slow.Until(warmUp, "the first positions of the newest kind", func() bool {
			return len(slow.Events("signals")) > 3 && len(movesSince(slow, time.Now().Add(-moveEvery)).lags) > 0
		})
		start := time.Now()
		t.Logf("it took %v until only new things came", start.Sub(opened))
		joined := make([]time.Duration, 0, 3)
		for i := range 3 {
			time.Sleep(slowFor / 3)
			user, at := fmt.Sprint("late", i), time.Now()
			late := s.Open(t, over, in(user))
			slow.Until(soon, user+" is seen", func() bool { return slow.Has(room, user) })
			joined = append(joined, time.Since(at))
			late.Leave(room)
			slow.Until(soon, user+" is seen leaving", gone(slow, user))
		}
		got, others := movesSince(slow, start), movesSince(fast, start)
		t.Logf("slow: %d positions of %d, 95 %% within %v, all within %v; joins seen after %v; fast: %d positions, all within %v",
			len(got.lags), len(got.movers), got.within(95), got.within(100), joined, len(others.lags), others.within(100))
		// On a busy machine all are late, and that is not the link's.
		busy := others.within(100)
		if got.within(95) > mostLag+busy || got.within(100) > 2*mostLag+busy {
			t.Errorf("positions came up to %v after they were sent, most within %v; want at most %v, and %v as for everybody",
				got.within(100), got.within(95), mostLag, busy)
		}
		if len(got.movers) != movers {
			t.Errorf("of %d who move %d were seen moving", movers, len(got.movers))
		}
		for _, d := range joined {
			if d > mostLag+2*busy {
				t.Errorf("a join was seen after %v, want at most %v, and %v as for everybody", d, mostLag, 2*busy)
			}
		}
		end()
		// What is told of so many who leave at once takes its time on such a link.
		slow.Until(warmUp, "everybody is seen to have left", func() bool {
			for i := range movers {
				if slow.Has(room, fmt.Sprint("u", i)) {
					return false
				}
			}
			return true
		})
	})
}
