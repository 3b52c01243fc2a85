package server

import (
	"context"
	"encoding/json"
	"time"

	"rollcall"
	"rollcall/wire"
)

// entry is what a connection asks for when it enters a room.
type entry struct {
	room    rollcall.RoomID
	observe bool
	counts  bool // nothing but the number is shown
	status  rollcall.Status
	data    json.RawMessage
	ttl     time.Duration   // of a lease without a stream; 0 is the usual lease
	held    view            // what the client holds of the room
	resume  bool            // only if it has a lease there: CodeGone otherwise
	info    json.RawMessage // of a user on whose behalf a server enters; nil: that of the identity
	granted bool            // it has its lease already
}

// enter grants the connection a lease in a room, or a view if it only observes,
// and shows the room to its stream. Called with c.op held and a stream open.
func (c *connection) enter(ctx context.Context, e entry) (*sub, *rollcall.Error) {
	r := c.h.watch(ctx, e.room)
	e.room = r.id // one string for all
	s, refused := c.grant(ctx, e)
	if refused != nil {
		r.release()
		return nil, refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		r.release() // it has ended meanwhile
	} else {
		s.viewLocked(r, e.held)
		s.fadeLocked()
	}
	return s, nil
}

// grant grants the connection a lease in a room; a new generation, if it has one
// there. One that only observes is noted and granted nothing. Called with c.op
// held.
func (c *connection) grant(ctx context.Context, e entry) (*sub, *rollcall.Error) {
	c.mu.Lock()
	s := c.findLocked(e.room)
	count := len(c.subs)
	info, claim := c.identity.Info, c.claim
	observe := (e.observe || c.leaseless) && (s == nil || !s.leased())
	estimated := !observe && c.h.isEstimate(e.room)
	c.mu.Unlock()
	if s == nil && count >= c.h.limits.RoomsPerConnection {
		return nil, rollcall.LimitError(rollcall.CodeRateLimited, c.h.limits.RoomsPerConnection,
			"a connection may be in %d rooms", c.h.limits.RoomsPerConnection)
	}
	if e.info != nil {
		info = e.info
	}
	var res rollcall.Result
	waiting := false
	if !observe && !estimated {
		var err *rollcall.Error
		// Whether or not the client waits for it, what the store does has to be known.
		res, err = c.h.apply(context.WithoutCancel(ctx), rollcall.Op{
			Kind: rollcall.OpGrant, Room: e.room, User: c.user, Connection: c.id,
			Info: info, Status: e.status, Data: e.data, TTL: e.ttl, ResumeOnly: e.resume, Claim: claim,
		})
		// While the store is away the client is taken at its word.
		if waiting = err != nil && err.Code == rollcall.CodeUnavailable; err != nil && !waiting {
			return nil, err
		}
	}
	set := c.stateElsewhere(ctx, s, res.Lease)
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.subLocked(e.room)
	s.counts, s.observes = e.counts && observe, e.observe && observe
	s.noteLocked(e.status, e.data)
	s.heedLocked(set)
	switch {
	case observe:
	case estimated:
		s.enterLocked()
	case waiting:
		s.ttl = e.ttl != 0
		s.waitLocked(info)
	default:
		s.grantedLocked(&res)
		s.ttl = e.ttl != 0
		c.h.witness.saw(e.room, c.user)
	}
	return s, nil
}

// heedLocked takes what the connection has set elsewhere; nil if that is not known.
func (s *sub) heedLocked(set *rollcall.ConnectionState) {
	if set != nil {
		s.status, s.data, s.known = set.Status, set.Data, true
	}
}

// stateElsewhere is what a connection that has been on another node has set in a
// room where it was just granted a lease: what it sets next is merged into that.
// nil if it is known here, s being what is. Called with c.op held.
func (c *connection) stateElsewhere(ctx context.Context, s *sub, granted rollcall.Lease) *rollcall.ConnectionState {
	c.mu.Lock()
	known := !c.moved || s != nil && s.known
	c.mu.Unlock()
	if known || granted.Generation == 0 {
		return nil
	}
	return c.stateIn(ctx, granted.Room)
}

