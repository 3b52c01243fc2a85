package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
	"rollcall/wire"
)

// estimateWorld is a world in which the rooms live:... are declared `estimate`.
func estimateWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := rollcall.ParseRoomRules([]string{"live:*:estimate"}, rollcall.RoomSettings{Modes: rollcall.DefaultModes()})
		if err != nil {
			t.Fatal(err)
		}
		servers, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: testKey})
		if err != nil {
			t.Fatal(err)
		}
		m := store.NewMemory(store.MemoryOptions{Settled: true, Rules: rules})
		s, err := New(Options{
			Store: m, Auth: auth.Chain(servers, auth.Guests{}), Rules: rules, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Close()
			m.Close()
		})
		f(t, &world{t: t, h: s.h, m: m, s: s})
	})
}

const stadium rollcall.RoomID = "live:1"

// counted is the number that a room is read with.
func (w *world) counted(room rollcall.RoomID) wire.RoomInfo {
	w.t.Helper()
	info, err := wire.DecodeRoomInfo([]byte(w.wantCall(http.StatusOK, "GET", "/v1/rooms/"+string(room), testKey, "")))
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func (w *world) wantCounted(want int) {
	w.t.Helper()
	if got := w.counted(stadium); got.Count != want || !got.Estimate || got.StandardError != 0 || got.Mode != wire.ModeCounts {
		w.t.Errorf("read %+v, want %d exactly, as an estimate", got, want)
	}
}

func TestEstimatedRoomHoldsNoLeases(t *testing.T) {
	estimateWorld(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", []rollcall.RoomID{stadium}, nil)
		text, _ := ana.conn.take()
		first := events(text)[1]
		if !strings.HasPrefix(first, `snapshot {"room":"live:1"`) || !strings.Contains(first, `"mode":"counts","count":1,"estimate":true,"standardError":0}`) || strings.Contains(first, "sample") {
			t.Errorf("the newcomer is told %s, want a number that includes it", first)
		}
		w.arrive("ana", []rollcall.RoomID{stadium}, nil) // another tab
		w.arrive("bo", []rollcall.RoomID{stadium}, nil)
		w.arrive("ola", []rollcall.RoomID{stadium}, func(a *arrival) { a.rooms[0].observe = true })
		w.arrive("eve", []rollcall.RoomID{stadium}, func(a *arrival) { a.identity.Hidden = true })
		w.wantCounted(2)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		got := ana.eventsOf("count")
		if len(got) != 1 || !strings.Contains(got[0], `"count":2,"estimate":true,"standardError":0}`) {
			t.Errorf("told %q, want one count of 2", got)
		}
		if here := w.here(stadium); len(here) != 0 {
			t.Errorf("the store knows %q", here)
		}
		for path, want := range map[string]string{
			"/v1/rooms/live:1/members": `"members":[],"nextCursor":null,"count":2`,
			"/v1/rooms?prefix=live":    `"rooms":[]`,
		} {
			if answer := w.wantCall(200, "GET", path, testKey, ""); !strings.Contains(answer, want) {
				t.Errorf("%s: %s, want %s", path, answer, want)
			}
		}
		w.wantCall(404, "GET", "/v1/rooms/live:1/members/ana", testKey, "")
		if answer := w.wantCall(200, "POST", "/v1/counts", testKey, `{"rooms":["live:1"]}`); answer != `{"counts":{"live:1":2}}` {
			t.Errorf("counts: %s", answer)
		}
		w.wantCall(409, "POST", "/v1/rooms/live:1/connections", testKey, `{"user":"zoe"}`)
		w.wantAudience("live:1", "60000", 2)

		c := ana.st.c
		c.op.Lock()
		defer c.op.Unlock()
		if m, err := c.set(t.Context(), stadium, change{status: rollcall.StatusIdle, data: json.RawMessage(`{"a":1}`)}); m != nil || err != nil {
			t.Errorf("a set: %v, %v, want that it is accepted", m, err)
		}
		if _, err := c.setContacts(t.Context(), stadium, []rollcall.UserID{"bo"}); err == nil || err.Code != rollcall.CodeConflict {
			t.Errorf("contacts: %v, want conflict", err)
		}
		if err := c.signal(stadium, &rollcall.Signal{Kind: "cursor", Data: []byte(`1`)}); err == nil || err.Code != rollcall.CodeConflict {
			t.Errorf("a signal: %v, want conflict", err)
		}
		if err := c.leave(t.Context(), stadium); err != nil {
			t.Error(err)
		}
		w.wantCounted(2) // the other tab
	})
}

