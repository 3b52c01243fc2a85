package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
)

// wireLink is a link that carries so many bytes a second, after so long a way.
type wireLink struct {
	rate  float64
	delay time.Duration
	now   time.Duration
	busy  time.Duration // until when it carries what it was given
	sent  []parcel
}

type parcel struct {
	bytes   int
	arrives time.Duration
}

func (l *wireLink) write(n int) {
	l.busy = max(l.busy, l.now) + time.Duration(float64(n)/l.rate*float64(time.Second))
	l.sent = append(l.sent, parcel{n, l.busy + l.delay})
}

func (l *wireLink) Unacknowledged() (n int, ok bool) {
	for _, p := range l.sent {
		if p.arrives > l.now {
			n += p.bytes
		}
	}
	return n, true
}

// follow writes frames of signals as a tick has them, and returns the longest that
// one was on its way once the pace was found, and how many bytes went.
func follow(l *wireLink, frame int) (worst time.Duration, sum int) {
	p := newPace(l)
	at := func() instant { return instant(1000 + l.now/time.Millisecond) }
	for ; l.now < 60*time.Second; l.now += tickEvery {
		most := p.allows(at(), 0)
		if most == 0 {
			continue
		}
		n := min(frame, most)
		l.write(n)
		p.wrote(n, at())
		if l.now > 30*time.Second {
			sum += n
			worst = max(worst, l.busy+l.delay-l.now)
		}
	}
	return worst, sum
}

func TestThePaceIsThatOfTheLink(t *testing.T) {
	const frame = 5500 // fifty cursors
	for _, test := range []struct {
		name  string
		rate  float64
		delay time.Duration
		most  time.Duration // on its way
		least float64       // of what the link carries, or of the frames
	}{
		{"20 kbit/s", 2500, 50 * time.Millisecond, 600 * time.Millisecond, 0.7},
		{"20 kbit/s and far", 2500, 200 * time.Millisecond, 700 * time.Millisecond, 0.4},
		{"64 kbit/s", 8000, 50 * time.Millisecond, 700 * time.Millisecond, 0.6},
		{"fast", 1e7, time.Millisecond, 10 * time.Millisecond, 1},
		{"fast and far", 1e7, 180 * time.Millisecond, 200 * time.Millisecond, 1},
	} {
		worst, sum := follow(&wireLink{rate: test.rate, delay: test.delay}, frame)
		could := min(test.rate*30, frame*30/tickEvery.Seconds())
		t.Logf("%s: on its way for at most %v, %.0f %% of what could go", test.name, worst, 100*float64(sum)/could)
		if worst > test.most {
			t.Errorf("%s: a frame was on its way for %v, want at most %v", test.name, worst, test.most)
		}
		if float64(sum) < could*test.least*0.99 {
			t.Errorf("%s: %d bytes of %.0f", test.name, sum, could)
		}
	}
}

func TestALinkThatTurnsSlowIsHeldAndComesBack(t *testing.T) {
	l := &wireLink{rate: 1e7, delay: time.Millisecond}
	p := newPace(l)
	at := func() instant { return instant(1000 + l.now/time.Millisecond) }
	run := func(d time.Duration) (written int) {
		for end := l.now + d; l.now < end; l.now += tickEvery {
			if n := min(5500, p.allows(at(), 0)); n > 0 {
				l.write(n)
				p.wrote(n, at())
				written += n
			}
		}
		return written
	}
	run(2 * time.Second)
	if p.most != 0 {
		t.Fatalf("a fast link is bounded to %d bytes", p.most)
	}
	l.rate = 2500
	run(time.Second)
	if p.most == 0 || p.allows(at(), 0) != 0 {
		t.Errorf("a link that turned slow: at most %d bytes, and %d are allowed now", p.most, p.allows(at(), 0))
	}
	l.rate, l.busy = 1e7, l.now
	l.sent = nil
	run(5 * time.Second)
	if p.most != 0 {
		t.Errorf("a link that is fast again is bounded to %d bytes", p.most)
	}
}

