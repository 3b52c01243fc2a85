package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// roomAnswer is what the read script tells of a room.
type roomAnswer struct {
	rollcall.Answer
	seq     uint64
	records []*record
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	p := &s.parts[rollcall.PartitionOf(q.Room)]
	want := map[rollcall.Want]string{
		rollcall.WantRoom: "r", rollcall.WantSnapshot: "a", rollcall.WantPage: "p", rollcall.WantUsers: "u",
	}[q.Want]
	args := q.Users
	if q.Want == rollcall.WantPage {
		args = []rollcall.UserID{
			rollcall.UserID(strconv.FormatInt(int64(q.Cursor), 10)), rollcall.UserID(strconv.Itoa(max(q.Limit, 0))),
		}
	}
	a, err := s.readRoom(ctx, p, q.Room, want, args)
	if err != nil {
		return rollcall.Answer{}, fmt.Errorf("read: %w", err)
	}
	switch q.Want {
	case rollcall.WantSnapshot:
		newestFirst(a.records)
		if a.Mode == rollcall.ModeCounts {
			slices.Reverse(a.records) // the longest present first
		}
		a.Members = make([]*rollcall.Member, len(a.records))
		for i, rec := range a.records {
			a.Members[i] = rec.member(true)
		}
	case rollcall.WantPage:
		newestFirst(a.records)
		a.page(&q)
	case rollcall.WantUsers:
		a.show(a.records, q.States)
	}
	return a.Answer, nil
}

// newestFirst is the order of joins, the newest first.
func newestFirst(records []*record) {
	slices.SortFunc(records, func(a, b *record) int { return int(min(max(b.joined-a.joined, -1), 1)) })
}

// page keeps the records after the cursor, as many as asked for.
func (a *roomAnswer) page(q *rollcall.Query) {
	limit := max(q.Limit, 0)
	from := 0
	for q.Cursor > 0 && from < len(a.records) && a.records[from].joined >= q.Cursor {
		from++
	}
	to := min(from+limit, len(a.records))
	a.show(a.records[from:to], q.States)
	if to < len(a.records) && to > from {
		a.Next = a.records[to-1].joined
	}
}

func (a *roomAnswer) show(records []*record, states bool) {
	a.Members = make([]*rollcall.Member, 0, len(records))
	for _, rec := range records {
		a.Members = append(a.Members, rec.member(false))
		if states {
			a.States = append(a.States, rec.states())
		}
	}
}

// readRoom runs the read script; args are the users, or cursor and length of a
// page.
func (s *Store) readRoom(ctx context.Context, p *partition, room rollcall.RoomID, want string, args []rollcall.UserID) (*roomAnswer, error) {
	own := append(make([]string, 0, 2+len(args)), string(room), want)
	for _, a := range args {
		own = append(own, string(a))
	}
	epoch, answer, err := s.exec(ctx, readScript, p, own...)
	if err != nil {
		return nil, err
	}
	if len(answer) < 6 {
		return nil, fmt.Errorf("%d values where 6 are due", len(answer))
	}
	var numbers [6]int64
	for i := range numbers {
		if numbers[i], err = answer[i].AsInt64(); err != nil {
			return nil, err
		}
	}
	a := &roomAnswer{seq: uint64(numbers[0])}
	a.Epoch, a.Version = epoch, rollcall.Version(numbers[1])
	a.Count, a.Connections = int(numbers[2]), int(numbers[3])
	a.Settling, a.Mode = time.Duration(numbers[4])*time.Microsecond, rollcall.Mode(numbers[5])
	if a.records, err = s.decodeRecords(answer[6:]); err != nil {
		return nil, err
	}
	return a, nil
}

// decodeRecords reads what it can: users that a later release has written in a
// layout of its own are left out.
func (s *Store) decodeRecords(list []rueidis.RedisMessage) ([]*record, error) {
	records := make([]*record, 0, len(list))
	for i := range list {
		pair, err := list[i].AsStrSlice()
		if err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("a record cannot be read: %w", err)
		}
		rec, err := decodeRecord(pair[0], pair[1])
		if errors.Is(err, errLayout) {
			s.unknown("a user")
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}
