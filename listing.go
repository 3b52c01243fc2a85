package rollcall

import (
	"strings"
	"time"
)

// RoomsQuery asks for the rooms with members, in the byte order of their names.
type RoomsQuery struct {
	// Prefix is what the names begin with, byte for byte: it may end within a
	// character.
	Prefix string
	// After is the last name that is known already; "" is none.
	After RoomID
	// Limit is the most rooms to tell.
	Limit int
}

// RoomSummary is what a list of rooms tells of one.
type RoomSummary struct {
	Room  RoomID
	Count int // members
	Mode  Mode
}

// RoomsAnswer is a page of rooms. What it tells of a room is of one moment; rooms
// of several partitions may be of several.
type RoomsAnswer struct {
	Rooms []RoomSummary
	// Next is what After has to be for the next page; "" if this is the last.
	Next RoomID
	// Settling is how long missing members may still be on their way back.
	Settling time.Duration
}

// ListRooms lists the rooms of the partition.
func (p *Partition) ListRooms(now time.Time, q *RoomsQuery) RoomsAnswer {
	p.begin(now)
	a := RoomsAnswer{Settling: p.Settling()}
	p.names.from(max(q.After, RoomID(q.Prefix)), func(id RoomID) bool {
		switch {
		case id == q.After:
			return true
		case !strings.HasPrefix(string(id), q.Prefix):
			return false
		case len(a.Rooms) == max(q.Limit, 0):
			if len(a.Rooms) > 0 {
				a.Next = a.Rooms[len(a.Rooms)-1].Room
			}
			return false
		}
		r := p.rooms[id]
		a.Rooms = append(a.Rooms, RoomSummary{Room: id, Count: len(r.users), Mode: r.mode})
		return true
	})
	return a
}
