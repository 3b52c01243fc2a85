package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall"
)

func runConcurrent(t *testing.T, f Factory) {
	t.Run("ManyCallersAgree", func(t *testing.T) { manyCallersAgree(t, f) })
	f.within(t, "LifeGoesOn", func(t *testing.T) { lifeGoesOn(newScene(t, f)) })
}

// caller is one of many: it holds connections of a user of its own, and one of a
// user that all callers share, and knows what has to be there in the end.
type caller struct {
	s       *scene
	name    string
	rooms   []rollcall.RoomID
	choices randomChoices
	held    map[rollcall.RoomID]map[who]rollcall.Lease
	state   map[who]map[rollcall.RoomID]string // data
}

type who struct {
	user       rollcall.UserID
	connection rollcall.ConnectionID
}

const everybody rollcall.UserID = "everybody"

func (c *caller) step() error {
	room := choose2(c.choices, c.rooms)
	w := who{rollcall.UserID(c.name), rollcall.ConnectionID(fmt.Sprintf("%s-%d", c.name, c.choices.IntN(3)))}
	if c.choices.IntN(3) == 0 {
		w.user = everybody
	}
	held, here := c.held[room][w]
	ctx := context.Background()
	op := rollcall.Op{Room: room, User: w.user, Connection: w.connection}
	switch n := c.choices.IntN(10); {
	case !here || n == 0:
		op.Kind = rollcall.OpGrant
	case n < 5:
		op.Kind, op.Generation = rollcall.OpSet, held.Generation
		op.Data = json.RawMessage(fmt.Sprintf(`{"n":%d}`, c.choices.IntN(1000)))
	case n < 7:
		renewals := []rollcall.Renewal{{Lease: &held}}
		if err := c.s.store.Renew(ctx, renewals); err != nil {
			return err
		}
		if renewals[0].Outcome != rollcall.Renewed {
			return fmt.Errorf("%s: renewal of %+v: outcome %d %s", c.name, held, renewals[0].Outcome, renewals[0].Reason)
		}
		return nil
	default:
		op.Kind, op.Generation, op.Reason = rollcall.OpEnd, held.Generation, rollcall.ReasonLeft
	}
	results, err := c.s.store.Apply(ctx, []rollcall.Op{op})
	if err != nil {
		return err
	}
	r := results[0]
	if r.Err != nil || r.Stale {
		return fmt.Errorf("%s: %s: %v, stale %v", c.name, showOp(&op), r.Err, r.Stale)
	}
	if c.held[room] == nil {
		c.held[room] = make(map[who]rollcall.Lease)
	}
	if op.Kind == rollcall.OpGrant {
		c.held[room][w] = r.Lease
	}
	if op.Kind == rollcall.OpEnd {
		delete(c.held[room], w)
	}
	// Read your writes, of the user that nobody else touches.
	if w.user != everybody {
		a, err := c.s.store.Read(ctx, rollcall.Query{Want: rollcall.WantUsers, Room: room, Users: []rollcall.UserID{w.user}})
		if err != nil {
			return err
		}
		n := 0
		for held := range c.held[room] {
			if held.user == w.user {
				n++
			}
		}
		if len(a.Members) != min(n, 1) || n > 0 && a.Members[0].Connections != n || a.Version < r.Version {
			return fmt.Errorf("%s reads %d members of itself in %q with %d connections, at version %d after %d", c.name, len(a.Members), room, n, a.Version, r.Version)
		}
	}
	return nil
}

func choose2[T any](c randomChoices, from []T) T { return from[c.IntN(len(from))] }