// stateIn is what the connection has in a room, as the store knows it; nil if nothing.
func (c *connection) stateIn(ctx context.Context, room rollcall.RoomID) *rollcall.ConnectionState {
	a, err := c.h.query(ctx, rollcall.Query{
		Want: rollcall.WantUsers, Room: room, Users: []rollcall.UserID{c.user}, States: true,
	})
	if err != nil {
		return nil
	}
	for _, states := range a.States {
		for i := range states {
			if states[i].Connection == c.id {
				return &states[i]
			}
		}
	}
	return nil
}

// waitLocked has the grant made when the store can be reached again; until then
// the member is what it will be.
func (s *sub) waitLocked(info json.RawMessage) {
	s.waiting, s.opened = true, true
	s.keeper().waiting.add(s.c)
	if s.member == nil {
		s.member = &rollcall.Member{User: s.c.user, Info: info, Connections: 1, Since: time.Now().UnixMilli()}
	}
	s.member = s.expectedLocked()
}

// waitingOp is the grant of s that the store could not make before, if there is one.
// Called with c.op held, and then [connection.granted] with what it came to.
func (c *connection) waitingOp(s *sub) (op rollcall.Op, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.waiting || c.gone || c.findLocked(s.id) != s {
		return op, false
	}
	op = s.grantOpLocked()
	if s.opened && c.stream != nil {
		// The client came here last: what the store has may be what the call that
		// seemed to fail has done.
		op.Generation = 0
	}
	return op, true
}

// granted takes what a grant came to that the client did not ask for just now.
func (c *connection) granted(s *sub, res rollcall.Result, err *rollcall.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && res.Stale:
		c.replacedLocked(s)
	case err == nil:
		s.grantedLocked(&res)
		s.unset, s.opened = false, false
		if c.stream != nil {
			c.stream.pumpLocked(nil)
		}
	case err.Code == rollcall.CodeUnavailable:
		s.waiting = true
		s.keeper().waiting.add(c)
	default:
		s.lease, s.waiting = rollcall.Lease{}, false
		c.refusedLocked(s, err)
	}
}

// grantOpLocked grants what the connection holds in a room, as of its evidence.
func (s *sub) grantOpLocked() rollcall.Op {
	op := s.opFor(rollcall.OpGrant)
	op.Info, op.Status, op.Data, op.TTL = s.c.identity.Info, s.status, s.data, s.lease.TTL
	if s.member != nil {
		op.Since = s.member.Since
		if op.Info == nil {
			op.Info = s.member.Info
		}
	}
	op.Age = max(s.c.h.clock.now().sub(s.c.evidence), 0)
	op.Claim, op.Late = s.c.claim, true
	return op
}

// refusedLocked tells that a grant that was taken for granted was refused.
func (c *connection) refusedLocked(s *sub, err *rollcall.Error) {
	c.dropLocked(s)
	if st := c.stream; st != nil {
		st.event(wire.EventEnded, wire.AppendEnded(nil, s.id, rollcall.ReasonRevoked))
		if st.proto == protocolWS {
			st.event(wire.EventError, wire.AppendError(nil, nil, err))
		}
		if len(c.subs) == 0 {
			c.lastEndedLocked(rollcall.ReasonRevoked)
		}
		st.pumpLocked(nil)
	}
	c.settleLocked()
}

// noteLocked keeps what the client said last.
func (s *sub) noteLocked(status rollcall.Status, data json.RawMessage) {
	if status != rollcall.StatusUnset {
		s.status = status
	}
	if data != nil {
		s.data = data
	}
}

// apply carries out one operation. An error of the store is unavailable.
func (h *hub) apply(ctx context.Context, op rollcall.Op) (rollcall.Result, *rollcall.Error) {
	results, err := h.applyOps(ctx, []rollcall.Op{op})
	if err != nil {
		return rollcall.Result{}, h.unavailable(err)
	}
	return results[0], results[0].Err
}

