package server

import (
	"context"
	"errors"

	"rollcall"
	"rollcall/wire"
)

func asError(err error) *rollcall.Error {
	var e *rollcall.Error
	if errors.As(err, &e) {
		return e
	}
	return rollcall.Errorf(rollcall.CodeUnavailable, "something went wrong; try again")
}

// take does what one message of a client asks for and notes the answer, which
// goes out with the next write. It reports false if the stream is at its end.
func (st *stream) take(m *wire.Message) bool {
	c, h := st.c, st.c.h
	c.mu.Lock()
	now := h.clock.now()
	st.heardLocked(now)
	ended := c.stream != st || st.told || st.over
	var refused *rollcall.Error
	if m.Type != wire.MessageSet && m.Type != wire.MessageSignal && !ended {
		l := &h.limits
		if !c.messages.take(now, l.MessagesPerSecond, l.MessageBurst) {
			refused = tooMany(*l)
			if c.messages.exhausted(l.MessageBurst) {
				st.byeLocked(wire.ByeBusy, h.retry())
				ended = true
			}
		}
	}
	c.mu.Unlock()
	if ended {
		return false
	}
	if refused == nil {
		refused = m.Err
	}
	var fields []byte
	switch {
	case refused != nil:
	case m.Type == wire.MessageSignal:
		refused = c.signal(m.Room, m.Signal) // waits for nothing that the connection asks of the store
	default:
		fields, refused = st.do(h.ctx, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case refused != nil:
		st.event(wire.EventError, wire.AppendError(nil, m.ID, refused))
	case m.Type == wire.MessagePing:
		st.event(wire.EventPong, wire.AppendPong(nil, m.ID))
	case m.ID != nil:
		st.event(wire.EventOK, wire.AppendOK(nil, m.ID, fields))
	}
	return true
}

// do carries out one message and returns the fields of its ok.
func (st *stream) do(ctx context.Context, m *wire.Message) ([]byte, *rollcall.Error) {
	c := st.c
	c.op.Lock()
	defer c.op.Unlock()
	switch m.Type {
	case wire.MessageJoin:
		return st.join(ctx, m)
	case wire.MessageSet:
		member, err := c.set(ctx, m.Room, change{status: m.Status, data: m.Data, replace: m.Replace})
		return wire.AppendPatched(nil, member), err
	case wire.MessageLeave:
		return nil, c.leave(ctx, m.Room)
	case wire.MessageSnapshot:
		return nil, c.snapshot(m.Room)
	case wire.MessageAuth:
		return nil, c.renewToken(ctx, m.Token)
	case wire.MessageUsers:
		present, err := st.watchUsers(ctx, m.Users)
		return wire.AppendPresentUsers(nil, present), err
	case wire.MessagePage:
		return st.page(ctx, m)
	case wire.MessageClosePage:
		c.closePage(m.Room, m.Page)
		return nil, nil
	case wire.MessageContacts:
		return st.contacts(ctx, m)
	case wire.MessagePing:
		return nil, nil
	}
	return nil, rollcall.Errorf(rollcall.CodeBadRequest, "unknown message type %.40q", m.Type)
}

// join enters a room; once there it is a set, and tells what the client holds.
func (st *stream) join(ctx context.Context, m *wire.Message) ([]byte, *rollcall.Error) {
	c := st.c
	e := entry{room: m.Room, observe: m.Observe, status: m.Status, data: m.Data}
	if m.Tier == wire.TierCount {
		e.counts, e.observe = true, true
	}
	if m.Since != nil {
		e.held = view{epoch: m.Since.Epoch, sent: m.Since.Version}
	}
	c.mu.Lock()
	identity := c.identity
	s := c.findLocked(m.Room)
	// A lease may have come without the stream, by a PUT or from another node.
	there := s != nil && s.room != nil && (s.leased() || s.estimated || m.Observe || c.leaseless)
	// What it says it holds is old if it has been shown the room meanwhile.
	if there && s.view.phase != viewLive {
		held := e.held
		held.phase = viewNew
		s.view = held
	}
	c.mu.Unlock()
	if identity.Server() && !e.observe {
		return nil, errKeyPresence
	}
	if err := may(identity, m.Room, e.needs(identity)); err != nil {
		return nil, asError(err)
	}
	if there {
		if m.Status == rollcall.StatusUnset && m.Data == nil || !s.leased() {
			return wire.AppendPatched(nil, c.memberOf(s)), nil
		}
		member, err := c.set(ctx, m.Room, change{status: m.Status, data: m.Data})
		return wire.AppendPatched(nil, member), err
	}
	s, err := c.enter(ctx, e)
	if err != nil {
		return nil, err
	}
	return wire.AppendPatched(nil, c.memberOf(s)), nil
}

// memberOf is the user in a room, as the store last said.
func (c *connection) memberOf(s *sub) *rollcall.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.member
}

// snapshot has the whole state of a room sent again.
func (c *connection) snapshot(id rollcall.RoomID) *rollcall.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.findLocked(id)
	if s == nil {
		return rollcall.Errorf(rollcall.CodeGone, "the connection is not in this room")
	}
	s.view = view{phase: viewNew}
	return nil
}