// manyCallersAgree lets many goroutines apply, renew, tick and read at once. In
// the end the feed, every read and what the callers did agree.
func manyCallersAgree(t *testing.T, f Factory) {
	// Nobody is to run out here, however slow the machine: the leases are long.
	s := newSceneWith(t, f, Options{Timing: rollcall.DefaultTiming(), Limits: rollcall.DefaultLimits()})
	var rooms []rollcall.RoomID
	for n := range 4 {
		rooms = append(rooms, RoomsOf(n, 2)...)
	}
	var callers []*caller
	var working, background sync.WaitGroup
	var done atomic.Bool
	for n := range 8 {
		c := &caller{s: s, name: fmt.Sprintf("w%d", n), rooms: rooms, choices: seeded(uint64(n)), held: make(map[rollcall.RoomID]map[who]rollcall.Lease)}
		callers = append(callers, c)
		working.Go(func() {
			for range 150 {
				if err := c.step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	background.Go(func() {
		for !done.Load() {
			if err := s.store.Tick(context.Background()); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	background.Go(func() { readAlong(s, rooms, &done) })
	working.Wait()
	done.Store(true)
	background.Wait()

	for _, room := range rooms {
		want := make(map[rollcall.UserID]int)
		for _, c := range callers {
			for w := range c.held[room] {
				want[w.user]++
			}
		}
		s.wantRoom(room, want)
	}
	for _, c := range callers {
		for room, held := range c.held {
			for w, l := range held {
				s.do(rollcall.Op{Kind: rollcall.OpEnd, Room: room, User: w.user, Connection: w.connection, Generation: l.Generation, Reason: rollcall.ReasonLeft})
			}
		}
	}
	for _, room := range rooms {
		s.wantRoom(room, nil)
	}
}

// readAlong reads while others write: whatever is read is whole.
func readAlong(s *scene, rooms []rollcall.RoomID, done *atomic.Bool) {
	versions := make(map[rollcall.RoomID]rollcall.Version)
	for i := 0; !done.Load(); i++ {
		room := rooms[i%len(rooms)]
		for _, want := range []rollcall.Want{rollcall.WantSnapshot, rollcall.WantPage} {
			a, err := s.store.Read(context.Background(), rollcall.Query{Want: want, Room: room, Limit: 1000, States: true})
			if err != nil {
				s.t.Error(err)
				return
			}
			once := make(map[rollcall.UserID]bool)
			for _, m := range a.Members {
				once[m.User] = true
			}
			if len(once) != a.Count || len(a.Members) != a.Count {
				s.t.Errorf("%q counts %d and lists %d, %d of them different", room, a.Count, len(a.Members), len(once))
			}
			if a.Version < versions[room] {
				s.t.Errorf("%q at version %d after %d", room, a.Version, versions[room])
			}
			versions[room] = a.Version
			connections := 0
			for _, states := range a.States {
				connections += len(states)
			}
			if want == rollcall.WantPage && connections != a.Connections {
				s.t.Errorf("%q counts %d connections and lists %d", room, a.Connections, connections)
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// wantRoom compares the feed and the reads of a room with what is to be there:
// users and their numbers of connections.
func (s *scene) wantRoom(room rollcall.RoomID, want map[rollcall.UserID]int) {
	s.t.Helper()
	a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: room, Limit: 1000})
	got := make(map[rollcall.UserID]int)
	for _, m := range a.Members {
		got[m.User] = m.Connections
	}
	if want == nil {
		want = make(map[rollcall.UserID]int)
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("%q reads %v, want %v", room, got, want)
	}
	snapshot := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: room})
	for wait := 0; ; wait++ {
		_, members := s.watcher.versionOf(room)
		err := sameMembers(snapshot.Members, members)
		if err == nil {
			break
		}
		if s.virtual || wait == 300 {
			s.t.Errorf("the feed and the snapshot of %q: %v", room, err)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.watcher.checkSince(room); err != nil {
		s.t.Error(err)
	}
}

// lifeGoesOn lets many clients live for some leases, each on its own: some beat
// and stay, some reload, some leave, some die without a word. The dead are off
// the roster within a lease and a second; who stays is never seen to leave.
func lifeGoesOn(s *scene) {
	const clients = 40
	lease, grace := s.timing.Lease, s.timing.CloseGrace
	var working, staying sync.WaitGroup
	var done atomic.Bool
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		for !done.Load() {
			if err := s.store.Tick(context.Background()); err != nil {
				s.t.Error(err)
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	apply := func(op rollcall.Op) (r rollcall.Result) {
		results, err := s.store.Apply(context.Background(), []rollcall.Op{op})
		if err != nil || results[0].Err != nil {
			s.t.Errorf("%s: %v %+v", showOp(&op), err, results)
			return r
		}
		return results[0]
	}
	for n := range clients {
		working.Go(func() {
			choices := seeded(uint64(n))
			open := rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(fmt.Sprintf("u%02d", n)), Connection: "c"}
			time.Sleep(time.Duration(choices.IntN(int(s.timing.Beat))))
			l := apply(open).Lease
			for range 8 {
				time.Sleep(s.timing.Beat - time.Duration(choices.IntN(int(s.timing.Beat)/18)))
				renewals := []rollcall.Renewal{{Lease: &l}}
				if err := s.store.Renew(context.Background(), renewals); err != nil || renewals[0].Outcome != rollcall.Renewed {
					s.t.Errorf("renewal of u%02d: %v, outcome %d", n, err, renewals[0].Outcome)
				}
				if n%4 == 1 { // a reload
					apply(closeOp(l, grace))
					time.Sleep(grace / 2)
					l = apply(open).Lease
				}
			}
			switch n % 4 {
			case 2:
				apply(endOp(l, rollcall.ReasonLeft))
			case 3: // dies
			default:
				staying.Go(func() {
					for !done.Load() {
						time.Sleep(s.timing.Beat)
						s.renew(l, 0)
					}
				})
			}
		})
	}
	working.Wait()
	// Now the last one to die has done so a lease ago.
	time.Sleep(lease + time.Second)
	done.Store(true)
	staying.Wait()
	<-ticking

	want := make(map[rollcall.UserID]int)
	for n := range clients {
		if n%4 < 2 {
			want[rollcall.UserID(fmt.Sprintf("u%02d", n))] = 1
		}
	}
	s.wantRoom(hall, want)
	events, _ := s.watcher.take()
	story := make(map[rollcall.UserID][]rollcall.Reason)
	for _, e := range events {
		story[e.User] = append(story[e.User], e.Reason)
	}
	for n := range clients {
		id := rollcall.UserID(fmt.Sprintf("u%02d", n))
		got := fmt.Sprint(story[id])
		expect := map[int]string{0: "[]", 1: "[]", 2: "[ left]", 3: "[ expired]"}[n%4]
		if got != expect {
			s.t.Errorf("%q: the feed told %q, want %q", id, got, expect)
		}
	}
}
