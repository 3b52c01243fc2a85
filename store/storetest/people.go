package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rollcall"
	"rollcall/store"
)

// people is what the feed has told of users over all rooms. Guarded by the mutex
// of the [Watcher].
type people struct {
	users   map[rollcall.UserID][]rollcall.UserChange
	revoked []rollcall.Revocation
}

func (p *people) frame(f *rollcall.Frame) {
	if p.users == nil {
		p.users = make(map[rollcall.UserID][]rollcall.UserChange)
	}
	for _, c := range f.Users {
		p.users[c.User] = append(p.users[c.User], c)
	}
	p.revoked = append(p.revoked, f.Revoked...)
}

// statuses are the statuses that the feed told of a user, in the order of their
// versions.
func (w *Watcher) statuses(user rollcall.UserID) (all []rollcall.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := slices.Clone(w.people.users[user])
	slices.SortFunc(changes, func(a, b rollcall.UserChange) int { return int(a.Version - b.Version) })
	for _, c := range changes {
		all = append(all, c.Status)
	}
	return all
}

func (w *Watcher) revocations() []rollcall.Revocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.people.revoked)
}

// checkUsers compares where everybody is, over all rooms, with the oracle. A bare
// partition cannot tell.
func (w *World) checkUsers() {
	s, ok := w.store.(store.Users)
	if !ok {
		return
	}
	a, err := s.Users(context.Background(), worldUsers)
	w.try(err, "users")
	for i, user := range worldUsers {
		got, want := a.Users[i], rollcall.Whereabouts{User: user}
		for _, room := range w.Rooms {
			if m := w.oracle.Member(room, user); m != nil {
				want.Status = max(want.Status, m.Status)
				want.Rooms = append(want.Rooms, rollcall.RoomStatus{Room: room, Status: m.Status})
			}
		}
		w.try(sameWhereabouts(got, want), "whereabouts of %q", user)
	}
}

