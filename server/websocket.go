package server

import (
	"context"
	"encoding/binary"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/wire"
)

// serveWebSocket is GET /v1/ws.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request) error {
	credentials := auth.CredentialsOf(r)
	if err := s.origins.CheckWebSocket(r, credentials); err != nil {
		return err
	}
	q := r.URL.Query()
	session := &session{s: s, last: lastEvent{resume: q.Get("resume")}, request: r.Clone(context.Background())}
	session.request.Body = nil
	var identity *auth.Identity
	id, err := s.identifyStream(r, &session.last)
	switch {
	case err == nil && id.Server():
		identity = onlooker(id)
	case err == nil:
		identity = id
	case credentials.From != auth.None, asError(err).Code == rollcall.CodeUnavailable:
		return err
	}
	conn, err := transport.AcceptWebSocket(w, r, transport.WebSocketOptions{
		MaxMessage: s.o.Limits.Frame,
		Rounds:     s.h.fanout.rounds,
		Refuse: func(w http.ResponseWriter, r *http.Request, status int, detail string) {
			e := rollcall.Errorf(codeOf(status), "%s", detail)
			e.HTTP = status
			s.problem(w, r, e)
		},
	})
	if err != nil {
		return nil // answered
	}
	session.conn = conn
	if v := s.h.admission.admit(s.h.connections.open()); v != admitted {
		s.h.metrics.refused.Inc()
		session.turnAway(v, identity)
		return nil
	}
	if !s.h.spawn(func() { session.run(identity) }) {
		conn.Close()
	}
	return nil
}

func codeOf(status int) rollcall.Code {
	switch status {
	case http.StatusForbidden:
		return rollcall.CodeForbidden
	case http.StatusServiceUnavailable:
		return rollcall.CodeUnavailable
	}
	return rollcall.CodeBadRequest
}

// session is one WebSocket: it reads for its stream. It is a stream only once it
// is known who is there.
type session struct {
	s       *Server
	conn    *transport.WebSocket
	last    lastEvent
	request *http.Request // static; for an authenticator that looks at it

	timer  *time.Timer            // static; nil if it is known who is there
	stream atomic.Pointer[stream] // nil before `auth`

	steadiness steadiness

	mu   sync.Mutex
	late bool // Guarded by mu. `auth` did not come in time.
}

// run opens the stream, if it is known whose, and has it read. That is done by a
// goroutine of its own: opening grows the stack, and the grown one would be the
// connection's for good.
func (ss *session) run(identity *auth.Identity) {
	if identity != nil {
		ss.begin(identity)
		ss.request = nil
	} else {
		ss.timer = time.AfterFunc(authWithin, ss.tooLate)
	}
	ss.s.h.wg.Go(ss.read)
}

// read reads until the end. What it keeps on its stack, each idle connection
// keeps.
func (ss *session) read() { ss.ended(ss.conn.Read(ss)) }

func (ss *session) ended(end transport.End) {
	if ss.timer != nil {
		ss.timer.Stop()
	}
	st := ss.stream.Load()
	if st == nil {
		if end.Kind == transport.Violation {
			ss.refuse(wire.CloseCode(end.Code), end.Reason)
		} else {
			ss.conn.Close()
		}
		return
	}
	st.ended(end)
}

// begin makes the WebSocket the stream of a connection.
func (ss *session) begin(identity *auth.Identity) {
	o, err := ss.s.h.open(ss.s.h.ctx, arrival{identity: identity, last: ss.last, proto: protocolWS, multi: true})
	if err != nil {
		ss.refuse(wire.CloseInternal, err.Detail)
		return
	}
	ss.stream.Store(o.attach(ss.conn))
}

// refuse closes a WebSocket that is nobody's stream.
func (ss *session) refuse(code wire.CloseCode, reason string) {
	ss.conn.TryWrite(wire.AppendWSClose(nil, code, reason))
	ss.conn.CloseAfter(closeLinger)
}

