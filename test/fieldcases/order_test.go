package fieldcases

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA08NothingIsLostBetweenSnapshotAndStream: watchers who open, and come back,
// in the midst of a churn have the truth once it is quiet. Their lists take
// nothing that does not fit.
func TestA08NothingIsLostBetweenSnapshotAndStream(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		stop := make(chan struct{})
		var churn sync.WaitGroup
		for i := range 12 {
			user := fmt.Sprintf("u%d", i)
			s.Know(room, user)
			c := s.OpenWS(t, harness.Options{User: user})
			random := rand.New(rand.NewPCG(8, uint64(i)))
			churn.Go(func() {
				for here := false; ; here = !here {
					if here {
						c.Send(`{"type":"leave","room":"` + room + `"}`)
					} else {
						c.Send(`{"type":"join","room":"` + room + `"}`)
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(30+random.IntN(200)) * time.Millisecond): // the pace of the churn
					}
				}
			})
		}
		random := rand.New(rand.NewPCG(8, 8))
		var watchers []*harness.Client
		for i := range 40 {
			watchers = append(watchers, s.Watch(t, over, room))
			watchers[0].Until(soon, "the churn", func() bool { return len(watchers[0].Changes(room, "")) > 2*i })
			if i%2 == 1 {
				w := watchers[random.IntN(len(watchers))]
				if i%4 == 1 {
					w.Cut()
				} else {
					w.Hangup()
				}
				w.Reopen()
			}
		}
		close(stop)
		churn.Wait()
		s.Rest()
	})
}

// TestA09LateUpdateDoesNotBringBack: an update of somebody who has left is
// nobody's news.
func TestA09LateUpdateDoesNotBringBack(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		for i, end := range []string{"leave", "close", "leave", "release"} {
			user := fmt.Sprintf("ana%d", i)
			ana := joined(t, s, over, w, in(user))
			ready := ana.Ready()
			var sets sync.WaitGroup
			for k := range 4 {
				sets.Go(func() {
					for n := range 15 {
						// By HTTP whatever the transport: on a way of its own, so
						// that it may come late.
						s.Do(harness.Call{
							Method: "PATCH", Path: harness.ConnectionPath(room, ready.Connection), Resume: ready.Resume,
							Body: fmt.Sprintf(`{"data":{"x":%d}}`, 100*k+n),
						})
					}
				})
			}
			w.Until(soon, "an update", func() bool { return len(w.Updates(room, user)) > 0 })
			switch end {
			case "leave":
				ana.Leave(room)
			case "close":
				ana.Close()
			case "release":
				ana.Release(false)
			}
			sets.Wait()
			w.Until(soon, user+" leaves", gone(w, user))
			w.Never(300*time.Millisecond, user+" comes back", func() bool { return w.Has(room, user) })
			if c := w.Changes(room, user); c[len(c)-1].Kind != "leave" {
				t.Errorf("the last of %s is %+v, want the leave", user, c[len(c)-1])
			}
		}
	})
}

// TestA10ReturnIsAlwaysNews: whoever comes back with the very same state is seen
// at once.
func TestA10ReturnIsAlwaysNews(t *testing.T) {
	harness.Worlds(t, harness.Config{Grace: time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		o := in("ana")
		o.Data = `{"color":"red"}`
		here := func(c *harness.Client) {
			t.Helper()
			w.Until(soon, "ana on the list", func() bool { return w.Has(room, "ana") })
			if !c.Has(room, "ana") {
				t.Error("ana is not on her own list")
			}
			if j, l := len(w.Joins(room, "ana")), len(w.Leaves(room, "ana")); j != l+1 {
				t.Errorf("%d joins and %d leaves", j, l)
			}
			s.Rest()
		}
		c := joined(t, s, over, w, o)
		c.Close()
		c.Reopen() // inside the grace, as the same connection
		here(c)
		sawOnly(t, w, "ana", 1, 0)
		c.Close()
		c = s.Open(t, over, o) // inside the grace, as another one
		here(c)
		w.Never(2*s.Grace, "a leave", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		c.Leave(room)
		c = s.Open(t, over, o) // after a leave
		here(c)
		c.Leave(room)
		w.Until(soon, "ana leaves", gone(w, "ana"))
		here(s.Open(t, over, o))
	})
}

// TestA10SameIDOfABackEnd: the same with an id that the application chose.
func TestA10SameIDOfABackEnd(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		s.Know(room, "ana")
		path := harness.ConnectionPath(room, "k|1")
		for range 3 {
			a := s.Do(harness.Call{Method: "PUT", Path: path, Body: `{"user":"ana","info":{"name":"Ana"},"data":{"color":"red"}}`})
			if a.Status != 200 {
				t.Fatalf("put: %d %s", a.Status, a.Body)
			}
			w.Until(soon, "ana on the list", func() bool { return w.Has(room, "ana") })
			if a := s.Do(harness.Call{Method: "DELETE", Path: path}); a.Status != 204 {
				t.Fatalf("delete: %d %s", a.Status, a.Body)
			}
			w.Until(soon, "ana leaves", gone(w, "ana"))
		}
		sawOnly(t, w, "ana", 3, 3)
	})
}

// TestA37NoReplay: a newcomer gets the state, and one who comes back what has
// changed in between; nobody is told what is over.
func TestA37NoReplay(t *testing.T) {
	harness.Worlds(t, harness.Config{Lease: 6 * time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		churner := s.OpenWS(t, harness.Options{User: "bob"})
		s.Know(room, "bob")
		for _, u := range []string{"u1", "u2", "u3"} {
			s.Open(t, over, in(u))
		}
		w := s.Watch(t, over, room)
		churn := func(n int) {
			t.Helper()
			for range n {
				churner.Ask(`{"type":"join","room":"` + room + `"}`)
				churner.Ask(`{"type":"leave","room":"` + room + `"}`)
			}
		}
		churn(30)
		s.Rest()
		w.Hangup()
		before := len(w.Changes(room, ""))
		churn(5)
		s.Open(t, over, in("u4"))
		w.Reopen()
		for _, ch := range w.Changes(room, "")[before:] {
			if ch.User != "u4" {
				t.Errorf("told to one who comes back: %+v, want the join of u4 alone", ch)
			}
		}
		fresh := s.Watch(t, over, room)
		s.Rest()
		if n := len(fresh.Events("snapshot")); n != 1 {
			t.Errorf("snapshots of a newcomer: got %d, want 1", n)
		}
		if ch := fresh.Changes(room, ""); len(ch) > 0 {
			t.Errorf("a newcomer was told of the past: %+v", ch)
		}
		if got, want := len(fresh.List(room).Members), 4; got != want {
			t.Errorf("members: got %d, want %d", got, want)
		}
	})
}
