package store_test

import (
	"fmt"
	"slices"
	"testing"

	"rollcall"
	"rollcall/store"
)

// TestGatheredRoomsAreComplete: whoever names rooms so that they fall into few
// partitions still gets all of them, in order.
func TestGatheredRoomsAreComplete(t *testing.T) {
	for _, partitions := range []int{1, 3, rollcall.Partitions} {
		byPartition := make([][]rollcall.RoomID, rollcall.Partitions)
		var want []rollcall.RoomID
		for i := range 300 {
			room := rollcall.RoomID(fmt.Sprintf("r%03d", i))
			p := (i * 7 % 11) % partitions
			if partitions == rollcall.Partitions {
				p = rollcall.PartitionOf(room)
			}
			byPartition[p] = append(byPartition[p], room)
			want = append(want, room)
		}
		for _, limit := range []int{1, 10, 64, 200, 1000} {
			var got []rollcall.RoomID
			for q := (rollcall.RoomsQuery{Limit: limit}); ; {
				rounds := 0
				a, err := store.GatherRooms(q, func(asks []store.PartitionRooms) error {
					if rounds++; rounds > 2 {
						t.Fatalf("limit %d: asked %d times", limit, rounds)
					}
					for i := range asks {
						answer(&asks[i], byPartition[asks[i].Partition])
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range a.Rooms {
					got = append(got, r.Room)
				}
				if q.After = a.Next; q.After == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d partitions, limit %d: got %d rooms, want %d in order", partitions, limit, len(got), len(want))
			}
		}
	}
}

func answer(ask *store.PartitionRooms, rooms []rollcall.RoomID) {
	ask.Answer = rollcall.RoomsAnswer{}
	for _, room := range rooms {
		if room <= ask.Query.After {
			continue
		}
		if len(ask.Answer.Rooms) == ask.Query.Limit {
			ask.Answer.Next = ask.Answer.Rooms[ask.Query.Limit-1].Room
			return
		}
		ask.Answer.Rooms = append(ask.Answer.Rooms, rollcall.RoomSummary{Room: room, Count: 1})
	}
}
