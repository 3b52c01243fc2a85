package fieldcases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
	"rollcall/test/harness"
)

// TestA01CutClientIsGone: a link that drops without a word ends the lease, and
// nothing but the lease.
func TestA01CutClientIsGone(t *testing.T) {
	for _, how := range []string{"cut", "frozen"} {
		t.Run(how, func(t *testing.T) {
			harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
				w := s.Watch(t, over, room)
				ana := joined(t, s, over, w, in("ana"))
				if how == "cut" {
					ana.Cut()
				} else {
					ana.Freeze()
				}
				at := time.Now()
				harness.Always(t, s.Lease-s.Beat-200*time.Millisecond, "ana is listed while her lease runs",
					func() bool { return s.Present(room, "ana") })
				w.Until(time.Until(at.Add(s.Gone())), "ana's leave", gone(w, "ana"))
				if s.Present(room, "ana") {
					t.Error("ana is on the roster after her leave was told")
				}
				if how == "frozen" {
					ana.Thaw() // and answers everything that has piled up
				}
				w.Never(500*time.Millisecond, "ana comes back", func() bool { return w.Has(room, "ana") })
				sawOnly(t, w, "ana", 1, 1)
				if l := w.Leaves(room, "ana"); len(l) > 0 && l[0].Reason != "expired" {
					t.Errorf("reason: got %q, want expired", l[0].Reason)
				}
			})
		})
	}
}

// TestA02FastReloadsLeaveNothing: opens and closes that overlap leave no record
// behind.
func TestA02FastReloadsLeaveNothing(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		random := rand.New(rand.NewPCG(2, 2))
		for i := range 50 {
			o := in("ana")
			o.NoWait = true
			wait := time.Duration(random.IntN(20_000)) * time.Microsecond
			if i%2 == 0 && over == harness.SSE {
				o.GiveUp = wait + time.Microsecond // also before the answer has come
				s.Try(t, over, o)
				continue
			}
			c := s.Open(t, over, o)
			time.Sleep(wait) // people do not reload on an event
			c.Close()
		}
		w.Until(s.Gone(), "nobody left", func() bool {
			return s.Count(room) == 0 && len(s.Roster(room)) == 0 && len(w.List(room).Members) == 0 &&
				s.Metric("rollcall_connections") == 1
		})
		changes := w.Changes(room, "ana")
		if len(changes) > 0 && changes[len(changes)-1].Kind != "leave" {
			t.Errorf("the last of ana is a %s, want a leave", changes[len(changes)-1].Kind)
		}
	})
}

// slowStore takes its time for every operation. Like a store behind a network it
// may have done what it then reports as failed.
type slowStore struct {
	store.Store
	wait time.Duration
}

func (s *slowStore) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	time.Sleep(s.wait) // the network
	results, err := s.Store.Apply(ctx, ops)
	if err == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return results, err
}

func (s *slowStore) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if q.Want == rollcall.WantSnapshot {
		time.Sleep(s.wait / 4)
	}
	return s.Store.Read(ctx, q)
}

// TestA07CloseDuringJoinLeavesNoGhost: whoever goes while the join is on its way
// to the store does not stay.
func TestA07CloseDuringJoinLeavesNoGhost(t *testing.T) {
	harness.Worlds(t, harness.Config{Wrap: func(inner store.Store) store.Store {
		return &slowStore{inner, 300 * time.Millisecond}
	}}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		var wg sync.WaitGroup
		for i := range 20 {
			o := in(fmt.Sprintf("u%d", i))
			o.NoWait = true
			wg.Go(func() {
				if over == harness.SSE {
					o.GiveUp = 50 * time.Millisecond
					s.Try(t, over, o)
					return
				}
				c := s.Try(t, over, o)
				time.Sleep(50 * time.Millisecond) // while the join is under way
				c.Close()
			})
		}
		wg.Wait()
		time.Sleep(3 * 300 * time.Millisecond) // what is under way arrives
		paired := func() bool {
			for i := range 20 {
				user := fmt.Sprintf("u%d", i)
				if len(w.Joins(room, user)) != len(w.Leaves(room, user)) {
					return false
				}
			}
			return true
		}
		w.Until(s.Gone()+time.Second, "nobody left", func() bool {
			return s.Count(room) == 0 && len(w.List(room).Members) == 0 && s.Metric("rollcall_connections") == 1 &&
				s.Metric("rollcall_members") == 0 && paired()
		})
		for i := range 20 {
			user := fmt.Sprintf("u%d", i)
			if j, l := len(w.Joins(room, user)), len(w.Leaves(room, user)); j != l {
				t.Errorf("%s: %d joins and %d leaves", user, j, l)
			}
		}
	})
}

