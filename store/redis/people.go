package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

var (
	//go:embed person.lua
	personLua string
	//go:embed index.lua
	indexLua string
	//go:embed users.lua
	usersLua string
	//go:embed where.lua
	whereLua string
	//go:embed revoke.lua
	revokeLua string

	indexScript  = script(personLua + indexLua)
	usersScript  = script(usersLua)
	whereScript  = script(whereLua)
	revokeScript = script(revokeLua)
)

var (
	_ store.Users   = (*Store)(nil)
	_ store.Control = (*Store)(nil)
)

// usersMost is the most users of one script call.
const usersMost = 200

// Users implements [store.Users]. It sees what this node has done.
func (s *Store) Users(ctx context.Context, users []rollcall.UserID) (a rollcall.UsersAnswer, err error) {
	switch {
	case s.closed.Load():
		return a, errClosed
	case s.o.NoUserIndex:
		return a, store.ErrNoIndex
	}
	batches := userBatches(users)
	if err := s.index.flush(ctx); err != nil && s.anyAway(batches) {
		return a, fmt.Errorf("users: %w", err) // of others what failed need not be known
	}
	a.Users = make([]rollcall.Whereabouts, len(users))
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	for len(batches) > 0 {
		if batches, err = s.users(ctx, users, batches, &a); err != nil {
			return rollcall.UsersAnswer{}, fmt.Errorf("users: %w", err)
		}
	}
	return a, nil
}

// userBatch are places in a list of users of one partition.
type userBatch struct {
	partition int
	places    []int
}

func (s *Store) anyAway(batches []userBatch) bool {
	return slices.ContainsFunc(batches, func(b userBatch) bool { return s.parts[b.partition].away.Load() })
}

func userBatches(users []rollcall.UserID) (batches []userBatch) {
	byPartition := make(map[int][]int)
	for i, user := range users {
		n := rollcall.PartitionOfUser(user)
		byPartition[n] = append(byPartition[n], i)
	}
	for n, places := range byPartition {
		for len(places) > 0 {
			k := min(len(places), usersMost)
			batches = append(batches, userBatch{n, places[:k]})
			places = places[k:]
		}
	}
	return batches
}

// users asks for batches in one round trip, and returns those to ask for again.
func (s *Store) users(ctx context.Context, users []rollcall.UserID, batches []userBatch, a *rollcall.UsersAnswer) (again []userBatch, err error) {
	calls := make([]scriptCall, len(batches))
	for i, b := range batches {
		p := &s.parts[b.partition]
		own := make([]string, len(b.places))
		for j, place := range b.places {
			own[j] = string(users[place])
		}
		calls[i] = scriptCall{p, s.args(p, p.knownEpoch(), own...)}
	}
	for i, res := range s.run(ctx, usersScript, calls...) {
		b := batches[i]
		answer, other, err := s.answer(&s.parts[b.partition], res)
		if err != nil {
			return nil, err
		}
		if other {
			again = append(again, b)
			continue
		}
		if len(answer) != 1+len(b.places) {
			return nil, fmt.Errorf("%d answers for %d users", len(answer)-1, len(b.places))
		}
		settling, err := answer[0].AsInt64()
		if err != nil {
			return nil, err
		}
		a.Settling = max(a.Settling, time.Duration(settling)*time.Microsecond)
		for j, place := range b.places {
			if a.Users[place], err = whereabouts(users[place], answer[1+j]); err != nil {
				return nil, err
			}
		}
	}
	return again, nil
}

// whereabouts reads {version, last seen, room, status...}.
func whereabouts(user rollcall.UserID, m rueidis.RedisMessage) (w rollcall.Whereabouts, err error) {
	w.User = user
	fields, err := m.ToArray()
	if err != nil || len(fields) < 2 || len(fields)%2 != 0 {
		return w, fmt.Errorf("the whereabouts of a user cannot be read: %w", err)
	}
	version, err1 := fields[0].AsInt64()
	seen, err2 := fields[1].AsInt64()
	if err1 != nil || err2 != nil {
		return w, fmt.Errorf("the whereabouts of a user cannot be read")
	}
	w.Version, w.Seen = rollcall.Version(version), seen
	for i := 2; i < len(fields); i += 2 {
		room, err1 := fields[i].ToString()
		status, err2 := fields[i+1].AsInt64()
		if err1 != nil || err2 != nil {
			return w, fmt.Errorf("the whereabouts of a user cannot be read")
		}
		at := rollcall.RoomStatus{Room: rollcall.RoomID(room), Status: rollcall.Status(status)}
		w.Rooms = append(w.Rooms, at)
		w.Status = max(w.Status, at.Status)
	}
	return w, nil
}

// Revoke implements [store.Control].
func (s *Store) Revoke(ctx context.Context, r rollcall.Revocation) error {
	p := &s.parts[rollcall.PartitionOfUser(r.User)]
	_, _, err := s.exec(ctx, revokeScript, p, string(r.User), r.Session, strconv.FormatInt(s.o.Limits.TokenLife.Milliseconds(), 10))
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// Revoked implements [store.Control]. It asks every time: what it answers is
// never old.
func (s *Store) Revoked(ctx context.Context, users []rollcall.UserID) ([]rollcall.Revoked, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	commands := make([]rueidis.Completed, len(users))
	for i, user := range users {
		p := &s.parts[rollcall.PartitionOfUser(user)]
		commands[i] = s.client.B().Hgetall().Key(p.prefix + "v:" + string(user)).Build()
	}
	all := make([]rollcall.Revoked, len(users))
	for i, res := range s.client.DoMulti(ctx, commands...) {
		fields, err := res.AsStrMap()
		if err != nil {
			return nil, fmt.Errorf("revoked: %w", err)
		}
		for field, text := range fields {
			before, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("revoked: %w", err)
			}
			session, _ := strings.CutPrefix(field, "s")
			if field == "a" {
				session = ""
			}
			all[i].Note(rollcall.Revocation{User: users[i], Session: session, Before: before})
		}
	}
	return all, nil
}

// userChanges reads {user, status, version}s.
func (r *reader) userChanges() (all []rollcall.UserChange) {
	for k := r.list(1 << 16); k > 0; k-- {
		n := r.fields(3)
		all = append(all, rollcall.UserChange{
			User: rollcall.UserID(r.text()), Status: rollcall.Status(r.number()), Version: rollcall.Version(r.number()),
		})
		r.skip(n - 3)
	}
	return all
}

// revocations reads {user, session, moment}s.
func (r *reader) revocations() (all []rollcall.Revocation) {
	for k := r.list(1 << 16); k > 0; k-- {
		n := r.fields(3)
		all = append(all, rollcall.Revocation{User: rollcall.UserID(r.text()), Session: r.text(), Before: r.number()})
		r.skip(n - 3)
	}
	return all
}
