package server

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/wire"
)

// arrival is a client that opens a stream.
type arrival struct {
	identity *auth.Identity
	last     lastEvent
	rooms    []entry // those that the stream names; nil on a WebSocket
	proto    protocol
	plain    bool
	multi    bool
	repeats  bool   // an EventSource that comes back, with the URL of its first request
	asked    uint64 // a hash of the state in the URL
}

// opening is a stream that is about to open: its connection, with c.op held, and
// its rooms, held.
type opening struct {
	arrival
	c     *connection
	rooms []*room
	// barred are rooms that the user is banned from, while others are open.
	barred []rollcall.RoomID
	// revoked are rooms that the connection was in, and the token does not allow.
	revoked []rollcall.RoomID
	again   bool // the connection resumes
}

// resolve finds the connection that an arrival resumes, or makes a new one, and
// locks its op.
func (h *hub) resolve(a *arrival) (c *connection, again bool) {
	for {
		c = h.resumed(a)
		if c == nil {
			c = h.newConnection(auth.NewConnectionID(), a.identity)
		}
		c.op.Lock()
		c.mu.Lock()
		// One that was forgotten meanwhile must not be registered again: it
		// would be found, and be of no use, for ever.
		if !c.gone && h.connections.add(c) == c {
			again = c.streams > h.firstStream || len(c.subs) > 0
			if r, ok := h.said(&a.last); ok && r.Connection == c.id {
				c.streams = max(c.streams, r.Stream) // they are numbered on from node to node
			}
			c.claim = h.claim(c.streams + 1)
			c.identity, c.leaseless = a.identity, a.identity.Hidden
			if h.comesFrom(&a.last) {
				c.movedLocked()
			}
			c.entering = true
			c.mu.Unlock()
			return c, again
		}
		c.mu.Unlock()
		c.op.Unlock()
	}
}

// resumed is the connection that the arrival's resume secret names, if the user
// is the same. An observer's keeps its id although nothing is remembered of it.
func (h *hub) resumed(a *arrival) *connection {
	r, ok := h.said(&a.last)
	if !ok || r.User != a.identity.User {
		return nil
	}
	if c := h.connections.get(r.Connection); c != nil && c.user == r.User {
		return c
	}
	switch {
	case h.shared:
		// It may hold leases that another node has granted.
		c := h.newConnection(r.Connection, a.identity)
		c.elsewhere, c.moved = true, true
		// One that this node, in this life, gave the secret to holds nothing that it
		// does not know of. That it asks for none is what a stream that only looks on
		// does all the time.
		c.found = r.Node == h.node && r.Stream > h.firstStream && h.holdsNone(a)
		return c
	case r.Epoch != string(h.epoch()) || h.holdsNone(a):
		return h.newConnection(r.Connection, a.identity)
	}
	return nil
}

// comesFrom reports whether the resume secret of a client is of another node.
func (h *hub) comesFrom(l *lastEvent) bool {
	if !h.shared {
		return false
	}
	r, ok := h.said(l)
	return ok && r.Node != h.node
}

// movedLocked notes that the connection has been on another node meanwhile: what
// it has set is what the store says.
func (c *connection) movedLocked() {
	c.moved, c.found = true, false
	for _, s := range c.subs {
		s.known = false
	}
}

