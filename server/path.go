package server

import (
	"net/http"
	"net/url"
	"strings"

	"rollcall"
)

// withIDs keeps the path of a request escaped until a handler takes an id from
// it, so that an id may be anything: a slash, two, or a percent sign. A mux that
// saw the plain path would clean it.
func (s *Server) withIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if !strings.HasPrefix(path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
			if segment == "" || segment == "." || segment == ".." {
				s.problem(w, r, badID("id in the path"))
				return
			}
		}
		escaped := new(http.Request)
		*escaped = *r
		escaped.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
		next.ServeHTTP(w, escaped)
	})
}

// pathID is an id that the path names.
func pathID(r *http.Request, name string) (string, error) {
	id, err := url.PathUnescape(r.PathValue(name))
	if err != nil || !rollcall.ValidID(id) {
		return "", badID(name)
	}
	return strings.Clone(id), nil // not a piece of the request, which would live as long
}

// roomOf is the room that the path names.
func roomOf(r *http.Request) (rollcall.RoomID, error) {
	id, err := pathID(r, "room")
	return rollcall.RoomID(id), err
}

func badID(what string) error {
	return rollcall.LimitError(rollcall.CodeBadRequest, rollcall.MaxID,
		"the %s must be 1 to %d bytes of UTF-8, and neither . nor ..", what, rollcall.MaxID)
}
