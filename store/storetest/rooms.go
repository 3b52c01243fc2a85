package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall"
	"rollcall/store"
)

// rooms reads the whole list, page by page. between is called after each page.
func (s *scene) rooms(prefix string, limit int, between func(page int)) (all []rollcall.RoomSummary) {
	s.t.Helper()
	lister, ok := s.store.(store.Rooms)
	if !ok {
		s.t.Fatal("the store does not list rooms")
	}
	q := rollcall.RoomsQuery{Prefix: prefix, Limit: limit}
	for page := 0; ; page++ {
		a, err := lister.Rooms(context.Background(), q)
		if err != nil {
			s.t.Fatalf("rooms: %v", err)
		}
		if len(a.Rooms) > limit {
			s.t.Fatalf("a page of %d rooms, want at most %d", len(a.Rooms), limit)
		}
		all = append(all, a.Rooms...)
		if a.Next == "" {
			return all
		}
		if page > 1000 {
			s.t.Fatal("the list does not end")
		}
		q.After = a.Next
		if between != nil {
			between(page)
		}
	}
}

func (s *scene) wantRooms(prefix string, limit int, want ...rollcall.RoomID) {
	s.t.Helper()
	var got []rollcall.RoomID
	for _, r := range s.rooms(prefix, limit, nil) {
		got = append(got, r.Room)
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf("the rooms with prefix %q in pages of %d are %q, want %q", prefix, limit, got, want)
	}
}

func enterOp(room rollcall.RoomID, user rollcall.UserID) rollcall.Op {
	return rollcall.Op{Kind: rollcall.OpGrant, Room: room, User: user, Connection: rollcall.ConnectionID("c-" + user)}
}

func leaveOp(room rollcall.RoomID, user rollcall.UserID) rollcall.Op {
	op := enterOp(room, user)
	op.Kind, op.Reason = rollcall.OpEnd, rollcall.ReasonLeft
	return op
}

// roomsAreListedByName: those with members, in byte order, each with its count.
func roomsAreListedByName(s *scene) {
	s.wantRooms("", 10)
	names := []rollcall.RoomID{"doc:1", "doc:10", "doc:2", "doc", "doc\x00", "dod", "DOC:1", "é", "è", "日本", "[x", "(x", "+", "-", "\U0001F600"}
	for _, room := range names {
		s.do(enterOp(room, ana))
	}
	s.do(enterOp("doc:2", bo))
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for _, limit := range []int{1, 2, 7, 200} {
		s.wantRooms("", limit, sorted...)
		s.wantRooms("doc:", limit, "doc:1", "doc:10", "doc:2")
		s.wantRooms("doc", limit, "doc", "doc\x00", "doc:1", "doc:10", "doc:2")
		s.wantRooms("\xc3", limit, "è", "é") // within a character
		s.wantRooms("\xff", limit)
		s.wantRooms("[", limit, "[x")
		s.wantRooms("nothing", limit)
	}
	for _, r := range s.rooms("doc:", 10, nil) {
		want := 1
		if r.Room == "doc:2" {
			want = 2
		}
		if r.Count != want || r.Mode != rollcall.ModeFull {
			s.t.Errorf("%q: %d members in mode %v, want %d in full", r.Room, r.Count, r.Mode, want)
		}
	}
	s.do(leaveOp("doc:2", bo))
	s.do(leaveOp("doc:10", ana))
	s.do(rollcall.Op{Kind: rollcall.OpClose, Room: "doc", User: ana, Connection: "c-ana", Grace: s.timing.CloseGrace / 4})
	s.pass(s.timing.CloseGrace/4 + 250*time.Millisecond)
	s.wantRooms("doc", 2, "doc\x00", "doc:1", "doc:2")
	s.pass(s.timing.Lease + time.Second)
	s.wantRooms("", 3)
}

// listTellsWhoStaysOnce: a room that has members all the while is told exactly
// once, whatever comes and goes between the pages (as A46 has it for members).
func listTellsWhoStaysOnce(s *scene) {
	name := func(i int) rollcall.RoomID { return rollcall.RoomID(fmt.Sprintf("room-%03d", i)) }
	change := func(make func(rollcall.RoomID, rollcall.UserID) rollcall.Op, rooms ...int) {
		s.t.Helper()
		ops := []rollcall.Op{}
		for _, i := range rooms {
			ops = append(ops, make(name(i), ana))
		}
		for _, r := range s.apply(ops...) {
			if r.Err != nil {
				s.t.Fatal(r.Err)
			}
		}
	}
	var even []int
	for i := 0; i < 400; i += 2 {
		even = append(even, i)
	}
	change(enterOp, even...)
	told := s.rooms("room-", 50, func(page int) {
		if page != 0 {
			return
		}
		for i := range 10 {
			change(leaveOp, 20*i)
			change(enterOp, 20*i+1, 20*i+201)
		}
	})
	seen := make(map[rollcall.RoomID]int)
	last := rollcall.RoomID("")
	for _, r := range told {
		if r.Room <= last || !strings.HasPrefix(string(r.Room), "room-") {
			s.t.Errorf("%q after %q", r.Room, last)
		}
		last = r.Room
		seen[r.Room]++
	}
	for _, i := range even {
		left := i%20 == 0 && i < 200
		if n := seen[name(i)]; !left && n != 1 || left && i >= 100 && n != 0 {
			s.t.Errorf("%q was told %d times; left: %v", name(i), n, left)
		}
	}
}

// listTellsTheMode: a room in counts mode says so.
func listTellsTheMode(s *scene) {
	s.crowd(0, 31)
	s.do(enterOp("small", ana))
	got := s.rooms("", 10, nil)
	want := []rollcall.RoomSummary{{Room: hall, Count: 31, Mode: rollcall.ModeCounts}, {Room: "small", Count: 1, Mode: rollcall.ModeFull}}
	if !slices.Equal(got, want) {
		s.t.Errorf("got %+v, want %+v", got, want)
	}
	s.leave(0, 31)
	s.wantRooms("", 10, "small")
}
