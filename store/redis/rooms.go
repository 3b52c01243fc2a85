package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

//go:embed rooms.lua
var roomsLua string

var roomsScript = script(roomsLua)

var _ store.Rooms = (*Store)(nil)

// Rooms implements [store.Rooms]: one round trip, a second one only if the names
// are spread badly.
func (s *Store) Rooms(ctx context.Context, q rollcall.RoomsQuery) (rollcall.RoomsAnswer, error) {
	if s.closed.Load() {
		return rollcall.RoomsAnswer{}, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	a, err := store.GatherRooms(q, func(asks []store.PartitionRooms) error { return s.askRooms(ctx, asks) })
	if err != nil {
		return a, fmt.Errorf("list rooms: %w", err)
	}
	return a, nil
}

func (s *Store) askRooms(ctx context.Context, asks []store.PartitionRooms) error {
	calls := make([]scriptCall, len(asks))
	for i := range asks {
		p, q := &s.parts[asks[i].Partition], &asks[i].Query
		from, to := nameRange(q)
		// One more than asked for tells that there are more.
		calls[i] = scriptCall{p, s.args(p, "", from, to, strconv.Itoa(q.Limit+1))}
	}
	for i, res := range s.run(ctx, roomsScript, calls...) {
		answer, _, err := s.answer(calls[i].p, res)
		if err == nil {
			asks[i].Answer, err = decodeRooms(answer, asks[i].Query.Limit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nameRange are the bounds of a list of rooms: names after After that begin with
// Prefix.
func nameRange(q *rollcall.RoomsQuery) (from, to string) {
	from, to = "-", "+"
	if q.Prefix != "" {
		from = "[" + q.Prefix
		if end := prefixEnd(q.Prefix); end != "" {
			to = "(" + end
		}
	}
	if q.After != "" && string(q.After) >= q.Prefix {
		from = "(" + string(q.After)
	}
	return from, to
}

// prefixEnd is the first string after all that begin with prefix; "" if none is.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

func decodeRooms(answer []rueidis.RedisMessage, limit int) (a rollcall.RoomsAnswer, err error) {
	if len(answer) == 0 {
		return a, fmt.Errorf("no values where 1 is due")
	}
	settling, err := answer[0].AsInt64()
	if err != nil {
		return a, err
	}
	a.Settling = time.Duration(settling) * time.Microsecond
	for _, m := range answer[1:] {
		fields, err := m.ToArray()
		if err != nil || len(fields) < 3 {
			return a, fmt.Errorf("a room cannot be read: %w", err)
		}
		name, err1 := fields[0].ToString()
		members, err2 := fields[1].AsInt64()
		mode, err3 := fields[2].AsInt64()
		if err1 != nil || err2 != nil || err3 != nil {
			return a, fmt.Errorf("a room cannot be read")
		}
		if len(a.Rooms) == limit {
			a.Next = a.Rooms[limit-1].Room
			break
		}
		a.Rooms = append(a.Rooms, rollcall.RoomSummary{Room: rollcall.RoomID(name), Count: int(members), Mode: rollcall.Mode(mode)})
	}
	return a, nil
}
