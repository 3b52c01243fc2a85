package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whoever is handed the resume secret of a lease that a server asked for keeps that
// lease, and no more.
func TestALeaseOnBehalfOpensNoOtherRoom(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		answer := w.wantCall(http.StatusCreated, "POST", "/v1/rooms/lobby/connections", testKey, `{"user":"bot","info":{"name":"Bot"}}`)
		var lease struct{ Connection, Resume string }
		if err := json.Unmarshal([]byte(answer), &lease); err != nil {
			t.Fatal(err)
		}
		put := func(room, key string) int {
			r := httptest.NewRequest("PUT", "/v1/rooms/"+room+"/connections/"+lease.Connection, strings.NewReader(`{}`))
			r.Header.Set("Rollcall-Resume", lease.Resume)
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			rec := httptest.NewRecorder()
			w.s.ServeHTTP(rec, r)
			return rec.Code
		}
		for _, c := range []struct {
			room, key string
			want      int
		}{{"lobby", "", 200}, {"vault", "", 403}, {"vault", testKey, 200}} {
			if got := put(c.room, c.key); got != c.want {
				t.Errorf("PUT in %s with key %q: %d, want %d", c.room, c.key, got, c.want)
			}
		}
	})
}
