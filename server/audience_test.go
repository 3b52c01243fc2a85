package server

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// audience reads the audience of a room.
func (w *world) audience(room, window string) wire.Audience {
	w.t.Helper()
	path := "/v1/rooms/" + room + "/audience"
	if window != "" {
		path += "?windowMs=" + window
	}
	a, err := wire.DecodeAudience([]byte(w.wantCall(http.StatusOK, "GET", path, testKey, "")))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) wantAudience(room, window string, want int) {
	w.t.Helper()
	if a := w.audience(room, window); a.Estimate != want || a.StandardError != 0 {
		w.t.Errorf("the audience of %s in %s ms is %+v, want %d exactly", room, window, a, want)
	}
}

func TestAudienceIsWhoHeldALeaseInTheWindow(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		w.wantAudience("r", "", 0)
		ana := w.mustEnter(w.token(auth.Claims{User: "ana"}), "r")
		second := w.mustEnter(w.token(auth.Claims{User: "ana"}), "r") // another tab
		bo := w.mustEnter(w.token(auth.Claims{User: "bo"}), "r")
		w.mustEnter(w.token(auth.Claims{User: "eve", Hidden: true}), "r")
		if _, refused := w.enter(w.token(auth.Claims{User: "ola"}), []rollcall.RoomID{"r"}, func(a *arrival) { a.rooms[0].observe = true }); refused != nil {
			t.Fatal(refused)
		}
		w.mustEnter(w.token(auth.Claims{User: "cleo"}), "other")
		w.wantAudience("r", "", 2) // at once, and neither hidden nor observers
		time.Sleep(7 * time.Second)
		bo.st.c.end(rollcall.ReasonLeft)
		// Who stays is counted for as long, who has left for a window from then.
		beat := func(d time.Duration) {
			for ; d > 0; d -= time.Second {
				time.Sleep(time.Second)
				ana.answer()
				second.answer()
			}
		}
		beat(58 * time.Second)
		w.wantAudience("r", "60000", 2)
		beat(2 * time.Second)
		w.wantAudience("r", "60000", 1)
		w.wantAudience("r", "300000", 2)
		beat(4 * time.Minute)
		w.wantAudience("r", "60000", 1)
		w.wantAudience("r", "300000", 1)
		w.wantAudience("r", "3600000", 2)
		w.wantAudience("other", "3600000", 1)
		// Everybody dies: counted until the lease is over, and a window from then.
		time.Sleep(32 * time.Second)
		w.wantAudience("r", "60000", 1)
		time.Sleep(61 * time.Second)
		w.wantAudience("r", "60000", 0)
		time.Sleep(time.Hour)
		w.wantAudience("r", "3600000", 0)
	})
}

func TestWindowIsClamped(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		for asked, want := range map[string]time.Duration{
			"": 5 * time.Minute, "60000": time.Minute, "0": time.Minute, "1": time.Minute, "90500": 90500 * time.Millisecond,
			"3600001": time.Hour, "9223372036854775807": time.Hour,
		} {
			if got := w.audience("r", asked).Window; got != want {
				t.Errorf("windowMs=%s is %v, want %v", asked, got, want)
			}
		}
		for _, asked := range []string{"x", "-1", "1.5", "1e3", "99999999999999999999"} {
			w.wantCall(400, "GET", "/v1/rooms/r/audience?windowMs="+asked, testKey, "")
		}
		count := w.token(auth.Claims{User: "ana", Grants: map[string][]auth.Capability{"r": {auth.Count}}})
		w.wantCall(200, "GET", "/v1/rooms/r/audience", count, "")
		w.wantCall(403, "GET", "/v1/rooms/other/audience", count, "")
		w.wantCall(401, "GET", "/v1/rooms/r/audience", "", "")
	})
}

// A45: 900 of 1000 leave, and one window later they are not counted.
func TestAudienceOfACrowd(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		var clients []*client
		for i := range 1000 {
			c, refused := w.enterAs(auth.GuestIdentity(rollcall.UserID(fmt.Sprint("u", i))), []rollcall.RoomID{"r"}, nil)
			if refused != nil {
				t.Fatal(refused)
			}
			clients = append(clients, c)
		}
		near := func(what string, window string, want int) {
			t.Helper()
			a := w.audience("r", window)
			if a.StandardError <= 0 || a.StandardError > 0.05 || math.Abs(float64(a.Estimate-want)) > 3*a.StandardError*float64(want)+3 {
				t.Errorf("%s: %+v, want about %d", what, a, want)
			}
		}
		beat := func(d time.Duration) {
			for ; d > 0; d -= 5 * time.Second {
				time.Sleep(5 * time.Second)
				for _, c := range clients {
					c.answer()
				}
				synctest.Wait()
			}
		}
		near("all", "60000", 1000)
		beat(30 * time.Second)
		for _, c := range clients[100:] {
			c.st.c.end(rollcall.ReasonLeft)
		}
		clients = clients[:100]
		beat(30 * time.Second)
		near("half a window later", "60000", 1000)
		beat(30 * time.Second)
		if a := w.audience("r", "60000"); a.Estimate > 150 || a.Estimate < 80 {
			t.Errorf("one window later: %+v, want about 100", a)
		}
		near("in a longer window", "300000", 1000)
	})
}

// TestWitnessForgetsItsRooms: what nobody is in takes no memory of the node.
func TestWitnessForgetsItsRooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 200 {
			w.arrive("ana", []rollcall.RoomID{rollcall.RoomID(fmt.Sprint("r", i))}, nil).st.c.end(rollcall.ReasonLeft)
		}
		time.Sleep(3 * time.Minute)
		w.h.witness.mu.Lock()
		defer w.h.witness.mu.Unlock()
		if n := len(w.h.witness.rooms); n != 0 {
			t.Errorf("%d rooms are remembered, want 0", n)
		}
	})
}