func TestEstimateFallsAsPeopleLeave(t *testing.T) {
	estimateWorld(t, func(t *testing.T, w *world) {
		watcher := w.arrive("ola", []rollcall.RoomID{stadium}, func(a *arrival) { a.rooms[0].observe, a.rooms[0].counts = true, true })
		var all []*client
		for i := range 40 {
			all = append(all, w.arrive(fmt.Sprint("u", i), []rollcall.RoomID{stadium}, nil))
		}
		w.wantCounted(40)
		for _, c := range all[:10] { // announced: at once
			c.st.c.release(false)
			c.ends(transport.Closed)
		}
		synctest.Wait()
		w.wantCounted(30)
		for _, c := range all[10:20] { // a closed tab, or a proxy that goes away
			c.ends(transport.Closed)
		}
		w.wantCounted(30)
		time.Sleep(5 * time.Second)
		watcher.answer()
		for _, c := range all[10:15] { // back in time
			all = append(all, w.arrive(string(c.st.c.user), []rollcall.RoomID{stadium}, nil))
		}
		w.wantCounted(30)
		for range 2 {
			time.Sleep(6 * time.Second)
			watcher.answer()
			for _, c := range slices.Concat(all[20:30], all[40:]) {
				c.answer()
			}
		}
		w.wantCounted(25)
		// all[30:40] are silent: gone at the latest a lease and a bucket after their last sign of life.
		reap := func() { // as their readers do
			for _, c := range all {
				if c.conn.isClosed() {
					c.ends(transport.Local)
				}
			}
		}
		for range 10 {
			reap()
			time.Sleep(3 * time.Second)
			watcher.answer()
			for _, c := range slices.Concat(all[20:30], all[40:]) {
				c.answer()
			}
		}
		w.wantCounted(15)
		synctest.Wait()
		text, _ := watcher.conn.take()
		told := events(text)
		last := told[len(told)-1]
		for i := len(told) - 1; !strings.HasPrefix(last, "count "); i-- {
			last = told[i]
		}
		if !strings.Contains(last, `"count":15,`) {
			t.Errorf("the watcher was last told %s, want 15", last)
		}
		time.Sleep(35 * time.Second)
		reap()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		w.h.estimates.mu.Lock()
		defer w.h.estimates.mu.Unlock()
		for id, r := range w.h.estimates.rooms {
			if len(r.users)+len(r.leaving) > 0 {
				t.Errorf("%s still counts %d and %d", id, len(r.users), len(r.leaving))
			}
		}
	})
}

func TestEstimatedRoomResumes(t *testing.T) {
	estimateWorld(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", []rollcall.RoomID{stadium}, nil)
		id := ana.st.c.id
		resume := ana.st.resume
		ana.ends(transport.Closed)
		time.Sleep(time.Second)
		back := w.arrive("ana", []rollcall.RoomID{stadium}, func(a *arrival) { a.last.resume = resume })
		if back.st.c.id != id {
			t.Errorf("came back as %s, want %s", back.st.c.id, id)
		}
		w.wantCounted(1)
		// And while the older stream is open.
		again := w.arrive("ana", []rollcall.RoomID{stadium}, func(a *arrival) { a.last.resume = back.st.resume })
		if again.st.c.id != id || len(back.eventsOf("bye")) != 1 {
			t.Errorf("the older stream was not replaced")
		}
		back.ends(transport.Local)
		synctest.Wait()
		w.wantCounted(1)
		again.st.c.release(false)
		again.ends(transport.Closed)
		w.wantCounted(0)
	})
}

// A count is told at most once a second, and only when it has changed.
func TestEstimateIsToldOnceASecond(t *testing.T) {
	estimateWorld(t, func(t *testing.T, w *world) {
		watcher := w.arrive("ola", []rollcall.RoomID{stadium}, func(a *arrival) { a.rooms[0].observe = true })
		time.Sleep(2 * time.Second)
		watcher.conn.take()
		for i := range 100 {
			w.arrive(fmt.Sprint("u", i), []rollcall.RoomID{stadium}, nil)
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		got := watcher.eventsOf("count")
		if len(got) < 3 || len(got) > 5 || !strings.Contains(got[len(got)-1], `"count":100,"estimate":true`) {
			t.Errorf("told %q in four seconds, want about four, the last of 100", got)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := watcher.eventsOf("count", "snapshot", "mode"); len(got) != 0 {
			t.Errorf("nothing has changed, and it was told %q", got)
		}
	})
}

// A token that is told to be hidden, or not any more, is heeded in such a room too.
func TestEstimateHeedsANewToken(t *testing.T) {
	estimateWorld(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", []rollcall.RoomID{stadium}, nil)
		heed := func(hidden bool) {
			id := auth.GuestIdentity("ana")
			id.Hidden = hidden
			ana.st.c.op.Lock()
			defer ana.st.c.op.Unlock()
			ana.st.c.heed(t.Context(), id)
		}
		w.wantCounted(1)
		heed(true)
		w.wantCounted(0)
		heed(true)
		w.wantCounted(0)
		heed(false)
		w.wantCounted(1)
	})
}
