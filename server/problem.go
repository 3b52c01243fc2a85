package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"rollcall"
	"rollcall/wire"
)

type requestIDKey struct{}

// withRequestID names every request, in the answer and in its errors.
func (s *Server) withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b [8]byte
		rand.Read(b[:])
		id := hex.EncodeToString(b[:])
		w.Header().Set("Rollcall-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// api serves by h and tells its error to the client.
func (s *Server) api(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.problem(w, r, err)
		}
	})
}

// problem answers with an RFC 9457 problem.
func (s *Server) problem(w http.ResponseWriter, r *http.Request, err error) {
	var e *rollcall.Error
	if !errors.As(err, &e) {
		s.o.Logger.Error("request failed", "error", err)
		e = rollcall.Errorf(rollcall.CodeUnavailable, "something went wrong; try again")
	}
	id, _ := r.Context().Value(requestIDKey{}).(string)
	head := w.Header()
	head.Set("Content-Type", wire.ProblemType)
	head.Set("Cache-Control", "no-store")
	switch e.Code {
	case rollcall.CodeRateLimited, rollcall.CodeUnavailable:
		head.Set("Retry-After", "1")
	case rollcall.CodeUnauthorized:
		head.Set("WWW-Authenticate", `Bearer realm="rollcall"`)
	}
	w.WriteHeader(e.Status())
	w.Write(wire.AppendProblem(nil, e, id))
}

func (s *Server) json(w http.ResponseWriter, status int, body []byte) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}

func notFound(http.ResponseWriter, *http.Request) error {
	return rollcall.Errorf(rollcall.CodeNotFound, "there is nothing here; the API is under /v1")
}

// unknown answers what no route of the API takes: another verb of a known path
// is told the verbs that it has.
func (s *Server) unknown(mux *http.ServeMux) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var allowed []string
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if _, pattern := mux.Handler(other); pattern != "" && pattern != "/v1/" && pattern != "/v1" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			return rollcall.Errorf(rollcall.CodeNotFound, "no such path: %s", r.URL.Path)
		}
		verbs := strings.Join(allowed, ", ")
		w.Header().Set("Allow", verbs)
		e := rollcall.Errorf(rollcall.CodeBadRequest, "%s is not for this path; it takes %s", r.Method, verbs)
		e.HTTP = http.StatusMethodNotAllowed
		return e
	}
}
