package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/store"
)

// packageTime is the time of package time: virtual inside a bubble.
type packageTime struct{}

func (packageTime) Now() time.Time { return time.Now() }

func (packageTime) Pass(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// randomChoices are the same for the same seed.
type randomChoices struct{ *rand.Rand }

func (c randomChoices) Choose(n int, _ string) int { return c.IntN(n) }

func seeded(seed uint64) randomChoices { return randomChoices{rand.New(rand.NewPCG(seed, seed))} }

// within runs a test in virtual time if the store allows it, otherwise in real
// time, along with the others.
func (f Factory) within(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if f.Virtual {
			synctest.Test(t, test)
			return
		}
		t.Parallel()
		test(t)
	})
}

// options shortens the leases of a store in real time.
func (f Factory) options(o Options) Options {
	if !f.Virtual {
		o.Timing.Lease, o.Timing.Beat = realLease, realLease*3/10
	}
	return o
}

// slack is how far the time of a store may be from ours.
func (f Factory) slack() time.Duration {
	if f.Virtual {
		return 0
	}
	return 150 * time.Millisecond
}

// scene is one store with a watcher, and short words for what a rule needs.
type scene struct {
	t       *testing.T
	store   store.Store
	watcher *Watcher
	timing  rollcall.Timing
	virtual bool
	story   map[rollcall.RoomID][]string // joins and leaves so far
}

const (
	hall rollcall.RoomID = "hall"
	ana  rollcall.UserID = "ana"
	bo   rollcall.UserID = "bo"
)

func newScene(t *testing.T, f Factory) *scene {
	return newSceneWith(t, f, f.options(Options{Timing: rollcall.DefaultTiming(), Limits: rollcall.DefaultLimits()}))
}

func newSceneWith(t *testing.T, f Factory, o Options) *scene {
	s := &scene{t: t, store: f.New(t, o), watcher: NewWatcher(o), timing: o.Timing, virtual: f.Virtual, story: make(map[rollcall.RoomID][]string)}
	s.store.Feed(s.watcher.Frame)
	t.Cleanup(func() {
		if err := s.watcher.firstFault(); err != nil {
			t.Errorf("the feed: %v", err)
		}
		s.store.Close()
	})
	return s
}

func (s *scene) apply(ops ...rollcall.Op) []rollcall.Result {
	s.t.Helper()
	results, err := s.store.Apply(context.Background(), ops)
	if err != nil || len(results) != len(ops) {
		s.t.Fatalf("apply: %d results, %v", len(results), err)
	}
	return results
}

// do applies one operation that is to succeed.
func (s *scene) do(op rollcall.Op) rollcall.Result {
	s.t.Helper()
	r := s.apply(op)[0]
	if r.Err != nil || r.Stale {
		s.t.Fatalf("%s: %v, stale %v", showOp(&op), r.Err, r.Stale)
	}
	return r
}

func (s *scene) open(user rollcall.UserID, c rollcall.ConnectionID) rollcall.Lease {
	s.t.Helper()
	return s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: user, Connection: c}).Lease
}

func (s *scene) set(l rollcall.Lease, status rollcall.Status, data string) *rollcall.Member {
	s.t.Helper()
	op := rollcall.Op{Kind: rollcall.OpSet, Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, Status: status}
	if data != "" {
		op.Data = json.RawMessage(data)
	}
	return s.do(op).Member
}

func closeOp(l rollcall.Lease, grace time.Duration) rollcall.Op {
	return rollcall.Op{Kind: rollcall.OpClose, Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, Grace: grace}
}

func endOp(l rollcall.Lease, reason rollcall.Reason) rollcall.Op {
	return rollcall.Op{Kind: rollcall.OpEnd, Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, Reason: reason}
}

func (s *scene) renew(l rollcall.Lease, age time.Duration) (rollcall.Outcome, rollcall.Reason) {
	s.t.Helper()
	renewals := []rollcall.Renewal{{Lease: &l, Age: age}}
	if err := s.store.Renew(context.Background(), renewals); err != nil {
		s.t.Fatalf("renew: %v", err)
	}
	return renewals[0].Outcome, renewals[0].Reason
}

func (s *scene) tick() {
	s.t.Helper()
	if err := s.store.Tick(context.Background()); err != nil {
		s.t.Fatalf("tick: %v", err)
	}
}

// pass lets time pass as it does in life: with ticks.
func (s *scene) pass(d time.Duration) {
	s.t.Helper()
	const step = 250 * time.Millisecond
	for ; d > 0; d -= step {
		time.Sleep(min(d, step))
		s.tick()
	}
}

// beat lets time pass while the clients of leases prove that they live.
func (s *scene) beat(d time.Duration, leases ...rollcall.Lease) {
	s.t.Helper()
	for ; d > 0; d -= s.timing.Beat {
		for _, l := range leases {
			if outcome, reason := s.renew(l, 0); outcome != rollcall.Renewed {
				s.t.Fatalf("renewal of %v: outcome %d %s", l.Connection, outcome, reason)
			}
		}
		s.pass(min(d, s.timing.Beat))
	}
	for _, l := range leases {
		s.renew(l, 0)
	}
}

func (s *scene) read(q rollcall.Query) rollcall.Answer {
	s.t.Helper()
	a, err := s.store.Read(context.Background(), q)
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	return a
}

// member is a user as a look-up tells of it; nil if not here.
func (s *scene) member(user rollcall.UserID) *rollcall.Member {
	s.t.Helper()
	if a := s.read(rollcall.Query{Want: rollcall.WantUsers, Room: hall, Users: []rollcall.UserID{user}}); len(a.Members) == 1 {
		return a.Members[0]
	}
	return nil
}

// wantStory compares the joins and leaves of the hall so far, such as "ana" and
// "ana left".
func (s *scene) wantStory(want ...string) {
	s.t.Helper()
	for wait := 0; ; wait++ {
		events, _ := s.watcher.take()
		for _, e := range events {
			line := string(e.User)
			if e.Reason != rollcall.ReasonNone {
				line += " " + e.Reason.String()
			}
			s.story[e.Room] = append(s.story[e.Room], line)
		}
		if slices.Equal(s.story[hall], want) {
			break
		}
		// A feed from elsewhere may be a little late.
		if s.virtual || wait == 100 {
			s.t.Fatalf("the feed told %q, want %q", s.story[hall], want)
		}
		time.Sleep(10 * time.Millisecond)
	}
	here := make(map[string]bool)
	for _, line := range want {
		var user, reason string
		if n, _ := fmt.Sscan(line, &user, &reason); n == 2 {
			delete(here, user)
		} else {
			here[user] = true
		}
	}
	s.wantCount(len(here))
}

// wantCount compares the count with a number and with every list.
func (s *scene) wantCount(n int) {
	s.t.Helper()
	for _, want := range []rollcall.Want{rollcall.WantRoom, rollcall.WantSnapshot, rollcall.WantPage} {
		a := s.read(rollcall.Query{Want: want, Room: hall, Limit: 200})
		if a.Count != n || want != rollcall.WantRoom && n <= 200 && len(a.Members) != n {
			s.t.Fatalf("read %d: count %d and %d members, want %d", want, a.Count, len(a.Members), n)
		}
	}
}