func (h *hub) unavailable(err error) *rollcall.Error {
	h.log.Debug("store", "error", err)
	return rollcall.Errorf(rollcall.CodeUnavailable, "the store cannot be reached; try again")
}

// opFor is an operation on the lease of s.
func (s *sub) opFor(kind rollcall.OpKind) rollcall.Op {
	return rollcall.Op{
		Kind: kind, Room: s.id, User: s.c.user, Connection: s.c.id, Generation: s.lease.Generation,
	}
}

// leave ends the connection's stay in one room, at once. Leaving a room where it
// is not is no error. Called with c.op held.
func (c *connection) leave(ctx context.Context, id rollcall.RoomID) *rollcall.Error {
	c.mu.Lock()
	// What it holds there by another node ends too, if this one has yet to find out.
	leased := c.moved && !c.found
	op := rollcall.Op{Kind: rollcall.OpEnd, Room: id, User: c.user, Connection: c.id, Reason: rollcall.ReasonLeft}
	if s := c.findLocked(id); s != nil {
		op.Generation, leased = s.lease.Generation, leased || s.leased()
		s.lease, s.waiting = rollcall.Lease{}, false // the news of its end is no news
		c.dropLocked(s)
	}
	c.mu.Unlock()
	if !leased {
		return nil
	}
	switch _, err := c.h.apply(ctx, op); {
	case err == nil || err.Code == rollcall.CodeGone:
	case err.Code == rollcall.CodeUnavailable:
		c.h.keeperOf(rollcall.PartitionOf(id)).owe([]rollcall.Op{op})
	case op.Generation == 0:
	default:
		return err
	}
	c.mu.Lock()
	c.settleLocked()
	c.mu.Unlock()
	return nil
}

// end ends every lease of the connection at once.
func (c *connection) end(reason rollcall.Reason) {
	c.op.Lock()
	defer c.op.Unlock()
	c.endHolding(reason)
}

// endHolding is end, with c.op held.
func (c *connection) endHolding(reason rollcall.Reason) {
	c.mu.Lock()
	var ops []rollcall.Op
	for i := len(c.subs) - 1; i >= 0; i-- {
		s := c.subs[i]
		if s.leased() {
			op := s.opFor(rollcall.OpEnd)
			op.Reason = reason
			if op.Generation != 0 {
				ops = append(ops, op)
			}
			s.lease, s.waiting = rollcall.Lease{}, false
		}
	}
	c.mu.Unlock()
	c.h.applyAll(ops)
	c.mu.Lock()
	c.settleLocked()
	c.mu.Unlock()
}

// shut starts the close grace of the leases that the connection held as of
// generation. Those that it was granted since run on.
func (c *connection) shut(d *departure, grace time.Duration) {
	c.op.Lock()
	defer c.op.Unlock()
	ops := make([]rollcall.Op, 0, len(d.leases))
	for _, l := range d.leases {
		if l.Generation != 0 {
			ops = append(ops, rollcall.Op{
				Kind: rollcall.OpClose, Room: l.Room, User: l.User, Connection: l.Connection,
				Generation: l.Generation, Grace: grace,
			})
		}
	}
	c.forgetWaiting()
	c.silence(d)
	c.h.applyAll(ops)
	if grace > 0 {
		c.h.pulse.grace(grace)
	}
}

// forgetWaiting gives up the grants that wait for the store, of a connection that
// has closed.
func (c *connection) forgetWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		return
	}
	for _, s := range c.subs {
		s.waiting = false
	}
	c.settleLocked()
}

