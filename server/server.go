// Package server is the presence server as an http.Handler, to be mounted in the
// binary of this project or in any Go program.
//
// It owns the sockets and the goroutines; who is here is decided by the store.
package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rollcall/server/auth"
	"rollcall/store"
)

// Server serves the API under /v1. Safe for concurrent use.
type Server struct {
	o       Options // static
	h       *hub
	origins *auth.Origins
	forward *forwarder
	handler http.Handler
	admin   http.Handler
}

// New starts a server. The caller closes it, and then the store.
func New(o Options) (*Server, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	signer, err := auth.NewSigner(o.Secret)
	if err != nil {
		return nil, err
	}
	origins, err := auth.NewOrigins(o.Origins)
	if err != nil {
		return nil, err
	}
	m := newMetrics(o.Registry)
	s := &Server{o: o, origins: origins, h: newHub(&o, signer, m)}
	s.o.Auth = s.h.auth
	m.observe(o.Registry, s.h)
	nodes, _ := o.Store.(store.Nodes)
	s.forward = &forwarder{s: s, nodes: nodes, waiting: make(map[uint64]chan<- *answered)}
	s.forward.next.Store(rand.Uint64() >> 1) // not one of those that a node of this name had before
	s.handler = s.withRequestID(origins.Handler(s.withIDs(s.routes())))
	s.admin = newAdmin(s.h, o.Registry)
	if nodes != nil {
		nodes.Listen(s.h.node, s.forward.hear)
		nodes.Listen(everyNode, s.forward.hear)
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Admin serves /livez, /readyz, /metrics and /debug/pprof. It asks nobody who
// they are: do not expose it.
func (s *Server) Admin() http.Handler { return s.admin }

// Drain makes ready for the end: /readyz turns 503, no new stream is taken, and
// the open ones are told to go elsewhere, one after the other, spread over the
// given time. It returns when all have ended, or with the error of ctx. Leases
// are kept.
func (s *Server) Drain(ctx context.Context, over time.Duration) error { return s.h.drain(ctx, over) }

// Close ends every stream at once and waits for every goroutine. Leases are kept.
func (s *Server) Close() error {
	s.h.close()
	return nil
}

// Gatherer is what /metrics serves.
func (s *Server) Gatherer() prometheus.Gatherer { return s.o.Registry }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	api := func(method, path string, h func(http.ResponseWriter, *http.Request) error) {
		mux.Handle(method+" "+path, s.api(h))
	}
	api("GET", "/v1/ws", s.serveWebSocket)
	api("GET", "/v1/stream", s.serveStream)
	api("GET", "/v1/rooms/{room}/stream", s.serveRoomStream)

	// The calls of a connection may land on any node.
	own := func(method, path string, h func(http.ResponseWriter, *http.Request) error) {
		api(method, path, s.forward.here(h))
	}
	own("POST", "/v1/connections/{connection}/beat", s.postBeat)
	own("POST", "/v1/connections/{connection}/release", s.postRelease)
	own("POST", "/v1/connections/{connection}/auth", s.postAuth)
	own("PUT", "/v1/rooms/{room}/connections/{connection}", s.putLease)
	own("PATCH", "/v1/rooms/{room}/connections/{connection}", s.patchLease)
	own("DELETE", "/v1/rooms/{room}/connections/{connection}", s.deleteLease)
	own("POST", "/v1/rooms/{room}/connections/{connection}/signals", s.postSignals)
	own("PUT", "/v1/rooms/{room}/connections/{connection}/pages/{page}", s.putPage)
	own("DELETE", "/v1/rooms/{room}/connections/{connection}/pages/{page}", s.deletePage)
	own("PUT", "/v1/rooms/{room}/connections/{connection}/contacts", s.putContacts)
	api("POST", "/v1/rooms/{room}/connections", s.postLease)

	api("GET", "/v1/rooms", s.getRooms)
	api("GET", "/v1/events", s.getEvents)
	api("GET", "/v1/rooms/{room}/audience", s.getAudience)
	api("GET", "/v1/rooms/{room}", s.getRoom)
	api("GET", "/v1/rooms/{room}/members", s.getMembers)
	api("GET", "/v1/rooms/{room}/members/{user}", s.getMember)
	api("POST", "/v1/rooms/{room}/members/lookup", s.postLookup)
	api("POST", "/v1/counts", s.postCounts)

	own("PUT", "/v1/connections/{connection}/users", s.putUsers)
	api("GET", "/v1/users/{user}", s.getUser)
	api("POST", "/v1/users/lookup", s.postUsersLookup)
	api("POST", "/v1/users/{user}/disconnect", s.postDisconnect)
	api("POST", "/v1/rooms/{room}/members/{user}/kick", s.postKick)

	mux.Handle("/v1", s.api(s.unknown(mux)))
	mux.Handle("/v1/", s.api(s.unknown(mux)))
	if s.o.Static != nil {
		mux.Handle("/", s.o.Static)
	} else {
		mux.Handle("/", s.api(notFound))
	}
	return mux
}