// TestA19SuspendedServerKeepsItsClients: what the clients did while the server
// itself stood still is not held against them.
func TestA19SuspendedServerKeepsItsClients(t *testing.T) {
	harness.Worlds(t, harness.Config{Process: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		for i := range 18 {
			s.Open(t, over, in(fmt.Sprintf("u%d", i)))
		}
		dead := s.Open(t, over, in("dead"))
		frozen := s.Open(t, over, in("frozen"))
		w.Until(soon, "all there", func() bool { return len(w.List(room).Members) == 20 })
		s.Signal(syscall.SIGSTOP)
		stopped := time.Now()
		dead.Kill()
		frozen.Freeze()
		w.Never(2*s.Lease, "an event of a server that stands still", func() bool {
			last := w.Events()
			return last[len(last)-1].At.After(stopped.Add(500 * time.Millisecond))
		})
		s.Signal(syscall.SIGCONT)
		back := time.Now()
		w.Until(s.Gone()+time.Second, "the two who died in between go", func() bool {
			return !w.Has(room, "dead") && !w.Has(room, "frozen")
		})
		w.Never(time.Until(back.Add(s.Lease+2*time.Second)), "somebody else leaves", func() bool { return len(w.Leaves("", "")) > 2 })
		if n := s.Count(room); n != 18 {
			t.Errorf("count: got %d, want 18", n)
		}
		if n := len(w.Joins(room, "")); n > 20 {
			t.Errorf("joins: got %d, want 20 at most", n)
		}
	})
}

// TestA39PongsProveLife: a client that says nothing lives by its answers to
// pings, or to beats; without them it is gone, whatever else it sends.
func TestA39PongsProveLife(t *testing.T) {
	short := harness.Config{Lease: 2 * time.Second, Beat: 600 * time.Millisecond}
	t.Run("answers", func(t *testing.T) {
		harness.Worlds(t, short, func(t *testing.T, s *harness.Server, over harness.Transport) {
			w := s.Watch(t, over, room)
			joined(t, s, over, w, in("ana"))
			w.Never(5*s.Lease, "ana leaves", func() bool { return len(w.Leaves(room, "ana")) > 0 })
			if w.Streams() != 1 {
				t.Errorf("the watcher had %d streams, want 1", w.Streams())
			}
		})
	})
	t.Run("silent", func(t *testing.T) {
		harness.Worlds(t, short, func(t *testing.T, s *harness.Server, over harness.Transport) {
			w := s.Watch(t, over, room)
			o := in("ana")
			o.Silent = true
			ana := joined(t, s, over, w, o)
			w.Until(s.Gone(), "ana goes", gone(w, "ana"))
			ana.Until(soon, "her stream ends", func() bool { return len(ana.Ends()) == 1 })
			end := ana.Ends()[0]
			if end.Bye != "expired" || end.Back == nil || over == harness.WS && end.Code != 4504 {
				t.Errorf("end: got %+v, want bye expired, to come back, and 4504", end)
			}
		})
	})
	t.Run("unsolicited", func(t *testing.T) {
		t.Parallel()
		s := harness.Start(t, short)
		w := s.Watch(t, harness.WS, room)
		o := in("ana")
		o.Silent = true
		ana := joined(t, s, harness.WS, w, o)
		at := time.Now()
		w.Until(s.Gone(), "ana goes, for all her pongs", func() bool {
			if ana.Open() {
				ana.Pong(nil)
				ana.Pong([]byte("12345678"))
				ana.Pong(make([]byte, 125))
			}
			return !w.Has(room, "ana")
		})
		if d := time.Since(at); d < s.Lease/2 {
			t.Errorf("ana was gone after %v: that was not her lease", d)
		}
	})
}