// deny closes a WebSocket whose first message does not say who is there, and
// answers the message before if it wants an answer.
func (ss *session) deny(m *wire.Message, err *rollcall.Error) {
	var b []byte
	if m.ID != nil {
		b = wire.AppendWS(nil, wire.EventError, wire.AppendError(nil, m.ID, err))
	}
	ss.conn.TryWrite(wire.AppendWSClose(b, wire.CloseToken, err.Detail))
	ss.conn.CloseAfter(closeLinger)
}

// turnAway refuses a WebSocket for lack of room.
func (ss *session) turnAway(v verdict, identity *auth.Identity) {
	reason := wire.ByeBusy
	if v == refusedDraining {
		reason = wire.ByeDraining
	}
	ss.s.keep(ss.last.resume, identity)
	b := wire.AppendWS(nil, wire.EventBye, wire.AppendBye(nil, reason, ss.s.h.retry()))
	ss.conn.TryWrite(wire.AppendWSClose(b, byeCodes[reason], string(reason)))
	ss.conn.CloseAfter(closeLinger)
}

func (ss *session) tooLate() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.stream.Load() == nil {
		ss.late = true
		ss.refuse(wire.CloseToken, "no token within 5 s")
	}
}

// Ping implements transport.WebSocketHandler.
func (ss *session) Ping(p []byte) {
	st := ss.stream.Load()
	if st == nil {
		return
	}
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.heardLocked(st.c.h.clock.now())
	if len(st.own) < ownMax {
		st.own = wire.AppendWSPong(st.own, p)
		st.pumpLocked(nil)
	}
}

// Pong implements transport.WebSocketHandler. A pong that answers none of the
// last pings may be from any time, and proves nothing.
func (ss *session) Pong(p []byte) {
	st := ss.stream.Load()
	if st == nil || len(p) != 8 {
		return
	}
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.answeredLocked(instant(binary.BigEndian.Uint64(p)))
}

// Message implements transport.WebSocketHandler.
func (ss *session) Message(p []byte) {
	limits := &ss.s.h.limits
	messages, err := wire.DecodeMessages(p, limits)
	if err != nil {
		messages = []wire.Message{{Err: asError(err)}}
	}
	ss.steadiness.take(messages, ss.s.h.clock.now(), &ss.s.h.fanout.flow)
	st := ss.stream.Load()
	for i := range messages {
		m := &messages[i]
		if st == nil {
			if st = ss.first(m); st == nil {
				return
			}
			continue
		}
		if !st.take(m) {
			return
		}
	}
	if st == nil {
		return
	}
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if len(st.own) > ownMax {
		st.abortLocked() // asks and does not read the answers
		return
	}
	st.pumpLocked(nil)
}

// Steady implements transport.WebSocketHandler. Whoever asks for something is
// answered as soon as can be; signals wait for the tick anyway.
func (ss *session) Steady() bool {
	h := ss.s.h
	return h.fanout.flow.dense.Load() && ss.steadiness.goesOn(h.clock.now())
}

// first is the first message of a WebSocket that came without a token.
func (ss *session) first(m *wire.Message) *stream {
	if m.Err != nil || m.Type != wire.MessageAuth {
		ss.deny(m, rollcall.Errorf(rollcall.CodeUnauthorized, "the first message must be auth"))
		return nil
	}
	id, err := ss.s.o.Auth.Authenticate(ss.s.h.ctx, auth.Credentials{
		Token: m.Token, From: auth.Message, Request: ss.request,
	})
	if err != nil {
		ss.deny(m, asError(err))
		return nil
	}
	if id.Server() {
		id = onlooker(id)
	}
	ss.mu.Lock()
	late := ss.late
	ss.mu.Unlock()
	if late {
		return nil
	}
	ss.begin(id)
	st := ss.stream.Load()
	if st != nil && m.ID != nil {
		st.c.mu.Lock()
		st.event(wire.EventOK, wire.AppendOK(nil, m.ID, nil))
		st.c.mu.Unlock()
	}
	return st
}