// keep takes an arrival that is turned away for the sign of life that it is. On a
// store of many nodes its leases may be anywhere, so they are granted again.
func (h *hub) keep(ctx context.Context, a *arrival) {
	c := h.resumed(a)
	if c == nil {
		return
	}
	if h.shared {
		c.mu.Lock()
		found := c.found
		c.mu.Unlock()
		c, _ = h.resolve(a)
		c.mu.Lock()
		back := c.stream != nil // has come back meanwhile: it asks for its rooms itself
		c.mu.Unlock()
		if !back {
			c.keepAll(ctx, a.rooms, found)
		}
		defer c.op.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proveLocked(h.clock.now())
	if h.shared {
		c.entering = false
		c.settleLocked()
	}
}

// keepAll grants the connection again what it holds in rooms, and wherever else, which
// is not looked for again once it is found. Called with c.op held.
func (c *connection) keepAll(ctx context.Context, rooms []entry, found bool) {
	for _, e := range rooms {
		if !e.observe {
			_, _ = c.grant(ctx, entry{room: e.room, resume: true}) // gone, or there again
		}
	}
	c.mu.Lock()
	hidden := c.leaseless
	c.mu.Unlock()
	if !found && !hidden {
		var ops []rollcall.Op
		others, _, indexed := c.whereabouts(ctx)
		for _, room := range others {
			if i := entryOf(rooms, room); i < 0 || rooms[i].observe {
				ops = append(ops, c.resumeOp(room))
			}
		}
		_, reached := c.regain(ctx, ops)
		found = indexed && reached
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = found
}

// keep takes a WebSocket that is turned away for the sign of life that it is. Its
// address names no rooms, so its node is told; if that has ended, it is granted
// again what it holds in the rooms where its user is. identity is nil if it has not
// said yet who it is.
func (s *Server) keep(signed string, identity *auth.Identity) {
	h := s.h
	resume, err := h.signer.Verify(signed)
	if err != nil || identity != nil && resume.User != identity.User {
		return
	}
	c := h.connections.get(resume.Connection)
	switch {
	case c != nil && (!h.shared || resume.Node == h.node):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.proveLocked(h.clock.now())
		return
	case !h.shared:
		return
	case identity == nil:
		identity = &auth.Identity{User: resume.User}
	}
	h.errands.add(string(resume.Connection), func() {
		if resume.Node != h.node && s.forward.prove(resume, signed) {
			return
		}
		h.keep(h.ctx, &arrival{identity: identity, last: lastEvent{resume: signed}, proto: protocolWS, multi: true})
	})
}

// isOf reports whether the resume secret of a client is good and of the user.
func (h *hub) isOf(l *lastEvent, user rollcall.UserID) bool {
	r, ok := h.said(l)
	return ok && r.User == user
}

// holdsNone reports whether an arrival asks for no lease.
func (h *hub) holdsNone(a *arrival) bool {
	if a.identity.Hidden {
		return true
	}
	for _, e := range a.rooms {
		if !e.observe && !h.isEstimate(e.room) {
			return false
		}
	}
	return len(a.rooms) > 0
}

// open grants what the arrival asks for. On success the caller goes on with
// attach or abandon.
func (h *hub) open(ctx context.Context, a arrival) (*opening, *rollcall.Error) {
	o := &opening{arrival: a}
	o.c, o.again = h.resolve(&a)
	c := o.c
	if refused := h.control.late(a.identity); refused != nil {
		o.abandon()
		return nil, refused
	}
	var barred *rollcall.Error
	entries := slices.Clone(a.rooms)
	c.mu.Lock()
	// What was set since the URL was first told is newer than what it says.
	last := a.last.asked
	if last == 0 {
		last = c.asked
	}
	known := a.repeats && a.asked == last
	c.asked = a.asked
	came := h.comesFrom(&a.last)
	var ends []rollcall.Op
	var besides []rollcall.RoomID // held here before it came from another node
	for _, s := range slices.Clone(c.subs) {
		held, need, named := s.leased(), s.needs(a.identity), entryOf(a.rooms, s.id) >= 0
		if held && a.identity.Hidden {
			ends = s.endLocked(ends, rollcall.ReasonLeft) // it goes on looking
		}
		switch {
		case !held:
		case !a.identity.Can(s.id, need):
			ends = s.endLocked(ends, rollcall.ReasonRevoked)
			if !named {
				c.dropLocked(s)
				o.revoked = append(o.revoked, s.id)
			}
		case named:
		case came && !a.identity.Hidden:
			besides = append(besides, s.id)
		default:
			entries = append(entries, entry{room: s.id}) // a lease that it holds besides
		}
	}
	find := c.moved && !c.found && !a.identity.Server()
	c.mu.Unlock()
	h.applyAll(ends)
	if find {
		entries = o.find(ctx, entries, besides)
	}
	for _, e := range entries {
		r := h.watch(ctx, e.room)
		o.rooms = append(o.rooms, r)
		if e.granted {
			continue
		}
		e.room = r.id // one string for all
		asked := e
		e.resume = c.elsewhere && !e.observe && len(a.rooms) > 0
		if known {
			e = c.withoutState(e)
		}
		_, err := c.grant(ctx, e)
		if err != nil && e.resume && err.Code == rollcall.CodeGone {
			if err = o.lapsed(ctx, asked); err == errLapsed {
				o.abandon()
				a.last.resume = ""
				return h.open(ctx, a)
			}
		}
		if err != nil && err.Code == rollcall.CodeForbidden && len(entries) > 1 {
			o.bar(r)
			barred = err
			continue
		}
		if err != nil {
			o.abandon()
			return nil, err
		}
	}
	if barred != nil && len(o.rooms) == 0 {
		o.abandon()
		return nil, barred
	}
	return o, nil
}

// bar leaves out the last room, from which the user is banned: an EventSource
// comes back with the URL that it began with, and must not lose its other rooms.
func (o *opening) bar(r *room) {
	o.rooms = o.rooms[:len(o.rooms)-1]
	o.barred = append(o.barred, r.id)
	r.release()
}

// errLapsed tells that no lease is left of a connection that comes from another
// node.
var errLapsed = rollcall.RefuseGone()

// lapsed enters a room where a connection that comes from another node holds no
// lease any more. One that holds none at all goes on as a new connection, unless
// the store has just lost its memory.
func (o *opening) lapsed(ctx context.Context, e entry) *rollcall.Error {
	c := o.c
	c.mu.Lock()
	held := c.leasesLocked() > 0
	c.mu.Unlock()
	if !held && !o.settling() {
		return errLapsed
	}
	_, err := c.grant(ctx, e)
	return err
}

// settling reports whether the store of a room that is entered settles.
func (o *opening) settling() bool {
	now := o.c.h.clock.now()
	for _, r := range o.rooms {
		if r.settlesAt() > now {
			return true
		}
	}
	return false
}

// withoutState is e without status and data, if the connection is in the room.
func (c *connection) withoutState(e entry) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.findLocked(e.room); e.resume || s != nil && s.leased() {
		e.status, e.data = rollcall.StatusUnset, nil
	}
	return e
}

// abandon gives up an opening; leases that were granted run out, or are closed.
func (o *opening) abandon() {
	c := o.c
	for _, r := range o.rooms {
		r.release()
	}
	c.mu.Lock()
	c.entering = false
	d := &departure{c: c}
	if c.stream == nil && !o.again && !c.moved {
		for _, s := range c.subs {
			if s.leased() {
				d.leases = append(d.leases, s.lease)
			}
		}
	}
	c.settleLocked()
	c.mu.Unlock()
	c.op.Unlock()
	if len(d.leases) > 0 {
		c.shut(d, 0)
	}
}

// startSize is about what a stream begins with, without the rooms.
const startSize = 512

// attach makes conn the stream of the connection and sends what it begins with,
// in one write.
func (o *opening) attach(conn transport.Conn) *stream {
	c, h := o.c, o.c.h
	defer c.op.Unlock()
	now := h.clock.now()
	s := &stream{c: c, conn: conn, proto: o.proto, plain: o.plain, multi: o.multi, pace: newPace(conn)}
	views := o.last.views(o.rooms, o.multi)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entering, c.elsewhere = false, false
	c.returned = o.last.resume != ""
	c.attachLocked(s, now)
	resume := h.sign(c, s.no)
	if s.plain {
		lease := h.timing.Lease
		s.rotateAt = now.add(lease*45/100 + rand.N(lease*20/100+1))
	}
	s.own = make([]byte, 0, startSize)
	if s.proto == protocolSSE {
		s.resume = resume
		s.own = wire.AppendRetry(s.own, h.retry())
	}
	s.event(wire.EventReady, wire.AppendReady(nil, wire.Ready{
		Connection: c.id, Resume: resume, User: c.user,
		Lease: h.timing.Lease, Beat: h.timing.Beat, Now: time.Now().UnixMilli(),
	}))
	for _, room := range o.barred {
		s.event(wire.EventEnded, wire.AppendEnded(nil, room, rollcall.ReasonKicked))
	}
	for _, room := range o.revoked {
		s.event(wire.EventEnded, wire.AppendEnded(nil, room, rollcall.ReasonRevoked))
	}
	for i, r := range o.rooms {
		sub := c.findLocked(r.id)
		if sub == nil {
			r.release() // ended meanwhile
			continue
		}
		v := views[i]
		if o.proto == protocolWS {
			v.phase = viewLater
		}
		sub.viewLocked(r, v)
		sub.fadeLocked()
	}
	c.dropUnseenLocked()
	s.healthLocked()
	s.pumpLocked(nil)
	h.pulse.open(s)
	return s
}

// showLaterLocked shows the rooms of a WebSocket that resumed and did not say
// what it holds of them.
func (s *stream) showLaterLocked() {
	later := false
	for _, sub := range s.c.subs {
		if sub.view.phase == viewLater {
			sub.view.phase, later = viewNew, true
		}
	}
	if later {
		s.pumpLocked(nil)
	}
}

// sign makes the resume secret of a stream. Called with c.mu held.
func (h *hub) sign(c *connection, stream uint64) string {
	return h.signer.Sign(auth.Resume{
		Connection: c.id, User: c.user, Node: h.node, Stream: stream, Epoch: string(h.epoch()), Expires: c.identity.Expires,
	})
}