// leaseEnded tells the stream of a connection that a lease has ended, which the
// connection did not ask for itself. A lease that ran out although there is
// newer evidence is granted again.
func (h *hub) leaseEnded(id rollcall.RoomID, ended rollcall.Ended) {
	c := h.connections.get(ended.Connection)
	if c == nil {
		return
	}
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	s := c.findLocked(id)
	if s == nil || s.lease.Generation != ended.Generation {
		c.mu.Unlock()
		return
	}
	if ended.Reason == rollcall.ReasonExpired && c.stream != nil && !s.ttl && !c.silentLocked() {
		c.mu.Unlock()
		c.regrant(s.id, ended.Generation, false)
		return
	}
	defer c.mu.Unlock()
	s.lease = rollcall.Lease{}
	c.dropLocked(s)
	if st := c.stream; st != nil {
		st.event(wire.EventEnded, wire.AppendEnded(nil, id, ended.Reason))
		if len(c.subs) == 0 {
			c.lastEndedLocked(ended.Reason)
		}
		st.pumpLocked(nil)
	}
	c.settleLocked()
}

// silentLocked reports whether the client has given no evidence for a lease of
// the node's clamped time.
func (c *connection) silentLocked() bool {
	clock := &c.h.clock
	return clock.clamped(clock.now()).sub(clock.clamped(c.evidence)) >= c.h.timing.Lease
}

// lastEndedLocked ends the stream with its last room. A WebSocket whose user
// left may enter another.
func (c *connection) lastEndedLocked(reason rollcall.Reason) {
	st := c.stream
	switch reason {
	case rollcall.ReasonKicked:
		st.byeLocked(wire.ByeKicked, wire.DontReconnect)
	case rollcall.ReasonRevoked:
		st.byeLocked(wire.ByeRevoked, wire.DontReconnect)
	case rollcall.ReasonExpired, rollcall.ReasonClosed:
		st.byeLocked(wire.ByeExpired, c.h.retry())
	default:
		if st.proto == protocolSSE {
			st.closeLocked(wire.CloseNormal, "left")
		}
	}
}

// regrant grants again a lease that was lost, or that ran out too early. One that was
// replaced, since the connection was granted another on another node, is granted if
// that one is still held, and by a lesser claim. Called with c.op held.
func (c *connection) regrant(id rollcall.RoomID, g rollcall.Generation, replaced bool) {
	c.mu.Lock()
	s := c.findLocked(id)
	// A grant that waits is made anyway, and may have been made by a call that failed.
	if s == nil || s.lease.Generation != g || s.waiting {
		c.mu.Unlock()
		return
	}
	op := s.grantOpLocked()
	if op.Age >= c.h.leaseOf(s) {
		defer c.mu.Unlock()
		c.overLocked(s)
		return
	}
	c.mu.Unlock()
	op.ResumeOnly = replaced
	res, err := c.h.apply(c.h.ctx, op)
	switch {
	case replaced && err != nil && err.Code == rollcall.CodeUnavailable:
		return // the next renewal tells of it again
	case replaced && err != nil && err.Code == rollcall.CodeGone:
		res.Stale, err = true, nil // the connection has left there
	}
	c.granted(s, res, err)
}

// replacedLocked lets go of a lease whose connection goes on elsewhere, on another
// node.
func (c *connection) replacedLocked(s *sub) {
	s.lease, s.waiting = rollcall.Lease{}, false
	c.dropLocked(s)
	if c.stream != nil && len(c.subs) == 0 {
		c.stream.byeLocked(wire.ByeReplaced, c.h.retry())
	}
	c.settleLocked()
}

// overLocked lets go of a lease that has run out, whoever noticed.
func (c *connection) overLocked(s *sub) {
	s.lease, s.waiting = rollcall.Lease{}, false
	c.dropLocked(s)
	if c.stream != nil && len(c.subs) == 0 {
		c.stream.byeLocked(wire.ByeExpired, c.h.retry())
	}
	c.settleLocked()
}

// leaseOf is how long the lease of s runs from its evidence.
func (h *hub) leaseOf(s *sub) time.Duration {
	if s.lease.TTL != 0 {
		return s.lease.TTL
	}
	return h.timing.Lease
}
