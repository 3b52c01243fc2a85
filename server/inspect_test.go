package server

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
)

// TestInspectIsForOperatorsAlone: the leases of a room are on the admin listener,
// not on the public one, and not for pages that a browser shows.
func TestInspectIsForOperatorsAlone(t *testing.T) {
	m := store.NewMemory(store.MemoryOptions{})
	defer m.Close()
	s, err := New(Options{Store: m, Auth: auth.Guests{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const room = "a//b?ü"
	if _, err := m.Apply(t.Context(), []rollcall.Op{{Kind: rollcall.OpGrant, Room: room, User: "ana", Connection: "c1"}}); err != nil {
		t.Fatal(err)
	}
	ask := func(h http.Handler, query url.Values, header http.Header) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/debug/rooms?"+query.Encode(), nil)
		r.Header = header
		h.ServeHTTP(w, r)
		return w
	}
	both := url.Values{"room": {room}, "user": {"ana"}}
	w := ask(s.Admin(), both, http.Header{})
	var in rollcall.Inspection
	if err := json.Unmarshal(w.Body.Bytes(), &in); w.Code != 200 || err != nil || len(in.Users) != 1 || in.Room != room {
		t.Errorf("%d %v %s", w.Code, err, w.Body)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %q", got)
	}
	for _, tt := range []struct {
		what   string
		h      http.Handler
		query  url.Values
		header http.Header
		want   int
	}{
		{"on the public listener", s, both, http.Header{}, 404},
		{"without a room", s.Admin(), nil, http.Header{}, 400},
		{"with what is no user", s.Admin(), url.Values{"room": {room}, "user": {".."}}, http.Header{}, 400},
		{"from a page elsewhere", s.Admin(), both, http.Header{"Origin": {"https://evil.test"}}, 403},
		{"from a page at a name that leads here", s.Admin(), both, http.Header{"Sec-Fetch-Site": {"same-origin"}}, 403},
		{"typed into a browser", s.Admin(), both, http.Header{"Sec-Fetch-Site": {"none"}}, 200},
	} {
		if w := ask(tt.h, tt.query, tt.header); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.what, w.Code, tt.want)
		}
	}
}
