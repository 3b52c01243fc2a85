package server

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/transport"
)

// Each node counts what it holds, whatever it missed of the others.
func TestTheCensusIsOfWhatTheNodeHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", []rollcall.RoomID{"lobby", "kitchen"}, nil)
		again := one.arrive("ana", lobby, nil)
		one.arrive("eve", lobby, func(a *arrival) { a.rooms[0].observe = true })
		live(time.Second, ana, again)
		check := func(w *world, members, rooms int) {
			t.Helper()
			m, r := w.h.count()
			if m != members || r[rollcall.ModeFull] != rooms || r[rollcall.ModeCounts] != 0 {
				t.Errorf("%d members, rooms %v; want %d in %d rooms", m, r, members, rooms)
			}
		}
		check(one, 2, 2)
		check(two, 0, 0)
		// The node hears of a room of which it has not seen the beginning.
		two.h.onFrame(&rollcall.Frame{Epoch: two.h.epoch(), Changes: []rollcall.Change{
			{Room: "attic", Prev: 1, Version: 2, Leave: []rollcall.Leave{{User: "zoe"}}},
		}})
		check(two, 0, 0)
		ana.ends(transport.Closed)
		again.ends(transport.Closed)
		time.Sleep(3 * time.Second)
		check(one, 0, 0)
	})
}
