package store

import (
	"context"
	"slices"
	"time"

	"rollcall"
)

// Rooms is a store that can list the rooms with members. Stores may implement it;
// safe for concurrent use.
type Rooms interface {
	// Rooms tells a page of the rooms with members, over all partitions. A room
	// that has members all the while is told exactly once over the pages.
	Rooms(ctx context.Context, q rollcall.RoomsQuery) (rollcall.RoomsAnswer, error)
}

var _ Rooms = (*Memory)(nil)

// Rooms implements [Rooms].
func (m *Memory) Rooms(_ context.Context, q rollcall.RoomsQuery) (rollcall.RoomsAnswer, error) {
	if m.closed.Load() {
		return rollcall.RoomsAnswer{}, ErrClosed
	}
	return GatherRooms(q, func(asks []PartitionRooms) error {
		for i := range asks {
			p := &m.partitions[asks[i].Partition]
			p.mu.Lock()
			asks[i].Answer = p.state.ListRooms(time.Now(), &asks[i].Query)
			p.mu.Unlock()
		}
		return nil
	})
}

// PartitionRooms is what one partition is asked for a list of rooms, and answers.
type PartitionRooms struct {
	Partition int
	Query     rollcall.RoomsQuery
	Answer    rollcall.RoomsAnswer
}

// GatherRooms makes a page of the rooms of all partitions. ask fills in the
// answers of some of them. As names are spread by their hash, each is first asked
// for a little more than its share, and again only if that was too few. A room
// that is answered with a count of 0 is passed over.
func GatherRooms(q rollcall.RoomsQuery, ask func([]PartitionRooms) error) (rollcall.RoomsAnswer, error) {
	limit := max(q.Limit, 1)
	asks := make([]PartitionRooms, rollcall.Partitions)
	for i := range asks {
		share := q
		share.Limit = min(limit+1, limit/8+4)
		asks[i] = PartitionRooms{Partition: i, Query: share}
	}
	var all rollcall.RoomsAnswer
	for len(asks) > 0 {
		if err := ask(asks); err != nil {
			return rollcall.RoomsAnswer{}, err
		}
		for i := range asks {
			all.Rooms = append(all.Rooms, asks[i].Answer.Rooms...)
			all.Settling = max(all.Settling, asks[i].Answer.Settling)
		}
		slices.SortFunc(all.Rooms, func(a, b rollcall.RoomSummary) int { return compareNames(a.Room, b.Room) })
		if len(all.Rooms) > limit {
			all.Rooms = all.Rooms[:limit+1]
		}
		again := asks[:0]
		for _, a := range asks {
			// What it did not tell comes after Next.
			if next := a.Answer.Next; next != "" && (len(all.Rooms) <= limit || next < all.Rooms[limit].Room) {
				a.Query.After, a.Query.Limit, a.Answer = next, limit+1, rollcall.RoomsAnswer{}
				again = append(again, a)
			}
		}
		asks = again
	}
	if len(all.Rooms) > limit {
		all.Rooms = all.Rooms[:limit]
		all.Next = all.Rooms[limit-1].Room
	}
	all.Rooms = slices.DeleteFunc(all.Rooms, func(r rollcall.RoomSummary) bool { return r.Count == 0 })
	return all, nil
}

func compareNames(a, b rollcall.RoomID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
