package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

const (
	cookieName  = "session"
	sessionLife = 12 * time.Hour
)

// sessions are the logins of this application. As an [auth.Authenticator] they
// say who a browser is. Safe for concurrent use.
type sessions struct {
	grants auth.Grants // static: what everybody who is logged in may do

	mu   sync.Mutex
	byID map[string]session // Guarded by mu. By the value of the cookie.
}

type session struct {
	user    rollcall.UserID
	name    string
	expires time.Time
}

func newSessions() *sessions {
	grants, err := auth.NewGrants(map[string][]auth.Capability{"doc:*": {auth.Presence}})
	if err != nil {
		panic(err) // the pattern above
	}
	return &sessions{grants: grants, byID: make(map[string]session)}
}

// Authenticate implements [auth.Authenticator]. Whoever shows a token on purpose
// is somebody else's to judge, and so is who has no session.
func (s *sessions) Authenticate(_ context.Context, c auth.Credentials) (*auth.Identity, error) {
	if c.Request == nil || c.Token != "" {
		return nil, auth.ErrNotMine
	}
	found, ok := s.of(c.Request)
	if !ok {
		return nil, auth.ErrNotMine
	}
	info, err := json.Marshal(map[string]string{"name": found.name})
	if err != nil {
		return nil, err
	}
	return &auth.Identity{User: found.user, Info: info, Grants: s.grants, Expires: found.expires}, nil
}

// of is the session of a request.
func (s *sessions) of(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return session{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[cookie.Value]
	return found, ok && time.Now().Before(found.expires)
}

// begin logs somebody in. A real application asks for a password here.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, name string) error {
	user := rollcall.UserID(strings.ToLower(strings.TrimSpace(name)))
	if !rollcall.ValidID(string(user)) {
		return errors.New("a name is needed")
	}
	id := rand.Text()
	expires := time.Now().Add(sessionLife)
	s.mu.Lock()
	s.byID[id] = session{user: user, name: strings.TrimSpace(name), expires: expires}
	s.mu.Unlock()
	// SameSite keeps pages of other sites from opening streams in the name of
	// this one's users.
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	})
	return nil
}

// end logs out. Streams that are open stay until their page goes.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		delete(s.byID, cookie.Value)
		s.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1})
}
