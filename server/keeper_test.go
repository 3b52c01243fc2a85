package server

import (
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// The keeper looks at connections and rooms while others, who have one of them
// locked, leave it something to do.
func TestNobodyWaitsForTheKeeperWhoWaitsForThem(t *testing.T) {
	w := newWorld(t)
	// A hub that does nothing by itself, and so can be left behind as it is.
	h := &hub{store: w.m, ctx: t.Context(), timing: w.h.timing, limits: w.h.limits, metrics: w.h.metrics}
	h.clock.start(time.Now(), time.Second)
	h.errands, h.keepers = newErrands(h), newKeepers(h)
	k := h.keepers[0]
	hidden := auth.GuestIdentity("ana")
	hidden.Hidden = true
	c := h.newConnection("c", hidden)
	c.unseenFor = time.Hour
	c.subs = []*sub{{c: c, id: "lobby"}}
	r := &room{h: h, id: "lobby"}
	r.settled = h.clock.now().add(time.Hour)
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for range 20000 {
			h.forget(h.clock.now())
			k.reread(h.clock.now())
		}
	})
	all.Go(func() {
		for range 20000 {
			c.mu.Lock()
			h.unseen.add(c)
			k.renew(c, false)
			c.mu.Unlock()
			k.flush(h.clock.now())
		}
	})
	all.Go(func() {
		a := rollcall.Answer{Settling: time.Hour, Epoch: "e", Version: 2, Members: []*rollcall.Member{{User: "ana"}}}
		r.install(&a, 0)
		for i := range 20000 {
			a := rollcall.Answer{Settling: time.Hour, Epoch: "e", Version: rollcall.Version(3 + i)}
			r.install(&a, 0)
		}
	})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("they wait for each other for ever")
	}
}

// A change is lost while a snapshot from before it is on its way.
func TestASnapshotFromBeforeALossMendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := &room{h: w.h, id: "lobby"}
		asked := r.losses
		r.lose()
		r.install(&rollcall.Answer{Epoch: "e", Version: 1}, asked)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.broken {
			t.Error("the room is taken for mended")
		}
	})
}
