package storetest

import (
	"fmt"
	"slices"

	"rollcall"
)

// crowd opens one connection for each of n users.
func (s *scene) crowd(from, to int) {
	s.t.Helper()
	var ops []rollcall.Op
	for i := from; i < to; i++ {
		id := fmt.Sprintf("u%03d", i)
		ops = append(ops, rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id)})
	}
	for _, r := range s.apply(ops...) {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

// leave ends the connections of users.
func (s *scene) leave(from, to int) {
	s.t.Helper()
	var ops []rollcall.Op
	for i := from; i < to; i++ {
		id := fmt.Sprintf("u%03d", i)
		ops = append(ops, rollcall.Op{Kind: rollcall.OpEnd, Room: hall, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id), Reason: rollcall.ReasonLeft})
	}
	for _, r := range s.apply(ops...) {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

func (s *scene) wantMode(mode rollcall.Mode, members int) {
	s.t.Helper()
	for _, want := range []rollcall.Want{rollcall.WantRoom, rollcall.WantSnapshot, rollcall.WantPage} {
		a := s.read(rollcall.Query{Want: want, Room: hall, Limit: 50})
		if a.Mode != mode || a.Count != members {
			s.t.Fatalf("read %d: mode %v with %d members, want %v with %d", want, a.Mode, a.Count, mode, members)
		}
	}
}

// S7: modes change at the thresholds and nowhere else.
func modesChangeAtTheThresholds(s *scene) {
	s.crowd(0, 30)
	s.wantMode(rollcall.ModeFull, 30)
	s.crowd(30, 31)
	s.wantMode(rollcall.ModeCounts, 31)
	for range 3 { // back and forth between the thresholds
		s.leave(20, 31)
		s.wantMode(rollcall.ModeCounts, 20)
		s.crowd(20, 31)
	}
	s.wantMode(rollcall.ModeCounts, 31)

	a := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: hall})
	var sample []string
	for _, m := range a.Members {
		sample = append(sample, string(m.User))
	}
	want := []string{"u000", "u001", "u002", "u003", "u004", "u005", "u006", "u007", "u008", "u009", "u010", "u011"}
	if !slices.Equal(sample, want) {
		s.t.Errorf("the sample is %v, want those who have been here longest", sample)
	}

	s.leave(0, 12)
	s.wantMode(rollcall.ModeFull, 19)
	s.crowd(0, 11)
	s.wantMode(rollcall.ModeFull, 30)
	s.leave(0, 11)
	s.leave(12, 31)
	s.wantMode(rollcall.ModeFull, 0)
}

// tiny is a room with rules of its own: to counts above 3, back below 2.
const tiny = "tiny"

func modesAreThoseOfTheRoom(s *scene) {
	want := func(mode rollcall.Mode, members int) {
		s.t.Helper()
		if a := s.read(rollcall.Query{Room: tiny}); a.Mode != mode || a.Count != members {
			s.t.Fatalf("mode %v with %d members, want %v with %d", a.Mode, a.Count, mode, members)
		}
	}
	for i := range 4 {
		id := fmt.Sprintf("u%03d", i)
		// One call for two rooms, each with its own thresholds.
		s.apply(
			rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id)},
			rollcall.Op{Kind: rollcall.OpGrant, Room: tiny, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id)},
		)
		s.wantMode(rollcall.ModeFull, i+1)
		want(rollcall.Mode(i/3), i+1)
	}
	for i := range 3 {
		id := fmt.Sprintf("u%03d", i)
		s.apply(rollcall.Op{Kind: rollcall.OpEnd, Room: tiny, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id), Reason: rollcall.ReasonLeft})
		want(rollcall.Mode(1-i/2), 3-i)
	}
}

// A46, in a room of either mode.
func pagesOfACrowd(s *scene) {
	s.crowd(0, 100)
	s.wantMode(rollcall.ModeCounts, 100)
	seen := make(map[rollcall.UserID]int)
	var cursor rollcall.Version
	for page := 0; ; page++ {
		a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: hall, Cursor: cursor, Limit: 7, States: true})
		for i, m := range a.Members {
			seen[m.User]++
			if len(a.States[i]) != 1 {
				s.t.Fatalf("%q has %d connections", m.User, len(a.States[i]))
			}
		}
		if page == 2 {
			s.leave(0, 5)
			s.crowd(100, 110)
			s.do(rollcall.Op{Kind: rollcall.OpSet, Room: hall, User: "u050", Connection: "u050", Status: rollcall.StatusIdle})
		}
		if cursor = a.Next; cursor == 0 {
			break
		}
	}
	for i := 5; i < 100; i++ {
		if id := rollcall.UserID(fmt.Sprintf("u%03d", i)); seen[id] != 1 {
			s.t.Errorf("%q, who stayed, was seen %d times", id, seen[id])
		}
	}
	for i := range 5 {
		if id := rollcall.UserID(fmt.Sprintf("u%03d", i)); seen[id] != 0 {
			s.t.Errorf("%q, who had left, was seen", id)
		}
	}
	s.leave(5, 110)
	s.wantMode(rollcall.ModeFull, 0)
}
