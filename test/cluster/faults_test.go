//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestNodeKilled: who comes back to another node was never away; the rest leave
// once, as if each had died by itself (A03). The node that starts again is empty,
// and nobody is told anything.
func TestNodeKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	doomed, other := r.nodes[0], r.nodes[1]
	for _, over := range []harness.Transport{harness.SSE, harness.WS} {
		r.watchers = append(r.watchers, other.Watch(t, over, room))
	}
	var back, lost []*harness.Client
	var lostUsers []string
	for i := range 10 {
		o := harness.Options{User: fmt.Sprintf("u%02d", i+1)}
		c := r.member(doomed, harness.Transport(i%2), o)
		if i < 6 {
			back = append(back, c)
		} else {
			lost, lostUsers = append(lost, c), append(lostUsers, o.User)
		}
	}
	r.member(other, harness.WS, harness.Options{User: "u11"})
	r.see(soon, r.cast...)
	r.calm()

	doomed.Signal(syscall.SIGKILL)
	killed := time.Now()
	doomed.Exited(soon)
	for _, c := range back {
		c.Move(other)
		c.Reopen()
	}
	r.see(gone, r.without(lostUsers...)...)
	t.Logf("the rest were gone after %v", time.Since(killed))
	r.once("leave", lostUsers...)
	r.unmoved(lostUsers...)
	for _, w := range r.watchers {
		for _, ch := range w.Leaves(room, "") {
			if ch.Reason != "expired" {
				t.Errorf("%q left for the reason %q", ch.User, ch.Reason)
			}
		}
	}
	for _, c := range back {
		if n := len(c.Leaves(room, "")); n > 4 {
			t.Errorf("who came back saw %d leaves", n)
		}
	}
	for _, c := range lost {
		c.Close()
	}
	r.cast = r.without(lostUsers...)
	r.calm()
	r.node(r.store.url())
	for _, w := range r.watchers {
		w.Never(time.Second, "told anything of a node that starts", func() bool { return len(w.Changes(room, "")) > 0 })
	}
}

// TestNodeCutFromStoreForLessThanALease: its viewers are told that what they see
// may be old, and nobody is told that anybody left.
func TestNodeCutFromStoreForLessThanALease(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2, gated: true})
	r.watch(room)
	r.fill(8)
	r.calm()
	r.gates[0].hold()
	time.Sleep(lease * 19 / 31) // as the table of faults says
	r.gates[0].release()
	harness.Eventually(t, soon, "the node reads again", func() bool {
		return r.nodes[0].Do(harness.Call{Path: harness.RoomPath(room, "")}).Status == 200
	})
	r.Agree(lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(lease, "told that somebody came or went", func() bool {
			return len(w.Joins(room, ""))+len(w.Leaves(room, "")) > 0
		})
	}
	r.unmoved()
}

// TestNodeCutFromStoreForLong: for the others its users leave once, and come back
// once; its own viewers keep what they had, and are told the difference later.
func TestNodeCutFromStoreForLong(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2, gated: true})
	r.watch(room)
	r.fill(8)
	r.calm()
	cut := []string{"u01", "u03", "u05", "u07"} // on the first node
	near, far := r.watchers[:2], r.watchers[2:]

	r.gates[0].hold()
	degraded(near[0], soon, true)
	degraded(near[1], soon, true)
	late := r.nodes[0].Try(t, harness.WS, harness.Options{User: "late", Rooms: []string{room}, NoWait: true})
	late.Until(soon, "accepted although the store is away", func() bool { return late.Ready().Connection != "" })
	for _, w := range far {
		w.Until(gone+lease, "the users of the node left", func() bool { return len(w.Leaves(room, "")) == len(cut) })
	}
	for _, w := range near {
		if n := len(w.Changes(room, "")); n > 0 {
			t.Errorf("a viewer of the node that sees nothing was told %d changes", n)
		}
		if !w.Has(room, "u01") || !w.Has(room, "u02") {
			t.Error("a viewer of the node that sees nothing has lost its list")
		}
	}
	r.gates[0].release()
	r.cast = append(r.cast, "late")
	r.see(soon, r.cast...)
	degraded(near[0], soon, false)
	r.Agree(lease + 5*time.Second)
	r.watchers = far
	r.once("leave", cut...)
	r.once("join", append(cut, "late")...)
	r.unmoved(append(cut, "late")...)
	r.watchers = near
	r.unmoved(append(cut, "late")...)
	for _, w := range near {
		for _, u := range cut {
			if n := len(w.Leaves(room, u)); n > 1 || n != len(w.Joins(room, u)) {
				t.Errorf("a viewer of the node saw %q leave %d times and join %d times", u, n, len(w.Joins(room, u)))
			}
		}
	}
	r.watchers = append(near, far...)
}

// storeAway checks what is seen while the store is away for several leases:
// nothing but that it is; and that joins and leaves of that time come later.
func storeAway(t *testing.T, r *rig, away, back func()) {
	t.Helper()
	r.watch(room)
	r.fill(8)
	r.calm()
	away()
	for _, w := range r.watchers {
		degraded(w, soon, true)
	}
	late := r.nodes[0].Try(t, harness.WS, harness.Options{User: "late", Rooms: []string{room}, NoWait: true})
	late.Until(soon, "accepted although the store is away", func() bool { return late.Ready().Connection != "" })
	r.members[1].Close() // "u02"
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody came or went", func() bool {
			return len(w.Joins(room, ""))+len(w.Leaves(room, "")) > 0
		})
	}
	late.Until(0, "told that the store is degraded", func() bool { return len(late.Events("health")) > 0 })
	back()
	for _, w := range r.watchers {
		degraded(w, soon, false)
		w.Until(soon, "the join of the time without a store", func() bool { return w.Has(room, "late") })
		w.Until(soon, "the leave of the time without a store", func() bool { return !w.Has(room, "u02") })
	}
	r.Agree(lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(lease/time.Duration(len(r.watchers)), "told that anybody else left", func() bool { return len(w.Leaves(room, "")) > 1 })
	}
	r.cast = append(r.cast, "late")
	// The store was away for so long that it settles: a snapshot may tell of both.
	r.atMostOnce("join", "late")
	r.atMostOnce("leave", "u02")
	r.unmoved("late", "u02")
}

// TestStoreStopped: a store that stands still empties no room.
func TestStoreStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	storeAway(t, r, r.store.stop, r.store.cont)
}

// TestStorePaused: nor does one that answers nobody.
func TestStorePaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	pause := 4 * lease // the end of it cannot be asked for: that would have to wait too
	storeAway(t, r, func() { r.store.do("CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds()), "ALL") }, func() {})
}
