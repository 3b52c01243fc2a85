package rollcall

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRoomNamesAreASortedSet(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		var names roomNames
		var want []RoomID
		for step := range 6000 {
			id := RoomID(fmt.Sprintf("%x", r.IntN(3000)))
			at, there := slices.BinarySearch(want, id)
			// First they come, then they go.
			switch {
			case !there && r.IntN(6000) > step:
				want = slices.Insert(want, at, id)
				names.add(id)
			case there && r.IntN(6000) < step:
				want = slices.Delete(want, at, at+1)
				names.remove(id)
			}
			if step%97 != 0 {
				continue
			}
			from, _ := slices.BinarySearch(want, id)
			got := []RoomID{}
			names.from(id, func(name RoomID) bool {
				got = append(got, name)
				return len(got) < 700
			})
			if !slices.Equal(got, want[from:min(from+700, len(want))]) {
				t.Fatalf("seed %d, step %d: from %q: got %d names, want %d", seed, step, id, len(got), len(want)-from)
			}
			for _, p := range names.pieces {
				if len(p) == 0 || len(p) > namesPiece {
					t.Fatalf("a piece of %d names", len(p))
				}
			}
		}
	}
}

// TestListIsThatOfTheRooms compares pages of the list with what a walk over all
// rooms gives, also in a partition that was restored.
func TestListIsThatOfTheRooms(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := NewPartition(PartitionOptions{Epoch: "e"}, now)
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		op := Op{Kind: OpGrant, Room: RoomID(fmt.Sprintf("%c%d", 'a'+r.IntN(3), r.IntN(50))), User: "ana", Connection: "c"}
		if r.IntN(3) == 0 {
			op.Kind, op.Reason = OpEnd, ReasonLeft
		}
		p.Apply(now, []Op{op}, make([]Result, 1))
	}
	saved := p.Save()
	restored := NewPartition(PartitionOptions{Epoch: "e"}, now)
	restored.Restore(now, &saved, func(Held) {})
	for _, p := range []*Partition{p, restored} {
		for _, prefix := range []string{"", "a", "b1", "d", "\xff"} {
			var want, got []RoomID
			for id := range p.rooms {
				if strings.HasPrefix(string(id), prefix) {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			for q := (RoomsQuery{Prefix: prefix, Limit: 7}); ; {
				a := p.ListRooms(now, &q)
				for _, r := range a.Rooms {
					got = append(got, r.Room)
				}
				if q.After = a.Next; q.After == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q: got %q, want %q", prefix, got, want)
			}
		}
	}
}