// slowConn takes everything at once, as a kernel does, and brings it to the client
// as fast as its link is.
type slowConn struct {
	*fakeConn
	began time.Time

	mu   sync.Mutex
	link wireLink  // Guarded by mu.
	came []arrived // Guarded by mu. Some of it yet to come.
}

// arrived is one write: when it was written, and when its last byte came.
type arrived struct {
	written, at time.Time
	text        string
}

// newSlowConn is a link of 20 kbit/s.
func newSlowConn() *slowConn {
	return &slowConn{fakeConn: newFakeConn(), began: time.Now(), link: wireLink{rate: 2500, delay: 50 * time.Millisecond}}
}

func (c *slowConn) TryWrite(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.link.now = now.Sub(c.began)
	c.link.write(len(p))
	c.came = append(c.came, arrived{now, c.began.Add(c.link.busy + c.link.delay), string(p)})
	return len(p), nil
}

func (c *slowConn) Unacknowledged() (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.now = time.Since(c.began)
	return c.link.Unacknowledged()
}

// received is what has come by now.
func (c *slowConn) received() []arrived {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(c.came), func(a arrived) bool { return a.at.After(now) })
}

// slowViewer reads the signals that come over a slow link.
type slowViewer struct {
	full   int             // events that told all
	fresh  map[string]bool // who was seen moving
	rested map[string]bool // whose value that rests has come
	worst  time.Duration   // the oldest position, when it came
}

// pointed is a position, or a value that rests: then until when it lives.
type pointed struct {
	User string
	Kind string
	Data *struct {
		Sent  int64
		Until int64
	}
	TTLMs int64
}

func (v *slowViewer) read(t *testing.T, began time.Time, writes []arrived) {
	*v = slowViewer{fresh: make(map[string]bool), rested: make(map[string]bool)}
	for _, w := range writes {
		for _, e := range events(w.text) {
			data, ok := strings.CutPrefix(e, "signals ")
			if !ok {
				continue
			}
			var all struct {
				Full    bool
				Signals []pointed
			}
			if err := json.Unmarshal([]byte(data), &all); err != nil {
				t.Fatal(err)
			}
			if all.Full {
				v.full++
			} else if v.full == 0 {
				t.Errorf("the first event does not tell all: %.80s", e)
			}
			for _, s := range all.Signals {
				switch {
				case s.Data == nil:
				case s.Kind == "selection":
					v.rested[s.User] = true
					if left := began.Add(time.Duration(s.Data.Until) * time.Millisecond).Sub(w.written); time.Duration(s.TTLMs)*time.Millisecond != left {
						t.Errorf("%s: %d ms left were told, and it were %v", s.User, s.TTLMs, left)
					}
				default:
					v.fresh[s.User] = true
					v.worst = max(v.worst, w.at.Sub(began.Add(time.Duration(s.Data.Sent)*time.Millisecond)))
				}
			}
		}
	}
}

// said is when an event that has the words came; the end of time if it has not.
func said(writes []arrived, words ...string) time.Time {
	for _, w := range writes {
		for _, e := range events(w.text) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e, word) }) {
				return w.at
			}
		}
	}
	return time.Now().Add(time.Hour)
}