func sameWhereabouts(got, want rollcall.Whereabouts) error {
	byRoom := func(a, b rollcall.RoomStatus) int { return compare(a.Room, b.Room) }
	slices.SortFunc(got.Rooms, byRoom)
	slices.SortFunc(want.Rooms, byRoom)
	if got.User != want.User || got.Status != want.Status || !slices.Equal(got.Rooms, want.Rooms) {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}

func compare(a, b rollcall.RoomID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

const cellar rollcall.RoomID = "cellar"

// whereabouts is where a user is.
func (s *scene) whereabouts(user rollcall.UserID) rollcall.Whereabouts {
	s.t.Helper()
	a, err := s.store.(store.Users).Users(context.Background(), []rollcall.UserID{user})
	if err != nil || len(a.Users) != 1 {
		s.t.Fatalf("users: %+v, %v", a, err)
	}
	return a.Users[0]
}

func (s *scene) wantWhereabouts(user rollcall.UserID, rooms ...rollcall.RoomStatus) rollcall.Whereabouts {
	s.t.Helper()
	want := rollcall.Whereabouts{User: user, Rooms: rooms}
	for _, at := range rooms {
		want.Status = max(want.Status, at.Status)
	}
	got := s.whereabouts(user)
	if err := sameWhereabouts(got, want); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// eventually waits for something that a feed from elsewhere may bring a little
// late.
func (s *scene) eventually(what string, is func() bool) {
	s.t.Helper()
	for wait := 0; !is(); wait++ {
		if s.virtual || wait == 100 {
			s.t.Fatal(what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func kickOp(user rollcall.UserID, ban time.Duration) rollcall.Op {
	return rollcall.Op{Kind: rollcall.OpEndUser, Room: hall, User: user, Reason: rollcall.ReasonKicked, Ban: ban}
}

func banRefusesGrants(s *scene) {
	old := s.open(ana, "c1")
	keeper := s.open(bo, "c2")
	ban := 3 * s.timing.Lease
	s.do(kickOp(ana, ban))
	refused := func(op rollcall.Op) {
		s.t.Helper()
		if r := s.apply(op)[0]; r.Err == nil || r.Err.Code != rollcall.CodeForbidden || r.Lease.Generation != 0 {
			s.t.Fatalf("%s: %+v, want forbidden", showOp(&op), r)
		}
	}
	anew := rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c3"}
	again := anew
	again.Connection = old.Connection
	resume := again
	resume.ResumeOnly = true
	for _, op := range []rollcall.Op{anew, again, resume} {
		refused(op)
	}
	// Nobody else and nowhere else.
	s.open(bo, "c4")
	s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: cellar, User: ana, Connection: "c1"})
	s.beat(ban-s.timing.Lease, keeper)
	refused(anew)
	s.beat(s.timing.Lease+time.Second, keeper)
	s.do(anew)
	s.wantStory("ana", "bo", "ana kicked", "ana")
}

func kickOfWhoIsAbsentBansNobody(s *scene) {
	if r := s.apply(kickOp(ana, time.Hour))[0]; r.Err == nil || r.Err.Code != rollcall.CodeNotFound {
		s.t.Errorf("got %+v, want not found", r)
	}
	s.open(ana, "c1")
	s.do(kickOp(ana, 0))
	s.open(ana, "c2") // a kick without a ban
	s.wantStory("ana", "ana kicked", "ana")
}

func whereaboutsAreThoseOfTheRooms(s *scene) {
	at := func(room rollcall.RoomID, status rollcall.Status) rollcall.RoomStatus {
		return rollcall.RoomStatus{Room: room, Status: status}
	}
	if w := s.wantWhereabouts(ana); w.Seen != 0 {
		s.t.Fatalf("never seen, and last seen %d", w.Seen)
	}
	inHall := s.open(ana, "c1")
	s.wantWhereabouts(ana, at(hall, rollcall.StatusActive))
	s.set(inHall, rollcall.StatusAway, "")
	s.wantWhereabouts(ana, at(hall, rollcall.StatusAway))
	below := s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: cellar, User: ana, Connection: "c2", Status: rollcall.StatusIdle}).Lease
	s.wantWhereabouts(ana, at(hall, rollcall.StatusAway), at(cellar, rollcall.StatusIdle))
	s.open(ana, "c3") // active
	s.wantWhereabouts(ana, at(hall, rollcall.StatusActive), at(cellar, rollcall.StatusIdle))
	s.wantWhereabouts(bo)
	s.do(kickOp(ana, 0))
	s.wantWhereabouts(ana, at(cellar, rollcall.StatusIdle))
	s.do(endOp(below, rollcall.ReasonLeft))
	if w := s.wantWhereabouts(ana); w.Seen == 0 {
		s.t.Fatal("ana was here, and was never seen")
	}
}

func statusAnywhereIsTold(s *scene) {
	told := func(want ...rollcall.Status) {
		s.t.Helper()
		s.eventually(fmt.Sprintf("the feed told the statuses %v of ana, want %v", s.watcher.statuses(ana), want), func() bool {
			s.whereabouts(ana) // what one asks for has been written
			return slices.Equal(s.watcher.statuses(ana), want)
		})
	}
	const gone = rollcall.StatusUnset
	inHall := s.open(ana, "c1")
	told(rollcall.StatusActive)
	s.set(inHall, rollcall.StatusUnset, `{"a":1}`)
	below := s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: cellar, User: ana, Connection: "c2", Status: rollcall.StatusIdle}).Lease
	told(rollcall.StatusActive)
	s.set(inHall, rollcall.StatusAway, "")
	told(rollcall.StatusActive, rollcall.StatusIdle)
	s.do(endOp(below, rollcall.ReasonLeft))
	told(rollcall.StatusActive, rollcall.StatusIdle, rollcall.StatusAway)
	s.do(closeOp(inHall, 0))
	told(rollcall.StatusActive, rollcall.StatusIdle, rollcall.StatusAway, gone)
	if w := s.whereabouts(ana); w.Version == 0 || w.Status != gone {
		s.t.Errorf("got %+v, want a version and no status", w)
	}
}

// A17.
func lastSeenIsTheLastEvidence(s *scene) {
	near := func(what string, got int64, want time.Time, within time.Duration) {
		s.t.Helper()
		if off := time.UnixMilli(got).Sub(want); off < -within || off > within {
			s.t.Fatalf("%s: last seen %v from then, want within %v", what, off, within)
		}
	}
	within := time.Millisecond
	if !s.virtual {
		within = s.timing.Lease // a minute, with usual leases
	}
	l := s.open(ana, "c1")
	s.beat(2*s.timing.Lease, l)
	age := s.timing.Lease / 5
	s.pass(age)
	evidence := time.Now().Add(-age / 2)
	s.renew(l, age/2)
	near("present", s.whereabouts(ana).Seen, evidence, within)
	s.pass(2 * s.timing.Lease)
	if w := s.wantWhereabouts(ana); w.Seen != 0 {
		near("expired", w.Seen, evidence, within+time.Second)
	} else {
		s.t.Fatal("expired, and never seen")
	}
	l = s.open(ana, "c2")
	s.do(closeOp(l, s.timing.CloseGrace))
	closed := time.Now()
	s.pass(s.timing.CloseGrace + 500*time.Millisecond)
	near("closed", s.wantWhereabouts(ana).Seen, closed, within+s.timing.CloseGrace+500*time.Millisecond)
}

// longLeaseIsNotForgotten: a lease that is renewed now and then, as its holder
// asked for, is present all the while.
func longLeaseIsNotForgotten(s *scene) {
	s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1", TTL: 6 * s.timing.Lease})
	s.pass(4 * s.timing.Lease)
	s.wantWhereabouts(ana, rollcall.RoomStatus{Room: hall, Status: rollcall.StatusActive})
	s.pass(3 * s.timing.Lease)
	s.wantWhereabouts(ana)
}

func (s *scene) revoke(user rollcall.UserID, session string) {
	s.t.Helper()
	if err := s.store.(store.Control).Revoke(context.Background(), rollcall.Revocation{User: user, Session: session}); err != nil {
		s.t.Fatalf("revoke: %v", err)
	}
}

func (s *scene) revoked(users ...rollcall.UserID) []rollcall.Revoked {
	s.t.Helper()
	all, err := s.store.(store.Control).Revoked(context.Background(), users)
	if err != nil || len(all) != len(users) {
		s.t.Fatalf("revoked: %v, %v", all, err)
	}
	return all
}

// A48.
func revocationRefuses(s *scene) {
	before := time.Now().Add(-time.Minute)
	want := func(step, session string, issued time.Time, refused bool) {
		s.t.Helper()
		if got := s.revoked(bo, ana)[1].Refuses(issued, session); got != refused {
			s.t.Fatalf("%s: session %q issued %v: refused %v, want %v", step, session, issued, got, refused)
		}
	}
	want("at first", "", before, false)
	want("at first", "", time.Time{}, false)
	s.revoke(ana, "phone")
	after := time.Now().Add(time.Second)
	want("one session", "phone", before, true)
	want("one session", "phone", after, false)
	want("one session", "laptop", before, false)
	want("one session", "", before, false)
	s.revoke(ana, "")
	want("everything", "laptop", before, true)
	want("everything", "", time.Time{}, true)
	want("everything", "", time.Now().Add(-5*time.Millisecond).Truncate(time.Second), true)
	want("everything", "phone", time.Now().Add(time.Second), false)
	if r := s.revoked(bo)[0]; r.Refuses(before, "phone") {
		s.t.Errorf("bo: %+v, and nothing was revoked", r)
	}
}

func revocationIsTold(s *scene) {
	s.open(ana, "c1")
	s.wantStory("ana")
	s.revoke(ana, "phone")
	s.revoke(bo, "")
	s.eventually("the revocations were not told", func() bool { return len(s.watcher.revocations()) == 2 })
	for _, r := range s.watcher.revocations() {
		if off := time.Since(time.UnixMilli(r.Before)); r.User == ana && r.Session != "phone" || r.User == bo && r.Session != "" || off < -time.Second || off > time.Minute {
			s.t.Errorf("told %+v", r)
		}
	}
	s.wantStory("ana") // whoever serves ana ends the leases
}
