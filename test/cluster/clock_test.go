//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA18ClocksOfNodesDecideNothing: one node is 40 s ahead and one 40 s behind;
// then they change places.
func TestA18ClocksOfNodesDecideNothing(t *testing.T) {
	t.Parallel()
	clocks := []*wall{{}, {offset: 40 * time.Second}, {offset: -40 * time.Second}}
	i := 0
	r := newRig(t, plan{config: harness.Config{Launch: func(cmd *exec.Cmd) error {
		i++
		return clocks[i-1].launch(cmd)
	}}})
	r.watch(room)
	for i := range 7 {
		n := r.nodes[max(i-4, 0)]
		r.member(n, harness.Transport(i%2), harness.Options{User: fmt.Sprintf("u%02d", i+1)})
	}
	for i, want := range []time.Duration{0, 40 * time.Second, -40 * time.Second} {
		w := r.watchers[2*i]
		if off := time.UnixMilli(w.Ready().Now).Sub(time.Now()) - want; off.Abs() > soon+5*time.Second {
			t.Fatalf("the clock of node %d is off by %v, which is no test", i+1, off)
		}
	}
	r.see(soon, r.cast...)
	r.calm()
	still := func() {
		for _, w := range r.watchers {
			w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody came or went", func() bool {
				return len(w.Joins(room, ""))+len(w.Leaves(room, "")) > 0
			})
		}
	}
	still()
	for i, d := range []time.Duration{time.Hour, -40 * time.Second, 40 * time.Second} {
		if err := clocks[i].set(d); err != nil {
			t.Fatal(err)
		}
	}
	still()
	// A client moves from a node that is ahead to one that is behind, and back.
	for _, to := range []int{1, 2, 1, 0} {
		r.members[5].Move(r.nodes[to])
		r.members[5].Reopen()
	}
	still()
	for _, n := range r.nodes {
		if got := len(n.Users(room)); got != 7 {
			t.Errorf("a node reads %d of 7 users", got)
		}
	}
	r.unmoved()
	r.members[0].Kill()
	r.see(gone, r.without("u01")...)
	r.once("leave", "u01")
	r.unmoved("u01")
	r.cast = r.without("u01")
}

// TestClockOfStoreJumps: the store's wall clock is set forward and back, by more
// than a lease, while people are here and while nobody is.
func TestClockOfStoreJumps(t *testing.T) {
	t.Parallel()
	clock := &wall{}
	r := newRig(t, plan{nodes: 2, store: startRedisBy(t, clock.launch)})
	r.watch(room)
	r.fill(8)
	r.calm()
	for _, d := range []time.Duration{40 * time.Second, 0, -40 * time.Second, 3 * time.Hour, -time.Hour, 0} {
		if err := clock.set(d); err != nil {
			t.Fatal(err)
		}
		now := time.Unix(int64(r.store.do("TIME").list[0].int()), 0)
		if off := now.Sub(time.Now()) - d; off.Abs() > 5*time.Second {
			t.Fatalf("the clock of the store is off by %v, which is no test", off)
		}
		// The order of versions goes on, whatever the clock says.
		c := r.member(r.nodes[0], harness.SSE, harness.Options{User: "passing"})
		r.see(soon, r.cast...)
		c.Release(false)
		r.cast = r.without("passing")
		r.see(soon, r.cast...)
		for _, w := range r.watchers {
			w.Never(lease/2/time.Duration(len(r.watchers)), "told that anybody left", func() bool {
				return len(w.Leaves(room, "")) != len(w.Leaves(room, "passing"))
			})
		}
	}
	r.unmoved("passing")
	// Nor is anybody kept: who dies is gone in time.
	r.members[0].Kill()
	r.see(gone, r.without("u01")...)
	r.once("leave", "u01")
	r.cast = r.without("u01")
}
