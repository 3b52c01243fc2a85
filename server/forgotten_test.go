package server

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// forgetfulWorld is a node on a store that can lose its memory.
func forgetfulWorld(t *testing.T) (*world, *simStore) {
	t.Helper()
	s := newSimStore(rollcall.DefaultModes())
	n := &simNode{s: s, done: make(chan struct{}), rand: rand.New(rand.NewPCG(1, 1)), calm: true}
	server, err := New(Options{Store: n, Auth: auth.Guests{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		n.Close()
	})
	return &world{t: t, h: server.h, s: server}, s
}

// A client sets something after the store has lost its memory, and before the node
// has noticed.
func TestASetAfterTheStoreHasForgottenIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := forgetfulWorld(t)
		ana := w.arrive("ana", lobby, nil)
		live(time.Second, ana)
		resume, path := ana.resume(), "/v1/rooms/lobby/connections/"+string(ana.st.c.id)
		s.forget()
		code, body := w.ask("PATCH", path, resume, `{"status":"idle","data":{"a":1}}`)
		if code != http.StatusOK || !strings.Contains(body, `"status":"idle"`) || !strings.Contains(body, `"data":{"a":1}`) {
			t.Errorf("PATCH: %d %s", code, body)
		}
		if _, body := w.ask("GET", "/v1/rooms/lobby/members/ana", "", ""); !strings.Contains(body, `"status":"idle"`) {
			t.Errorf("the store knows %s", body)
		}
	})
}

// A lease that ended, though the node has yet to hear of it, is not brought back by
// a set.
func TestASetBringsNoEndedLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		one.arrive("eve", lobby, nil)
		ana := one.arrive("ana", lobby, nil)
		resume := ana.resume()
		there := two.move(ana, resume)
		there.st.c.end(rollcall.ReasonLeft)
		if code, body := one.ask("PATCH", "/v1/rooms/lobby/connections/"+string(ana.st.c.id), resume, `{"status":"idle"}`); code != http.StatusGone {
			t.Errorf("PATCH: %d %s, want 410", code, body)
		}
		if here := one.here("lobby"); len(here) != 1 {
			t.Errorf("here: %q, want eve", here)
		}
	})
}
