package server

import (
	"cmp"
	"context"
	"slices"

	"rollcall"
	"rollcall/server/auth"
)

// find grants again what a connection from another node holds besides the leases that
// it asks for: in the rooms where its user is, and in held, which are those that it
// held here when it went. Where it may not be any more, or not be seen, it ends it. It
// returns entries and what is to be shown besides. What cannot be found now is looked
// for when the client comes back the next time. Called with c.op held.
func (o *opening) find(ctx context.Context, entries []entry, held []rollcall.RoomID) []entry {
	c, id := o.c, o.identity
	rooms, settling, indexed := c.whereabouts(ctx)
	for _, room := range held {
		if !slices.Contains(rooms, room) {
			rooms = append(rooms, room)
		}
	}
	var ops []rollcall.Op
	for _, room := range rooms {
		op := c.resumeOp(room)
		switch i := entryOf(entries, room); {
		case id.Hidden:
			op = rollcall.Op{Kind: rollcall.OpEnd, Room: room, User: c.user, Connection: c.id, Reason: rollcall.ReasonLeft}
		case !id.Can(room, auth.Presence):
			op = rollcall.Op{Kind: rollcall.OpEnd, Room: room, User: c.user, Connection: c.id, Reason: rollcall.ReasonRevoked}
		case i >= 0 && !entries[i].observe:
			continue // it is granted with the others
		}
		ops = append(ops, op)
	}
	results, reached := c.regain(ctx, ops)
	for i := range ops {
		room, err := ops[i].Room, results[i].Err
		at, was := entryOf(entries, room), slices.Contains(held, room)
		switch {
		case err == nil && at >= 0:
			entries[at].granted = ops[i].Kind == rollcall.OpGrant
		case err == nil && ops[i].Kind == rollcall.OpGrant:
			entries = append(entries, entry{room: room, granted: true})
		case err == nil && id.Hidden && id.Can(room, auth.Read):
			entries = append(entries, entry{room: room}) // it goes on looking
		case err == nil && !slices.Contains(o.revoked, room):
			o.revoked = append(o.revoked, room)
		case err == nil:
			// It was told of before.
		case was && (err.Code == rollcall.CodeUnavailable || settling):
			entries = append(entries, entry{room: room}) // as far as is known here
		case was:
			c.drop(room) // it has left there
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = indexed && reached
	return entries
}

// drop lets go of a room, where the connection holds nothing any more.
func (c *connection) drop(room rollcall.RoomID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.findLocked(room); s != nil {
		s.lease, s.waiting = rollcall.Lease{}, false
		c.dropLocked(s)
	}
}

// entryOf is the place of a room among entries; -1 if it is not there.
func entryOf(entries []entry, room rollcall.RoomID) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.room == room })
}

// whereabouts are the rooms where the user of the connection is, by whichever
// connection; ok is false if that cannot be told.
func (c *connection) whereabouts(ctx context.Context) (rooms []rollcall.RoomID, settling, ok bool) {
	a, err := c.h.whereabouts(ctx, []rollcall.UserID{c.user})
	if err != nil {
		return nil, false, false
	}
	for _, at := range a.Users[0].Rooms {
		rooms = append(rooms, at.Room)
	}
	return rooms, a.Settling > 0, true
}

// resumeOp grants the connection again what it holds in a room, if anything.
func (c *connection) resumeOp(room rollcall.RoomID) rollcall.Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rollcall.Op{
		Kind: rollcall.OpGrant, Room: room, User: c.user, Connection: c.id,
		Info: c.identity.Info, Claim: c.claim, ResumeOnly: true,
	}
}

// regain carries out operations in rooms where the connection may hold leases, in the
// order of the partitions, and takes what it is granted. What a part of the store that
// cannot be reached was to do is unavailable, and reached is false. Called with c.op
// held.
func (c *connection) regain(ctx context.Context, ops []rollcall.Op) (results []rollcall.Result, reached bool) {
	ctx = context.WithoutCancel(ctx) // what the store does has to be known
	slices.SortFunc(ops, func(a, b rollcall.Op) int {
		return cmp.Compare(rollcall.PartitionOf(a.Room), rollcall.PartitionOf(b.Room))
	})
	reached = true
	for rest := ops; len(rest) > 0; {
		k, n := c.h.keeperOf(rollcall.PartitionOf(rest[0].Room)), 1
		for n < len(rest) && c.h.keeperOf(rollcall.PartitionOf(rest[n].Room)) == k {
			n++
		}
		some, err := c.h.applyOps(ctx, rest[:n])
		if err != nil {
			reached, some = false, slices.Repeat([]rollcall.Result{{Err: c.h.unavailable(err)}}, n)
		}
		results, rest = append(results, some...), rest[n:]
	}
	for i := range results {
		if results[i].Err == nil && ops[i].Kind == rollcall.OpGrant {
			c.regained(ctx, &results[i])
		}
	}
	return results, reached
}

// regained takes what a connection that asked for nothing was granted again.
func (c *connection) regained(ctx context.Context, res *rollcall.Result) {
	c.mu.Lock()
	s := c.findLocked(res.Lease.Room)
	c.mu.Unlock()
	set := c.stateElsewhere(ctx, s, res.Lease)
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.subLocked(res.Lease.Room)
	s.heedLocked(set)
	s.grantedLocked(res)
	s.counts, s.observes, s.ttl = false, false, false
	c.h.witness.saw(s.id, c.user)
}
