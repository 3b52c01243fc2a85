package server

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/wire"
)

// serveRoomStream is GET /v1/rooms/{room}/stream.
func (s *Server) serveRoomStream(w http.ResponseWriter, r *http.Request) error {
	room, err := roomOf(r)
	if err != nil {
		return err
	}
	return s.serveSSE(w, r, []rollcall.RoomID{room}, false)
}

// serveStream is GET /v1/stream?room=a&room=b.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) error {
	var rooms []rollcall.RoomID
	seen := make(map[string]bool)
	for _, id := range r.URL.Query()["room"] {
		if !rollcall.ValidID(id) {
			return badID("room")
		}
		if !seen[id] {
			seen[id] = true
			rooms = append(rooms, rollcall.RoomID(strings.Clone(id)))
		}
	}
	if len(rooms) == 0 {
		return rollcall.Errorf(rollcall.CodeBadRequest, "room is missing: /v1/stream?room=a&room=b")
	}
	if most := s.o.Limits.RoomsPerConnection; len(rooms) > most {
		return rollcall.LimitError(rollcall.CodeRateLimited, most, "a connection may be in %d rooms", most)
	}
	return s.serveSSE(w, r, rooms, true)
}

func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request, rooms []rollcall.RoomID, multi bool) error {
	if r.Method == http.MethodHead {
		transport.SetSSEHeader(w.Header()) // says what a GET would answer, and joins nothing
		return nil
	}
	a, err := s.arrival(r, rooms, multi)
	switch {
	case err != nil && asError(err).Code == rollcall.CodeUnavailable:
		// Who it is cannot be known now, but a connection that is known here
		// has shown that it lives.
		if c := s.h.owner(&a.last); c != nil {
			c.mu.Lock()
			c.proveLocked(s.h.clock.now())
			c.mu.Unlock()
		}
		s.sayBye(w, wire.ByeBusy)
		return nil
	case err != nil:
		return err
	}
	if v := s.h.admission.admit(s.h.connections.open()); v != admitted {
		s.h.metrics.refused.Inc()
		return s.turnAway(w, r, a, v)
	}
	o, refused := s.h.open(r.Context(), *a)
	if refused != nil {
		return refused
	}
	conn, err := transport.AcceptSSE(w, r, nil)
	if err != nil {
		o.abandon()
		return nil // the client is gone, or the answer was written
	}
	st := o.attach(conn)
	wait := func() { st.ended(conn.Wait()) }
	if conn.Detached() && s.h.spawn(wait) {
		return nil
	}
	if s.h.closed.Load() {
		conn.Close()
	}
	wait()
	return nil
}

// arrival reads everything that the request of a stream says. On an error it
// says what was read until then.
func (s *Server) arrival(r *http.Request, rooms []rollcall.RoomID, multi bool) (*arrival, error) {
	q := r.URL.Query()
	a := &arrival{proto: protocolSSE, plain: !flag(q, "beat"), multi: multi}
	var since wire.Since
	if text := q.Get("since"); text != "" && !multi {
		var err error
		if since, err = wire.ParseSince(text); err != nil {
			return a, err
		}
	}
	// An EventSource comes back with the URL that it began with: what it says by
	// Last-Event-ID is newer.
	a.last = parseLastEvent(r.Header.Get("Last-Event-ID"))
	a.repeats = a.last.resume != ""
	if q.Has("status") || q.Has("data") {
		a.asked = xxhash.Sum64String(q.Get("status") + "\xff" + q.Get("data"))
	}
	if !a.repeats {
		a.last = lastEvent{resume: q.Get("resume"), since: since}
	}
	id, err := s.identifyStream(r, &a.last, rooms...)
	if err != nil {
		return a, err
	}
	a.identity = id
	if id.Server() {
		a.identity = onlooker(id)
	}
	if a.repeats && !s.h.isOf(&a.last, id.User) {
		a.last, a.repeats = lastEvent{}, false
	}
	for _, room := range rooms {
		e, err := s.entryOf(q, room)
		if err != nil {
			return a, err
		}
		if id.Server() && !e.observe {
			return a, errKeyPresence
		}
		if err := may(id, room, e.needs(id)); err != nil {
			return a, err
		}
		a.rooms = append(a.rooms, e)
	}
	return a, nil
}

// errKeyPresence refuses to let a server key be somewhere.
var errKeyPresence = rollcall.Errorf(rollcall.CodeForbidden,
	"a server key has no presence of its own: observe, or POST a lease for a user")

// onlooker is a server with a key as the observer of a stream.
func onlooker(key *auth.Identity) *auth.Identity {
	id := *key
	id.User, id.Hidden = rollcall.UserID("sk:"+key.Key), true
	return &id
}

// needs is the capability that entering takes.
func (e *entry) needs(id *auth.Identity) auth.Capability {
	if e.counts {
		return auth.Count
	}
	if e.observe || id.Hidden {
		return auth.Read
	}
	return auth.Presence
}

// identifyStream is who opens a stream. A guest without a name, who comes back,
// is still the same guest.
//
// Whoever comes back while the word of the application holds is not asked about
// again: streams rotate more often than people log out.
func (s *Server) identifyStream(r *http.Request, last *lastEvent, rooms ...rollcall.RoomID) (*auth.Identity, error) {
	if id := s.h.vouchedFor(last, rooms); id != nil && auth.CredentialsOf(r).From == auth.None {
		return id, s.origins.CheckAmbient(r)
	}
	id, err := s.identify(r, rooms...)
	if err != nil || !id.Guest {
		return id, err
	}
	if said, ok := s.h.said(last); ok && r.URL.Query().Get("user") == "" {
		return auth.GuestIdentity(said.User), nil
	}
	return id, nil
}

// vouchedFor is the identity of a connection of this node, if the application
// told who it is by a request, that still holds, and it allows the rooms.
func (h *hub) vouchedFor(last *lastEvent, rooms []rollcall.RoomID) *auth.Identity {
	c := h.owner(last)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	id := c.identity
	c.mu.Unlock()
	if !id.ByRequest || !time.Now().Before(id.Expires) {
		return nil
	}
	for _, room := range rooms {
		if !id.Can(room, auth.Presence) {
			return nil
		}
	}
	return id
}

// owner is the connection of this node that a resume secret names; nil if there
// is none.
func (h *hub) owner(last *lastEvent) *connection {
	r, ok := h.said(last)
	if !ok {
		return nil
	}
	if c := h.connections.get(r.Connection); c != nil && c.user == r.User {
		return c
	}
	return nil
}

// turnAway answers a stream that this node does not take. A browser's
// EventSource never returns after an error, so this is none. Whoever resumes has
// shown a sign of life all the same.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, a *arrival, v verdict) error {
	s.h.keep(r.Context(), a)
	reason := wire.ByeBusy
	if v == refusedDraining {
		reason = wire.ByeDraining
	}
	s.sayBye(w, reason)
	return nil
}

// sayBye is a stream that ends at once and is to be tried again.
func (s *Server) sayBye(w http.ResponseWriter, reason wire.ByeReason) {
	again := s.h.retry() + rand.N(time.Second)
	transport.SetSSEHeader(w.Header())
	b := wire.AppendRetry(nil, again)
	b = wire.AppendSSE(b, wire.EventBye, wire.AppendBye(nil, reason, again))
	w.Write(b)
}
