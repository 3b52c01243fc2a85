package server

import (
	"encoding/json"
	"net/http"

	"rollcall"
	"rollcall/store"
)

// serveInspect is GET /debug/rooms?room=R&user=U on the admin listener: the leases
// behind a room, with what clients have set. Room and user are parameters, not
// parts of the path, so that any id arrives as it is. It is for programs: a page
// of a browser could be anybody's (by a name that leads here), so pages get
// nothing.
func (h *hub) serveInspect(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || site != "" && site != "none" {
		http.Error(w, "not for pages", http.StatusForbidden)
		return
	}
	q := r.URL.Query()
	room, user := q.Get("room"), q.Get("user")
	if !rollcall.ValidID(room) || user != "" && !rollcall.ValidID(user) {
		http.Error(w, "room, or user, is missing or cannot be an id: /debug/rooms?room=ROOM&user=USER", http.StatusBadRequest)
		return
	}
	inspector, ok := h.store.(store.Inspector)
	if !ok {
		http.Error(w, "this store cannot be inspected", http.StatusNotImplemented)
		return
	}
	in, err := inspector.Inspect(r.Context(), rollcall.RoomID(room), rollcall.UserID(user))
	if err != nil {
		h.log.Warn("store", "error", err)
		http.Error(w, "the store cannot be reached", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(in) // who has gone needs no answer
}
