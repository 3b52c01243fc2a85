package server

import (
	"encoding/json"
	"fmt"
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
	"rollcall/server/transport"
	"rollcall/wire"
)

// forgetfulWorld is a node on a store that can lose its memory.
func forgetfulWorld(t *testing.T, modes rollcall.Modes) (*world, *simStore) {
	t.Helper()
	s := newSimStore(modes)
	n := &simNode{s: s, done: make(chan struct{}), rand: rand.New(rand.NewPCG(1, 1)), calm: true}
	server, err := New(Options{
		Store: n, Auth: auth.Guests{}, Modes: modes, NodeID: "one", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
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
		w, s := forgetfulWorld(t, rollcall.DefaultModes())
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

// settlingCrowd is a room in counts mode while its store, which has lost its memory,
// settles. It has three members with streams here, and three of another node, which has
// noticed first. The seventh was dee, whose node has died: she is not in the new memory,
// and counted until it has settled. During live all the others live.
func settlingCrowd(t *testing.T, check func(w *world, ana *client, live func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		w, s := forgetfulWorld(t, rollcall.Modes{Above: 2, Below: 1, Every: time.Second})
		all := []*client{w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil), w.arrive("cid", lobby, nil)}
		living := func(d time.Duration) { live(d, all...) }
		w.m = s.memory.Load()
		w.admit("lobby", "gus", "hal", "ivy", "dee")
		living(3 * time.Second)
		s.forget()
		w.m = s.memory.Load()
		w.admit("lobby", "gus", "hal", "ivy")
		living(10 * time.Second)
		all[0].wantShown(7)
		check(w, all[0], living)
	})
}

// numberAlone asks for nothing but the number.
func numberAlone(a *arrival) { a.rooms[0].counts, a.rooms[0].observe = true, true }

// shown is the number of a room that a client holds, and of which state it is.
type shown struct {
	Epoch   rollcall.Epoch
	Version rollcall.Version
	Count   int
}

// shows are the numbers that a client was told since the last call, and none if there
// was none.
func (c *client) shows() (all []shown) {
	c.w.t.Helper()
	var n shown
	for _, e := range c.eventsOf("snapshot", "mode", "diff", "count") {
		_, data, _ := strings.Cut(e, " ")
		if err := json.Unmarshal([]byte(data), &n); err != nil {
			c.w.t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// wantShown checks the last number that a client was told since the last call.
func (c *client) wantShown(want int) shown {
	c.w.t.Helper()
	all := c.shows()
	if len(all) == 0 || all[len(all)-1].Count != want {
		c.w.t.Fatalf("%s was told %v, want %d in the end", c.st.c.user, all, want)
	}
	return all[len(all)-1]
}

// Nothing changes in the room when the store has settled, but the number does.
func TestTheNumberFallsOnceTheStoreHasSettled(t *testing.T) {
	settlingCrowd(t, func(w *world, ana *client, live func(time.Duration)) {
		badge := w.arrive("badge", lobby, numberAlone)
		badge.wantShown(7)
		for range 3 {
			live(9 * time.Second)
			badge.answer()
		}
		ana.wantShown(6)
		badge.wantShown(6)
	})
}

// A number that was told while the store settled is not that of its version: a client
// that comes back with it afterwards is told the true one.
func TestANumberOfBeforeTheStoreHadSettledIsNotCurrent(t *testing.T) {
	for name, ask := range map[string]func(*arrival){
		"viewer": func(a *arrival) { a.rooms[0].observe = true },
		"number": numberAlone,
	} {
		t.Run(name, func(t *testing.T) {
			settlingCrowd(t, func(w *world, _ *client, live func(time.Duration)) {
				oda := w.arrive("oda", lobby, ask)
				w.admit("lobby", "eve", "fay")
				live(2 * time.Second)
				fit := w.arrive("fit", lobby, ask) // is told a number that is true
				w.dismiss("lobby", "eve", "fay")
				live(2 * time.Second)
				seen := make(map[string]wire.Since)
				for _, c := range []*client{oda, fit} {
					n := c.wantShown(7)
					seen[string(c.st.c.user)] = wire.Since{Epoch: n.Epoch, Version: n.Version}
					c.ends(transport.Cut)
				}
				live(30 * time.Second)
				for user, since := range seen {
					w.arrive(user, lobby, func(a *arrival) {
						ask(a)
						a.last.since = since
					}).wantShown(6)
				}
			})
		})
	}
}

// The number of a room does not fall while the store settles, also if it turns to counts
// only then: the members come back one by one.
func TestTheNumberDoesNotFallWhileTheStoreSettles(t *testing.T) {
	for _, test := range []struct {
		name         string
		above, grown int
	}{
		{"in counts mode before", 2, 5},
		{"in counts mode since", 4, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := forgetfulWorld(t, rollcall.Modes{Above: test.above, Below: 1, Every: time.Second})
				all := []*client{w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil), w.arrive("cid", lobby, nil)}
				w.m = s.memory.Load()
				w.admit("lobby", "dee") // her node has died
				badge := w.arrive("badge", lobby, numberAlone)
				all = append(all, badge)
				live(3*time.Second, all...)
				all[0].wantShown(4)
				badge.wantShown(4)
				s.forget()
				w.m = s.memory.Load()
				live(4*time.Second, all...)
				w.admit("lobby", "eve", "fay")
				live(4*time.Second, all...)
				_, read := w.ask("GET", "/v1/rooms/lobby", "", "")
				if want := fmt.Sprintf(`"mode":"counts","count":%d`, test.grown); !strings.Contains(read, want) {
					t.Errorf("who reads is told %s, want %s", read, want)
				}
				told := map[*client][]shown{all[0]: all[0].shows(), badge: badge.shows()}
				live(30*time.Second, all...)
				for c, some := range told {
					for _, n := range some {
						if n.Count < 4 {
							t.Errorf("%s was told %v: never fewer than 4 are here", c.st.c.user, some)
							break
						}
					}
					if some = append(some, c.shows()...); some[len(some)-1].Count != 5 {
						t.Errorf("%s was told %v, want 5 in the end", c.st.c.user, some)
					}
				}
			})
		})
	}
}

// Who is missing counts until the store has settled, and then there is no new version.
func TestARoomIsModifiedOnceTheStoreHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := forgetfulWorld(t, rollcall.DefaultModes())
		ana := w.arrive("ana", lobby, nil)
		w.m = s.memory.Load()
		w.admit("lobby", "dee") // her node has died
		live(time.Second, ana)
		s.forget()
		live(5*time.Second, ana)
		tag := w.readLobby().Header.Get("ETag")
		if again := w.readLobby(tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("while it settles: %d, want 304", again.StatusCode)
		}
		live(30*time.Second, ana)
		if settled := w.readLobby(tag); settled.StatusCode != http.StatusOK {
			t.Errorf("when it has settled: %d, want 200", settled.StatusCode)
		}
	})
}
