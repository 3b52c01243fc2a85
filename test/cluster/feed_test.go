//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestFeedKilled: the connection over which a node hears is killed again and
// again while people come and go elsewhere; the difference is shown within 3 s,
// also if the room is silent afterwards (A23).
func TestFeedKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(4)
	r.calm()
	for i := range 3 {
		ben, cy := fmt.Sprintf("ben%d", i), fmt.Sprintf("cy%d", i)
		c := r.member(r.nodes[0], harness.SSE, harness.Options{User: cy})
		r.see(soon, r.cast...)
		if n := r.store.do("CLIENT", "KILL", "TYPE", "pubsub").int(); n < 1 {
			t.Fatalf("%d connections were killed", n)
		}
		killed := time.Now()
		c.Release(false)
		r.member(r.nodes[0], harness.WS, harness.Options{User: ben})
		r.cast = r.without(cy)
		r.see(repaired, r.cast...)
		t.Logf("repaired after %v", time.Since(killed))
		r.once("join", ben)
		r.once("leave", cy)
	}
}

// TestMessagesLost: single messages are lost on their way to one node. What they
// said is shown all the same, also if nothing follows; and once (A22).
func TestMessagesLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2, gated: true})
	r.watch(room)
	r.fill(4)
	r.calm()
	var lost atomic.Int64
	lose := func(yes bool) {
		if !yes {
			r.gates[1].losing(nil)
			return
		}
		r.gates[1].losing(func(v reply) bool {
			if isMessage(v) {
				lost.Add(1)
				return true
			}
			return false
		})
	}
	// The only message.
	lose(true)
	r.members[0].Release(false) // "u01"
	r.cast = r.without("u01")
	r.see(repaired, r.cast...)
	lose(false)
	if lost.Load() == 0 {
		t.Fatal("no message was lost, which is no test")
	}
	r.once("leave", "u01")
	// The first of two.
	lose(true)
	r.member(r.nodes[0], harness.SSE, harness.Options{User: "ana"})
	lose(false)
	r.member(r.nodes[0], harness.WS, harness.Options{User: "ben"})
	r.see(repaired, r.cast...)
	r.once("join", "ana", "ben")
	// Every other one, for a while.
	n := 0
	r.gates[1].losing(func(v reply) bool {
		if !isMessage(v) {
			return false
		}
		n++
		return n%2 == 0
	})
	for i := range 12 {
		u := fmt.Sprintf("v%02d", i)
		c := r.member(r.nodes[0], harness.Transport(i%2), harness.Options{User: u})
		if i%3 == 0 {
			c.Release(false)
			r.cast = r.without(u)
		}
	}
	r.see(repaired, r.cast...)
	lose(false)
	r.Agree(soon)
}

// TestConnectionsToStoreKilled: every connection of every node to the store is
// killed, again and again: nobody is told anything, and who comes meanwhile is
// accepted and shown.
func TestConnectionsToStoreKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(6)
	r.calm()
	for i := range 8 {
		r.store.do("CLIENT", "KILL", "TYPE", "normal")
		r.member(r.nodes[i%2], harness.Transport(i%2), harness.Options{User: fmt.Sprintf("new%d", i)})
		r.store.do("CLIENT", "KILL", "TYPE", "pubsub")
		time.Sleep(lease / 10) // the pace of the faults
	}
	r.see(soon, r.cast...)
	var joined []string
	for i := range 8 {
		joined = append(joined, fmt.Sprintf("new%d", i))
	}
	r.once("join", joined...)
	r.unmoved(joined...)
	r.Agree(soon)
}

// TestA22LeavesCrossNodes: a closed tab and an announced leave show on another
// node without waiting for the lease.
func TestA22LeavesCrossNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(8)
	r.calm()
	for i, u := range []string{"u01", "u03", "u05", "u07"} {
		c := r.members[2*i] // on the first node
		began := time.Now()
		within := 1500 * time.Millisecond
		if i%2 == 0 {
			c.Release(false)
		} else {
			c.Close()
			within += grace
		}
		r.cast = r.without(u)
		r.see(within, r.cast...)
		t.Logf("%v, announced: %v, gone after %v", c.Over, i%2 == 0, time.Since(began))
		r.once("leave", u)
	}
}

// TestSlowViewer: a viewer on one node that takes nothing slows nobody, here or
// there, and is shown the newest state when it goes on.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(4)
	var slow []*harness.Client
	for _, over := range []harness.Transport{harness.SSE, harness.WS} {
		slow = append(slow, r.nodes[0].Open(t, over, harness.Options{Rooms: []string{room}, Observe: true, Small: true, Nodes: func() []*harness.Server { return r.nodes[:1] }}))
	}
	r.calm()
	for _, s := range slow {
		s.Freeze()
	}
	c := r.member(r.nodes[1], harness.WS, harness.Options{User: "busy"})
	big := make([]byte, 900)
	for i := range big {
		big[i] = 'x'
	}
	for i := range 60 {
		began := time.Now()
		text := fmt.Sprintf(`{"data":{"n":%d,"text":"%s"}}`, i, big)
		if a := c.Set(room, text); !a.OK {
			t.Fatalf("set: %s", a.Raw)
		}
		w := r.watchers[i%len(r.watchers)]
		w.Until(2*time.Second, "the newest state", func() bool {
			m, ok := w.Member(room, "busy")
			return ok && contains(m.Data, fmt.Sprintf(`"n":%d,`, i))
		})
		if d := time.Since(began); d > time.Second {
			t.Logf("update %d took %v", i, d)
		}
	}
	for _, s := range slow {
		s.Thaw()
		s.Until(soon, "the newest state", func() bool {
			m, ok := s.Member(room, "busy")
			return ok && contains(m.Data, `"n":59,`)
		})
	}
	r.unmoved("busy")
}
