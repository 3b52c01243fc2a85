package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// postBeat is POST /v1/connections/{connection}/beat: proof of life, dated at
// the sending of the beat that it answers.
func (s *Server) postBeat(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	beat, err := wire.DecodeBeat(raw)
	if err != nil {
		return err
	}
	c, current, err := s.proven(r, beat.Resume)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.stream; current && (st == nil || !st.answeredLocked(instant(beat.N))) {
		c.hearLocked(s.h.clock.now())
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// postRelease is POST /v1/connections/{connection}/release: the end of all
// leases of a connection, announced.
func (s *Server) postRelease(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	release, err := wire.DecodeRelease(raw)
	if err != nil {
		return err
	}
	c, current, err := s.proven(r, release.Resume)
	if err != nil {
		if asError(err).Code == rollcall.CodeGone {
			err = nil // gone is what was asked for
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	if current {
		c.release(release.Closing)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// release ends the whole connection: closed, as by a tab, or left.
func (c *connection) release(closing bool) {
	c.mu.Lock()
	if c.stream != nil {
		c.stream.left = true
	}
	d := &departure{c: c}
	for _, s := range c.subs {
		if s.leased() {
			d.leases = append(d.leases, s.lease)
		}
	}
	c.mu.Unlock()
	if closing {
		c.shut(d, c.h.timing.CloseGrace)
		return
	}
	c.end(rollcall.ReasonLeft)
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.stream; st != nil {
		st.closeLocked(wire.CloseNormal, "left")
	}
}

// postAuth is POST /v1/connections/{connection}/auth: a new token before the old
// one ends.
func (s *Server) postAuth(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	token, err := wire.DecodeToken(raw)
	if err != nil {
		return err
	}
	c, _, err := s.proven(r, token.Resume)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	if refused := c.renewToken(r.Context(), token.Token); refused != nil {
		return refused
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// postLease is POST /v1/rooms/{room}/connections: a new connection with a lease
// and no stream.
func (s *Server) postLease(w http.ResponseWriter, r *http.Request) error {
	room, req, id, err := s.leaseRequest(w, r)
	if err != nil {
		return err
	}
	connection := req.Connection
	if connection == "" {
		connection = auth.NewConnectionID()
	}
	c := s.h.newConnection(connection, id)
	c.op.Lock()
	defer c.op.Unlock()
	if s.h.connections.add(c) != c {
		return rollcall.Errorf(rollcall.CodeConflict, "there is a connection of this id; PUT renews it")
	}
	return s.grantLease(w, r, c, room, req, http.StatusCreated)
}

// putLease is PUT /v1/rooms/{room}/connections/{connection}: enter or renew.
func (s *Server) putLease(w http.ResponseWriter, r *http.Request) error {
	room, err := roomOf(r)
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	req, err := wire.DecodeLease(raw, &s.o.Limits)
	if err != nil {
		return err
	}
	c, err := s.leaseHolder(r, &req)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	if id := s.newer(r, c); id != nil {
		c.heed(r.Context(), id)
	}
	c.mu.Lock()
	identity, gone := c.identity, c.gone
	there := c.findLocked(room) != nil || c.unsureLocked(room)
	c.mu.Unlock()
	if gone {
		return rollcall.Errorf(rollcall.CodeGone, "the connection has ended")
	}
	if !there && proof(r, req.Resume) != "" && !s.fromServer(r) {
		// A room that it has not been in takes the rights of its token.
		if err := may(identity, room, auth.Presence); err != nil {
			return err
		}
	}
	return s.grantLease(w, r, c, room, &req, http.StatusOK)
}

// newer is the identity of a token that was sent along with the resume secret and
// lasts longer than the one that the connection came with; nil if there is none.
func (s *Server) newer(r *http.Request, c *connection) *auth.Identity {
	c.mu.Lock()
	gone, expires := c.gone, c.identity.Expires
	c.mu.Unlock()
	if gone {
		return nil
	}
	return s.later(r, c.user, expires)
}

// later is the identity of the user by a token that was sent along and lasts longer
// than to an end; nil if there is none, or no end.
func (s *Server) later(r *http.Request, user rollcall.UserID, expires time.Time) *auth.Identity {
	credentials := auth.CredentialsOf(r)
	if expires.IsZero() || credentials.From != auth.Header && credentials.From != auth.Query {
		return nil
	}
	id, err := s.o.Auth.Authenticate(r.Context(), credentials)
	if err != nil || id.Server() || id.User != user || !id.Expires.After(expires) {
		return nil // refused before, if it is to be refused
	}
	return id
}

// fromServer reports whether a server key was sent along.
func (s *Server) fromServer(r *http.Request) bool {
	c := auth.CredentialsOf(r)
	if c.From != auth.Header {
		return false
	}
	id, err := s.o.Auth.Authenticate(r.Context(), c)
	return err == nil && id.Server()
}

// leaseHolder is the connection that a PUT is for: proved by its resume secret,
// or named by a server.
func (s *Server) leaseHolder(r *http.Request, req *wire.LeaseRequest) (*connection, error) {
	if proof(r, req.Resume) != "" {
		if req.User != "" || req.Info != nil {
			return nil, rollcall.Errorf(rollcall.CodeForbidden, "user and info are for server keys alone")
		}
		c, err := s.adopt(r, req.Resume)
		if c != nil || err != nil {
			return c, err
		}
		c, _, err = s.proven(r, req.Resume)
		if err == nil {
			c.mu.Lock()
			c.hearLocked(s.h.clock.now())
			c.mu.Unlock()
		}
		return c, err
	}
	id, err := s.identify(r)
	if err != nil {
		return nil, err
	}
	if !id.Server() {
		return nil, rollcall.Errorf(rollcall.CodeUnauthorized,
			"the resume secret of the connection is needed: in Rollcall-Resume, ?resume= or the body")
	}
	connection, err := pathID(r, "connection")
	if err != nil {
		return nil, err
	}
	if c := s.h.connections.get(rollcall.ConnectionID(connection)); c != nil {
		if req.User != "" && req.User != c.user {
			return nil, rollcall.Errorf(rollcall.CodeConflict, "the connection is of another user")
		}
		return c, nil
	}
	if req.User == "" {
		return nil, rollcall.Errorf(rollcall.CodeGone, "the connection has ended, or there never was one: with user, PUT begins it")
	}
	c := s.h.newConnection(rollcall.ConnectionID(connection), onBehalf(req))
	return s.h.connections.add(c), nil
}

// adopt takes over a connection whose node has ended, also if it was this one in an
// earlier life; nil if it is known here, or no other node can have had it. Its token is
// the one that was sent along, if that is a later one than its secret was given under;
// of that one nothing is known but when it ends, and its info stays as the store has it.
func (s *Server) adopt(r *http.Request, fromBody string) (*connection, error) {
	if !s.h.shared {
		return nil, nil
	}
	resume, err := s.prove(r, fromBody)
	if err != nil || s.h.connections.get(resume.Connection) != nil {
		return nil, err
	}
	id := &auth.Identity{User: resume.User, Expires: resume.Expires}
	if later := s.later(r, resume.User, resume.Expires); later != nil && !later.Hidden {
		id = later
	}
	if refused := s.h.control.check(r.Context(), id); refused != nil {
		return nil, refused // it may be of before or after: a new stream tells
	}
	if !id.Expires.IsZero() && time.Since(id.Expires) > tokenLinger {
		return nil, rollcall.Errorf(rollcall.CodeGone, "the node of the connection and its token have ended; open it anew")
	}
	c := s.h.newConnection(resume.Connection, id)
	c.elsewhere, c.moved = true, true
	c.streams = max(c.streams, resume.Stream)
	c.claim = s.h.claim(c.streams)
	return s.h.connections.add(c), nil
}

// onBehalf is the identity of a user for whom a server speaks. It has no rights of
// its own: whoever is handed the resume secret keeps the lease, and enters no other
// room by it.
func onBehalf(req *wire.LeaseRequest) *auth.Identity {
	return &auth.Identity{User: req.User, Info: req.Info, IssuedAt: time.Now()}
}

// leaseRequest reads a POST and who it is for, who may be in the room.
func (s *Server) leaseRequest(w http.ResponseWriter, r *http.Request) (rollcall.RoomID, *wire.LeaseRequest, *auth.Identity, error) {
	room, err := roomOf(r)
	if err != nil {
		return "", nil, nil, err
	}
	id, err := s.identify(r)
	if err != nil {
		return "", nil, nil, err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return "", nil, nil, err
	}
	req, err := wire.DecodeLease(raw, &s.o.Limits)
	if err != nil {
		return "", nil, nil, err
	}
	switch {
	case id.Server() && req.User == "":
		return "", nil, nil, rollcall.Errorf(rollcall.CodeBadRequest, "user is missing: a server key has no presence of its own")
	case id.Server():
		return room, &req, onBehalf(&req), nil
	case req.User != "" || req.Info != nil || req.Connection != "":
		return "", nil, nil, rollcall.Errorf(rollcall.CodeForbidden, "user, info and connection are for server keys alone")
	}
	return room, &req, id, may(id, room, auth.Presence)
}

// grantLease grants or renews and answers. Called with c.op held.
func (s *Server) grantLease(w http.ResponseWriter, r *http.Request, c *connection, room rollcall.RoomID, body *wire.LeaseRequest, status int) error {
	if s.h.isEstimate(room) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settleLocked()
		return errEstimate
	}
	ttl := s.ttl(r.Context(), c, room, body)
	e := entry{room: room, status: body.Status, data: body.Data, info: body.Info, ttl: ttl}
	c.mu.Lock()
	stream := c.stream != nil
	if s := c.findLocked(room); s != nil && stream && s.view.phase != viewNone {
		e.held = s.view // it goes on as it was
		stream = false
	}
	if c.stream != nil {
		e.ttl = 0 // its stream renews it
	}
	c.entering = true
	e.resume = c.unsureLocked(room)
	another := !c.elsewhere && c.identity.Can(room, auth.Presence)
	c.elsewhere = false
	c.mu.Unlock()
	var sub *sub
	var refused *rollcall.Error
	if stream {
		sub, refused = c.enter(r.Context(), e)
	} else {
		sub, refused = c.grant(r.Context(), e)
	}
	if refused != nil && refused.Code == rollcall.CodeGone && e.resume && (another || s.fromServer(r)) {
		e.resume = false
		sub, refused = c.grant(r.Context(), e)
	}
	c.mu.Lock()
	c.entering = false
	if refused != nil {
		c.settleLocked()
		c.mu.Unlock()
		return refused
	}
	if c.stream != nil {
		c.stream.pumpLocked(nil)
	}
	lease := wire.Lease{Connection: c.id, Resume: s.h.sign(c, c.streams), Lease: ttl, Member: sub.member}
	if c.leaseless {
		lease.Member = nil
		if c.unseenFor == 0 && c.stream == nil {
			s.h.unseen.add(c)
		}
		c.unseenFor = ttl
	}
	if c.stream == nil {
		c.evidence = s.h.clock.now() // the request is; the store was told by the grant
		s.h.watchToken(c)
	}
	c.mu.Unlock()
	s.json(w, status, wire.AppendLease(nil, lease))
	return nil
}

// ttl is how long a lease without a stream runs: as asked for, or as it did, here or at
// a node that has ended. Called with c.op held.
func (s *Server) ttl(ctx context.Context, c *connection, room rollcall.RoomID, req *wire.LeaseRequest) time.Duration {
	if req.HasTTL {
		return min(max(req.TTL, s.o.Limits.MinTTL), s.o.Limits.MaxTTL)
	}
	var ran time.Duration
	c.mu.Lock()
	held, unsure := c.findLocked(room), c.unsureLocked(room)
	if held != nil {
		ran = held.lease.TTL
	}
	c.mu.Unlock()
	if unsure {
		if there := c.stateIn(ctx, room); there != nil {
			ran = there.TTL
		}
	}
	if ran == 0 {
		return s.o.Timing.Lease
	}
	return ran
}

// patchLease is PATCH /v1/rooms/{room}/connections/{connection}.
func (s *Server) patchLease(w http.ResponseWriter, r *http.Request) error {
	room, err := roomOf(r)
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	patch, err := wire.DecodePatch(raw, &s.o.Limits)
	if err != nil {
		return err
	}
	c, err := s.named(r, patch.Resume)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	member, refused := c.set(r.Context(), room, change{status: patch.Status, data: patch.Data, replace: patch.Replace})
	if refused != nil {
		return refused
	}
	s.json(w, http.StatusOK, wire.AppendPatched(nil, member))
	return nil
}

// hearLocked takes a proven request for the evidence that it is.
func (c *connection) hearLocked(now instant) {
	if c.stream != nil {
		c.stream.heardLocked(now)
	} else if c.h.clock.fresh(now, now) {
		c.proveLocked(now)
	}
}

// deleteLease is DELETE /v1/rooms/{room}/connections/{connection}: left.
func (s *Server) deleteLease(w http.ResponseWriter, r *http.Request) error {
	room, err := roomOf(r)
	if err != nil {
		return err
	}
	c, err := s.named(r, "")
	if err != nil && asError(err).Code != rollcall.CodeGone {
		return err
	}
	if err != nil || proof(r, "") == "" {
		// Whoever holds it, and also if nobody does any more.
		if err := s.leaveElsewhere(r, room, c); err != nil {
			return err
		}
	}
	if c == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	there := c.findLocked(room) != nil
	c.mu.Unlock()
	if refused := c.leave(r.Context(), room); refused != nil {
		return refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.stream; st != nil && there {
		st.event(wire.EventEnded, wire.AppendEnded(nil, room, rollcall.ReasonLeft))
		if len(c.subs) == 0 {
			c.lastEndedLocked(rollcall.ReasonLeft)
		}
		st.pumpLocked(nil)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// leaveElsewhere ends what a connection holds in a room, as far as the store knows:
// its node may have ended, and the lease runs on. c is nil if it is not known here.
func (s *Server) leaveElsewhere(r *http.Request, room rollcall.RoomID, c *connection) error {
	if !s.h.shared {
		return nil
	}
	name, err := pathID(r, "connection")
	if err != nil {
		return err
	}
	op := rollcall.Op{Kind: rollcall.OpEnd, Room: room, Connection: rollcall.ConnectionID(name), Reason: rollcall.ReasonLeft}
	switch {
	case c != nil:
		op.User = c.user
	case proof(r, "") != "":
		resume, err := s.prove(r, "")
		if err != nil {
			return err
		}
		op.User = resume.User
	default:
		if op.User, err = s.userOf(r.Context(), room, op.Connection); op.User == "" {
			return err
		}
	}
	if _, refused := s.h.apply(r.Context(), op); refused != nil && refused.Code != rollcall.CodeGone {
		return refused
	}
	return nil
}

// userOf is whose connection it is that holds a lease in a room; "" if none of the
// newest thousand there. Nobody else is looked for: those leases run out.
func (s *Server) userOf(ctx context.Context, room rollcall.RoomID, id rollcall.ConnectionID) (rollcall.UserID, error) {
	q := rollcall.Query{Want: rollcall.WantPage, Room: room, Limit: s.o.Limits.PageMembers, States: true}
	for seen := 0; seen < 1000; {
		a, err := s.h.query(ctx, q)
		if err != nil {
			return "", s.h.unavailable(err)
		}
		for i, states := range a.States {
			if slices.ContainsFunc(states, func(c rollcall.ConnectionState) bool { return c.Connection == id }) {
				return a.Members[i].User, nil
			}
		}
		seen += len(a.Members)
		if q.Cursor = a.Next; q.Cursor == 0 {
			break
		}
	}
	return "", nil
}

// named is the connection that a call is about: proved by its resume secret, which
// is evidence of its life, or named by a server, which speaks for a client that has
// no stream and for no other. A connection that has ended is CodeGone.
func (s *Server) named(r *http.Request, fromBody string) (*connection, error) {
	if proof(r, fromBody) != "" {
		c, _, err := s.proven(r, fromBody)
		if err == nil {
			c.mu.Lock()
			c.hearLocked(s.h.clock.now())
			c.mu.Unlock()
		}
		return c, err
	}
	id, err := s.identify(r)
	if err != nil {
		return nil, err
	}
	if !id.Server() {
		_, err := s.prove(r, "")
		return nil, err
	}
	connection, err := pathID(r, "connection")
	if err != nil {
		return nil, err
	}
	if c := s.h.connections.get(rollcall.ConnectionID(connection)); c != nil {
		return c, nil
	}
	return nil, rollcall.Errorf(rollcall.CodeGone, "the connection has ended")
}
