package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// tokenLease is a lease without a stream under a token.
func (w *world) tokenLease(token, body string) (path, resume string) {
	w.t.Helper()
	code, answer := w.call("POST", "/v1/rooms/lobby/connections", token, body)
	var lease struct{ Connection, Resume string }
	if err := json.Unmarshal([]byte(answer), &lease); code != http.StatusCreated || err != nil {
		w.t.Fatalf("POST: %d %s", code, answer)
	}
	return "/connections/" + lease.Connection, lease.Resume
}

func TestALeaseWithoutAStreamEndsWithItsToken(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		eve := w.arrive("eve", lobby, nil)
		live(time.Second, eve)
		soon := auth.Claims{User: "ana", Expires: time.Now().Add(time.Minute)}
		w.tokenLease(w.token(soon), `{"ttlMs":3600000}`)
		soon.User = "bob"
		path, resume := w.tokenLease(w.token(soon), `{"ttlMs":3600000}`)
		soon.User = "zoe"
		there, secret := w.tokenLease(w.token(soon), `{"ttlMs":3600000}`)
		live(30*time.Second, eve)
		later := w.token(auth.Claims{User: "bob", Expires: time.Now().Add(time.Hour)})
		if code, body := w.ask("POST", "/v1"+path+"/auth", resume, `{"token":"`+later+`"}`); code != http.StatusNoContent {
			t.Fatalf("auth: %d %s", code, body)
		}
		later = w.token(auth.Claims{User: "zoe", Expires: time.Now().Add(time.Hour)})
		if code, body := w.ask("PUT", "/v1/rooms/lobby"+there+"?access_token="+later, secret, `{}`); code != http.StatusOK {
			t.Fatalf("PUT: %d %s", code, body)
		}
		live(34*time.Second, eve)
		eve.conn.take()
		if here := w.here("lobby"); len(here) != 4 {
			t.Errorf("here: %q, a second before it is time", here)
		}
		live(4*time.Second, eve)
		said, _ := eve.conn.take()
		if got := told(said); !slices.Equal(got, []string{"leave ana revoked"}) {
			t.Errorf("eve was told %q, want that ana was revoked", got)
		}
		bob := w.h.connections.get(rollcall.ConnectionID(strings.TrimPrefix(path, "/connections/")))
		if !slices.Contains(w.h.streamless.all(), bob) {
			t.Error("the new token of bob is not watched")
		}
	})
}

// A connection that beats without a stream does not outlive its token either.
func TestBeatsDoNotOutliveTheToken(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ana := w.arrive("ana", lobby, func(a *arrival) { a.identity.Expires = time.Now().Add(time.Minute) })
		resume := ana.resume()
		ana.ends(0) // cut
		for range 20 {
			live(5 * time.Second)
			w.ask("POST", "/v1/connections/"+string(ana.st.c.id)+"/beat", resume, `{}`)
		}
		if here := w.here("lobby"); len(here) != 0 {
			t.Errorf("here: %q after the end of the token", here)
		}
	})
}

func TestANewTokenIsHeededAtOnce(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		eve := w.arrive("eve", lobby, nil)
		old := auth.Claims{User: "ana", Rooms: []string{"lobby", "kitchen"}, Expires: time.Now().Add(time.Hour)}
		id, err := w.s.o.Auth.Authenticate(t.Context(), auth.Credentials{Token: w.token(old), From: auth.Header})
		if err != nil {
			t.Fatal(err)
		}
		ana := w.arrive("ana", []rollcall.RoomID{"lobby", "kitchen"}, func(a *arrival) { a.identity = id })
		live(time.Second, eve, ana)
		path, resume := "/v1/connections/"+string(ana.st.c.id)+"/auth", ana.resume()
		renew := func(change func(*auth.Claims)) (her, others string) {
			t.Helper()
			claims := old
			change(&claims)
			ana.conn.take()
			eve.conn.take()
			if code, body := w.ask("POST", path, resume, `{"token":"`+w.token(claims)+`"}`); code != http.StatusNoContent {
				t.Fatalf("auth: %d %s", code, body)
			}
			live(time.Second, eve, ana)
			her, _ = ana.conn.take()
			others, _ = eve.conn.take()
			return her, others
		}

		_, others := renew(func(c *auth.Claims) { c.Info = json.RawMessage(`{"name":"Anna"}`) })
		if !slices.Equal(told(others), []string{"update ana"}) || !strings.Contains(others, `"name":"Anna"`) {
			t.Errorf("a new profile: eve was told %q", others)
		}
		her, others := renew(func(c *auth.Claims) { c.Info, c.Hidden = json.RawMessage(`{"name":"Anna"}`), true })
		if !slices.Equal(told(others), []string{"leave ana left"}) || strings.Contains(her, "event: bye") || strings.Contains(her, "event: ended") {
			t.Errorf("hidden: eve was told %q, ana %q", others, her)
		}
		her, others = renew(func(c *auth.Claims) { c.Info = json.RawMessage(`{"name":"Anna"}`) })
		if !slices.Equal(told(others), []string{"join ana"}) || !slices.Equal(told(her), []string{"join ana", "join ana"}) {
			t.Errorf("seen again: eve was told %q, ana %q", others, her)
		}
		her, others = renew(func(c *auth.Claims) { c.Info, c.Rooms = json.RawMessage(`{"name":"Anna"}`), []string{"kitchen"} })
		if !slices.Equal(told(others), []string{"leave ana revoked"}) || !strings.Contains(her, `{"room":"lobby","reason":"revoked"}`) || strings.Contains(her, "event: bye") {
			t.Errorf("without the lobby: eve was told %q, ana %q", others, her)
		}
		if m := w.here("kitchen"); len(m) != 1 {
			t.Errorf("in the kitchen are %q", m)
		}
		her, _ = renew(func(c *auth.Claims) { c.Rooms = []string{"attic"} })
		if !strings.Contains(her, `{"room":"kitchen","reason":"revoked"}`) || !strings.Contains(her, `"reason":"revoked","reconnectMs":null`) {
			t.Errorf("without any room: ana was told %q", her)
		}
	})
}
