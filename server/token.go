package server

import (
	"bytes"
	"context"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// renewToken takes a new token of the same user before the old one ends. Called with
// c.op held.
func (c *connection) renewToken(ctx context.Context, token string) *rollcall.Error {
	id, err := c.h.auth.Authenticate(ctx, auth.Credentials{Token: token, From: auth.Message})
	if err != nil {
		return asError(err)
	}
	if id.User != c.user {
		return rollcall.Errorf(rollcall.CodeForbidden, "the token is of another user")
	}
	c.heed(ctx, id)
	return nil
}

// heed has the connection go on under another identity of its user. What that says
// otherwise counts from now on: rooms that it does not allow end, who is hidden
// leaves and goes on looking, who no longer is enters, and a changed profile is
// shown. Called with c.op held.
func (c *connection) heed(ctx context.Context, id *auth.Identity) {
	c.mu.Lock()
	changed := !bytes.Equal(c.identity.Info, id.Info)
	c.identity, c.leaseless = id, id.Hidden
	st := c.stream
	if st != nil {
		st.warned = false
	}
	var ops []rollcall.Op
	var again []entry
	over := false
	for i := len(c.subs) - 1; i >= 0; i-- {
		s := c.subs[i]
		switch {
		case !id.Can(s.id, s.needs(id)):
			over = true
			ops = s.endLocked(ops, rollcall.ReasonRevoked)
			c.dropLocked(s)
			if st != nil {
				st.event(wire.EventEnded, wire.AppendEnded(nil, s.id, rollcall.ReasonRevoked))
			}
		case id.Hidden:
			ops = s.endLocked(ops, rollcall.ReasonLeft)
			s.exitLocked()
		case changed && s.lease.Generation != 0, !s.leased() && !s.observes && id.Can(s.id, auth.Presence):
			again = append(again, entry{room: s.id, ttl: s.lease.TTL})
		}
	}
	c.entering = true
	c.mu.Unlock()
	c.h.applyAll(ops)
	for _, e := range again {
		if _, refused := c.grant(ctx, e); refused != nil {
			c.mu.Lock()
			if s := c.findLocked(e.room); s != nil {
				c.refusedLocked(s, refused)
			}
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entering = false
	if st = c.stream; st != nil {
		if over && len(c.subs) == 0 {
			c.lastEndedLocked(rollcall.ReasonRevoked)
		}
		st.pumpLocked(nil)
	}
	c.settleLocked()
	c.h.watchToken(c)
}

// needs is what an identity has to be allowed to go on as the connection does in the
// room.
func (s *sub) needs(id *auth.Identity) auth.Capability {
	switch {
	case s.counts:
		return auth.Count
	case (s.leased() || s.estimated) && !id.Hidden:
		return auth.Presence
	}
	return auth.Read
}

// endLocked lets go of the lease of s, if it has one, and appends what the store has
// to be told.
func (s *sub) endLocked(ops []rollcall.Op, reason rollcall.Reason) []rollcall.Op {
	if s.leased() {
		op := s.opFor(rollcall.OpEnd)
		op.Reason = reason
		ops = append(ops, op)
	}
	s.lease, s.waiting = rollcall.Lease{}, false
	return ops
}

// watchToken has the leases of a connection without a stream ended with its token.
// Called with c.mu held.
func (h *hub) watchToken(c *connection) {
	if c.stream == nil && !c.identity.Expires.IsZero() && c.leasesLocked() > 0 {
		h.streamless.add(c)
	}
}

// outlives reports whether the connection has no stream and is held by a token that
// has ended: by leases that a PUT renews, or by evidence from after its end. over
// tells that nothing is to be looked at any more.
func (c *connection) outlives(now time.Time) (outlives, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.stream != nil {
		return false, true
	}
	expires := c.identity.Expires
	if expires.IsZero() || now.Sub(expires) < tokenLinger {
		return false, false
	}
	for _, s := range c.subs {
		if s.leased() && (s.ttl || c.evidence > c.h.clock.at(expires.Add(tokenLinger))) {
			return true, true
		}
	}
	return false, false
}
