package demo

import (
	"net"
	"net/http"
)

// Handler serves /demo/. Serve is called before the first request.
type Handler struct {
	mux    *http.ServeMux
	crowds *crowds
	links  *links
}

// New has no texts and no crowd yet.
func New() *Handler {
	h := &Handler{mux: http.NewServeMux(), crowds: new(crowds), links: &links{conns: make(map[string]net.Conn)}}
	t := &texts{known: make(map[string]*kept)}
	h.mux.HandleFunc("GET /demo/text", t.read)
	h.mux.HandleFunc("POST /demo/text", t.write)
	h.mux.HandleFunc("POST /demo/crowd", h.serveCrowd)
	h.mux.HandleFunc("POST /demo/cut", h.links.cut)
	return h
}

// Serve says which API the crowd comes in by, and returns it with links that can
// be cut.
func (h *Handler) Serve(api http.Handler) http.Handler {
	h.crowds.api = api
	return h.links.watch(api)
}

// Close makes every crowd leave.
func (h *Handler) Close() { h.crowds.close() }

// ServeHTTP answers the page. Pages of other sites are not answered.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		h.mux.ServeHTTP(w, r)
	default:
		http.Error(w, "this is for the page of this server", http.StatusForbidden)
	}
}

// serveCrowd answers POST /demo/crowd?room=R with {count}: so many invented
// members are in the room, 0 to 1,000. At most four rooms have a crowd: the oldest
// one leaves.
func (h *Handler) serveCrowd(w http.ResponseWriter, r *http.Request) {
	room, ok := roomOf(w, r)
	if !ok {
		return
	}
	var body struct{ Count int }
	if !decode(w, r, &body) {
		return
	}
	if body.Count < 0 || body.Count > maxCrowd {
		http.Error(w, "a crowd has at most 1,000", http.StatusBadRequest)
		return
	}
	if body.Count == 0 {
		h.crowds.leave(room)
	} else if err := h.crowds.start(room, body.Count); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	reply(w, body)
}
