package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// identify is who the request comes from. A stream names its rooms.
func (s *Server) identify(r *http.Request, rooms ...rollcall.RoomID) (*auth.Identity, error) {
	c := auth.CredentialsOf(r)
	c.Rooms = rooms
	if c.From == auth.Cookie {
		if err := s.origins.CheckCookie(r); err != nil {
			return nil, err
		}
	}
	id, err := s.o.Auth.Authenticate(r.Context(), c)
	if err == nil && id.ByRequest && c.From == auth.None {
		if err := s.origins.CheckAmbient(r); err != nil {
			return nil, err
		}
	}
	return id, err
}

// may checks a capability.
func may(id *auth.Identity, room rollcall.RoomID, c auth.Capability) error {
	if !id.Can(room, c) {
		return rollcall.Errorf(rollcall.CodeForbidden, "the token does not allow %s in room %q", c, string(room))
	}
	return nil
}

// body reads a request body up to the limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.o.Limits.Frame
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, rollcall.LimitError(rollcall.CodeTooLarge, limit, "the body is larger than %d bytes", limit)
	case err != nil:
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "the body could not be read")
	}
	return raw, nil
}

// proof is the resume secret of a request: header, query, or body.
func proof(r *http.Request, fromBody string) string {
	if p := r.Header.Get("Rollcall-Resume"); p != "" {
		return p
	}
	if p := r.URL.Query().Get("resume"); p != "" {
		return p
	}
	return fromBody
}

// prove checks that the request comes from the connection that its path names,
// and returns what the secret says. A token sent along must be of the same user.
func (s *Server) prove(r *http.Request, fromBody string) (auth.Resume, error) {
	signed := proof(r, fromBody)
	if signed == "" {
		return auth.Resume{}, rollcall.Errorf(rollcall.CodeUnauthorized,
			"the resume secret of the connection is needed: in Rollcall-Resume, ?resume= or the body")
	}
	resume, err := s.h.signer.Verify(signed)
	if err != nil {
		return auth.Resume{}, rollcall.Errorf(rollcall.CodeUnauthorized, "the resume secret is not one of ours")
	}
	if id, err := pathID(r, "connection"); err != nil || string(resume.Connection) != id {
		return auth.Resume{}, rollcall.Errorf(rollcall.CodeForbidden, "the resume secret is that of another connection")
	}
	if c := auth.CredentialsOf(r); c.From == auth.Header || c.From == auth.Query {
		id, err := s.o.Auth.Authenticate(r.Context(), c)
		if err != nil {
			return auth.Resume{}, err
		}
		if !id.Server() && id.User != resume.User {
			return auth.Resume{}, rollcall.Errorf(rollcall.CodeForbidden, "the token is of another user")
		}
	}
	return resume, nil
}

// proven is the connection of a proven request, which is evidence of its life.
// current tells whether the secret is that of its present stream: what is asked
// under an older one does nothing.
func (s *Server) proven(r *http.Request, fromBody string) (c *connection, current bool, err error) {
	resume, err := s.prove(r, fromBody)
	if err != nil {
		return nil, false, err
	}
	if c = s.h.connections.get(resume.Connection); c == nil || c.user != resume.User {
		return nil, false, rollcall.Errorf(rollcall.CodeGone, "the connection has ended")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.h.clock.now()
	if !c.messages.take(now, s.o.Limits.MessagesPerSecond, s.o.Limits.MessageBurst) {
		return nil, false, tooMany(s.o.Limits)
	}
	return c, resume.Stream == c.streams, nil
}

func tooMany(l rollcall.Limits) *rollcall.Error {
	return rollcall.LimitError(rollcall.CodeRateLimited, int(l.MessagesPerSecond),
		"more than %g messages a second", l.MessagesPerSecond)
}

// entryOf reads what the query of a stream says of a connection's state.
func (s *Server) entryOf(q url.Values, room rollcall.RoomID) (entry, error) {
	e := entry{room: room, observe: flag(q, "observe")}
	switch wire.Tier(q.Get("tier")) {
	case "":
	case wire.TierCount:
		e.counts, e.observe = true, true
	default:
		return e, rollcall.Errorf(rollcall.CodeBadRequest, "tier must be count")
	}
	if word := q.Get("status"); word != "" {
		status, ok := rollcall.ParseStatus(word)
		if !ok {
			return e, rollcall.Errorf(rollcall.CodeBadRequest, "status must be active, idle or away")
		}
		e.status = status
	}
	if text := q.Get("data"); text != "" {
		data, err := wire.DecodeData(text, s.o.Limits.Data)
		if err != nil {
			return e, err
		}
		e.data = data
	}
	return e, nil
}

func flag(q url.Values, name string) bool {
	v := q.Get(name)
	return v == "1" || strings.EqualFold(v, "true")
}