// TestANewcomerOnASlowLinkIsToldNothingOld: all that lives when it comes is told it
// in parts, each of them fresh, with the time that is left; and nothing that has
// ended meanwhile. Whether it is told everybody's or looks at some of a crowd.
func TestANewcomerOnASlowLinkIsToldNothingOld(t *testing.T) {
	const movers, room = 40, "hall"
	for _, mode := range []string{"full", "scope", "all"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				above, rule := 5, "hall:signals="+mode
				if mode == "full" {
					above, rule = 200, "hall:signals=all"
				}
				w, _ := crowdWorld(t, above, rule)
				began := time.Now()
				send := func(c *client, kind string, ttl time.Duration) {
					now := time.Since(began).Milliseconds()
					data := fmt.Sprintf(`{"sent":%d,"until":%d}`, now, now+ttl.Milliseconds())
					if err := c.st.c.signal(room, &rollcall.Signal{Kind: kind, Data: json.RawMessage(data), TTL: ttl}); err != nil {
						t.Fatal(err)
					}
				}
				var tabs []*client
				var users []rollcall.UserID
				for i := range movers {
					user := fmt.Sprintf("u%02d", i)
					users = append(users, rollcall.UserID(user))
					tabs = append(tabs, w.arrive(user, []rollcall.RoomID{room}, nil))
				}
				move := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
						for _, c := range tabs {
							c.answer()
							send(c, "cursor", 0)
						}
					}
					synctest.Wait()
				}
				move(time.Second)
				for i, c := range tabs[:4] {
					ttl := time.Minute
					if i == 3 {
						ttl = time.Second // has run out when its turn comes
					}
					send(c, "selection", ttl)
				}
				slow := newSlowConn()
				st := w.arriveOver(slow, "slow", []rollcall.RoomID{room}, func(a *arrival) { a.rooms[0].observe = true })
				if mode == "scope" {
					st.c.op.Lock()
					_, refused := st.c.setContacts(t.Context(), room, users)
					st.c.op.Unlock()
					if refused != nil {
						t.Fatal(refused)
					}
				}
				move(12 * time.Second)
				var v slowViewer
				v.read(t, began, slow.received())
				t.Logf("%d seen moving, the oldest position was %v old", len(v.fresh), v.worst)
				if v.full != 1 {
					t.Errorf("%d events told all that lives, want one", v.full)
				}
				if v.worst > time.Second {
					t.Errorf("a position was %v old when it came, want at most 1 s", v.worst)
				}
				if len(v.fresh) != movers {
					t.Errorf("of %d who move %d were seen moving", movers, len(v.fresh))
				}
				if len(v.rested) != 3 || v.rested["u03"] {
					t.Errorf("what rests was told of %v, want the first three", v.rested)
				}
				if mode != "full" {
					return
				}
				// Nothing of this stands before who comes and goes.
				soon := func(what string, words ...string) {
					t.Helper()
					at := time.Now()
					move(1500 * time.Millisecond)
					if d := said(slow.received(), words...).Sub(at); d > time.Second {
						t.Errorf("the %s came after %v", what, d)
					}
				}
				for i := range 3 {
					late := fmt.Sprint("late", i)
					c := w.arrive(late, []rollcall.RoomID{room}, nil)
					soon("join", "diff", `"join":[{"user":"`+late)
					send(c, "cursor", 0)
					c.st.c.release(false)
					soon("leave", "diff", `"leave":[{"user":"`+late)
				}
			})
		})
	}
}

// TestTheLastOfASlowLinkIsNotLost: when everybody rests, what is shown at its end is
// what there is.
func TestTheLastOfASlowLinkIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var tabs []*client
		for i := range 30 {
			tabs = append(tabs, w.arrive(fmt.Sprintf("u%02d", i), lobby, nil))
		}
		slow := newSlowConn()
		w.arriveOver(slow, "slow", lobby, func(a *arrival) { a.rooms[0].observe = true })
		for n := range 37 {
			for _, c := range tabs {
				c.answer()
				c.sends("cursor", fmt.Sprint(n))
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(4500 * time.Millisecond) // before the next beat, which would bring it along
		synctest.Wait()
		last := make(map[string]string)
		for _, a := range slow.received() {
			for _, list := range signalled(a.text) {
				for _, s := range list {
					user, value, _ := strings.Cut(s, " ")
					last[user] = value
				}
			}
		}
		for _, c := range tabs {
			if got := last[string(c.st.c.user)]; got != "cursor 36" {
				t.Errorf("the last of %s is %q, want cursor 36", c.st.c.user, got)
			}
		}
	})
}
