package server

import (
	"context"
	"encoding/json"

	"rollcall"
)

// change is what a client sets of itself in a room.
type change struct {
	status  rollcall.Status // StatusUnset keeps it
	data    json.RawMessage // nil keeps it
	replace bool            // data replaces what was, and is not merged
}

// set changes status or data of the connection in a room. Above the rate it is
// merged into what waits and carried out in its turn: the newest wins and none
// is refused. It returns the member as it is or will be; nil for an observer.
// Called with c.op held.
func (c *connection) set(ctx context.Context, id rollcall.RoomID, ch change) (*rollcall.Member, *rollcall.Error) {
	c.mu.Lock()
	s := c.findLocked(id)
	if s == nil {
		c.mu.Unlock()
		return nil, rollcall.Errorf(rollcall.CodeGone, "the connection is not in this room")
	}
	if !s.leased() {
		unseen := c.leaseless || s.estimated
		c.mu.Unlock()
		if unseen {
			return nil, nil // accepted, and seen by nobody
		}
		return nil, rollcall.Errorf(rollcall.CodeForbidden, "an observer has no status and no data")
	}
	data := ch.data
	if data != nil && !ch.replace && s.data != nil {
		data = rollcall.MergeObjects(s.data, data)
	}
	if len(data) > c.h.limits.Data {
		c.mu.Unlock()
		return nil, rollcall.LimitError(rollcall.CodeTooLarge, c.h.limits.Data,
			"data is %d bytes after merging; the limit is %d", len(data), c.h.limits.Data)
	}
	s.noteLocked(ch.status, data)
	s.unset = true
	rate := c.h.limits.SetsPerSecond
	c.sets.fill(c.h.clock.now(), rate, rate)
	wait := c.setting || c.sets.tokens < 1
	if wait {
		if !c.setting {
			c.setting = true
			c.h.pulse.set(c)
		}
		m := s.expectedLocked()
		c.mu.Unlock()
		return m, nil
	}
	c.sets.tokens--
	c.mu.Unlock()
	return c.applySet(ctx, s)
}

// applySets carries out the sets that waited.
func (c *connection) applySets() {
	c.op.Lock()
	defer c.op.Unlock()
	for _, s := range c.all() {
		c.applySet(c.h.ctx, s)
	}
}

// applySet tells the store what s was last set to.
func (c *connection) applySet(ctx context.Context, s *sub) (*rollcall.Member, *rollcall.Error) {
	c.mu.Lock()
	if !s.unset || s.lease.Generation == 0 {
		defer c.mu.Unlock()
		return s.expectedLocked(), nil // a grant that waits takes it along
	}
	s.unset = false
	op := s.opFor(rollcall.OpSet)
	op.Status, op.Data = s.status, s.data
	c.mu.Unlock()
	res, err := c.h.apply(ctx, op)
	if err != nil && err.Code == rollcall.CodeUnavailable {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.unset = true
		s.keeper().waiting.add(c)
		return s.expectedLocked(), nil
	}
	if err != nil && err.Code == rollcall.CodeGone && c.isLost(ctx, s) {
		// The store has forgotten the lease: the grant takes the set along.
		c.regrant(s.id, op.Generation, false)
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.leased() {
			return s.expectedLocked(), nil
		}
	}
	if err != nil {
		return nil, err
	}
	if res.Stale {
		return nil, rollcall.Errorf(rollcall.CodeGone, "the connection has entered the room anew")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.member = res.Member
	return res.Member, nil
}

// isLost reports whether the store knows nothing of the lease of s, not even of its
// end: it has lost its memory. Called with c.op held.
func (c *connection) isLost(ctx context.Context, s *sub) bool {
	c.mu.Lock()
	lease := s.lease
	renewals := []rollcall.Renewal{{Lease: &lease, Age: max(c.h.clock.now().sub(c.evidence), 0)}}
	c.mu.Unlock()
	if s.keeper().note(ctx, c.h.store.Renew(ctx, renewals)) != nil {
		return false
	}
	return renewals[0].Outcome == rollcall.Lost
}

// expectedLocked is the member that a set which waits will lead to, as far as
// this connection decides it.
func (s *sub) expectedLocked() *rollcall.Member {
	if s.member == nil {
		return nil
	}
	m := *s.member
	m.Data = s.data
	if m.Connections == 1 {
		m.Status = s.status
	} else {
		m.Status = max(m.Status, s.status)
	}
	return &m
}
