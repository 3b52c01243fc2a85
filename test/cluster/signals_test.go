//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// showing waits until clients show a signal of another.
func showing(within time.Duration, of *harness.Client, kind, data string, clients ...*harness.Client) {
	for _, c := range clients {
		c.Until(within, fmt.Sprintf("%s of %q is %q", kind, of.Ready().User, data), func() bool { return c.Shows(room, of, kind) == data })
	}
}

// TestSignalsCrossNodes: what is sent at one node is told at the others, its end
// too; who comes later, at a node that has just begun to listen, is told what
// lives.
func TestSignalsCrossNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 3})
	n1, n2, n3 := r.nodes[0], r.nodes[1], r.nodes[2]
	ana := r.member(n1, harness.WS, harness.Options{User: "ana"})
	ben := r.member(n2, harness.SSE, harness.Options{User: "ben"})
	ben.Until(soon, "ana is here", func() bool { return ben.Has(room, "ana") })
	// Nobody at n3 has asked for the room yet.
	ana.Signal(room, `{"kind":"selection","data":[1,2],"docVersion":"v"}`)
	ana.Signal(room, `{"kind":"cursor","data":{"x":1}}`)
	ana.Signal(room, `{"kind":"typing","data":true,"ttlMs":3000}`)
	showing(soon, ana, "cursor", `{"x":1}`, ben)
	ben.Signal(room, `{"kind":"cursor","data":"ben"}`)
	showing(soon, ben, "cursor", `"ben"`, ana)

	cleo := r.member(n3, harness.WS, harness.Options{User: "cleo"})
	showing(soon, ana, "selection", `[1,2]`, ben, cleo)
	showing(soon, ana, "cursor", `{"x":1}`, cleo)
	showing(soon, ben, "cursor", `"ben"`, cleo)
	key := harness.SignalKey{Connection: ana.Ready().Connection, Kind: "selection"}
	if s := cleo.Signals(room)[key]; string(s.DocVersion) != `"v"` || s.TTLMs != nil || s.User != "ana" {
		t.Errorf("the selection at another node: %+v", s)
	}
	ana.Signal(room, `{"kind":"cursor","data":null}`)
	showing(soon, ana, "cursor", "", ben, cleo)
	showing(soon, ana, "typing", "", ben, cleo) // by its time
	ana.Close()
	showing(soon, ana, "selection", "", ben, cleo)
	cleo.Until(soon, "ana is gone", func() bool { return !cleo.Has(room, "ana") })
}

// TestFloodOfCursorsCrossesNodes: at most one message a tick of each node, the
// last position arrives, and the roster is as quick as ever.
func TestFloodOfCursorsCrossesNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(6)
	const moves = 200
	began := time.Now()
	for i := range moves {
		for _, c := range r.members {
			if c.Over == harness.WS {
				c.Point(room, fmt.Sprintf(`{"kind":"cursor","data":%d}`, i+1))
			}
		}
		time.Sleep(10 * time.Millisecond)
		if i == moves/2 {
			c := r.nodes[1].Open(t, harness.WS, harness.Options{User: "late", Rooms: []string{room}})
			r.members = append(r.members, c)
			r.cast = append(r.cast, "late")
			r.see(2*time.Second, r.cast...)
		}
	}
	for _, c := range r.members {
		if c.Over == harness.WS && c.Ready().User != "late" {
			showing(2*time.Second, c, "cursor", fmt.Sprint(moves), r.watchers...)
		}
	}
	most := float64(time.Since(began)/(50*time.Millisecond)) + 10
	for _, n := range r.nodes {
		if got := n.Metric("rollcall_signal_messages_total"); got > most {
			t.Errorf("%v messages of a node in %v, want at most one a tick", got, time.Since(began))
		}
	}
}

// TestSignalsOfAKilledNodeEnd: by their time, or with the lease; and who moves to
// another node has what was sent before end too.
func TestSignalsOfAKilledNodeEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	n1, n2 := r.nodes[0], r.nodes[1]
	ben := r.member(n2, harness.WS, harness.Options{User: "ben"})
	ana := r.member(n1, harness.WS, harness.Options{User: "ana", Nodes: func() []*harness.Server { return []*harness.Server{n1, n2} }})
	dan := r.member(n1, harness.WS, harness.Options{User: "dan"})
	ben.Until(soon, "both are here", func() bool { return ben.Has(room, "ana") && ben.Has(room, "dan") })
	for _, c := range []*harness.Client{ana, dan} {
		c.Signal(room, `{"kind":"selection","data":1}`)
		showing(soon, c, "selection", "1", ben)
	}
	n1.Signal(syscall.SIGKILL)
	ana.Until(soon, "ana is at the other node", func() bool { return ana.Streams() > 1 && ana.Open() })
	showing(5*time.Second, ana, "selection", "", ben) // not sent again
	showing(gone+time.Second, dan, "selection", "", ben)
	ana.Signal(room, `{"kind":"selection","data":2}`)
	showing(soon, ana, "selection", "2", ben)
}

// TestSignalsThatAreSaidAgainGoOn: who comes back, to the same node or to another one,
// and says again what is selected, has it selected for everybody, on every node.
func TestSignalsThatAreSaidAgainGoOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	n1, n2 := r.nodes[0], r.nodes[1]
	viewers := []*harness.Client{
		r.member(n1, harness.WS, harness.Options{User: "ben"}), r.member(n2, harness.SSE, harness.Options{User: "cleo"}),
	}
	var all []*harness.Client
	for i := range 4 {
		c := r.member(n1, harness.Transport(i%2), harness.Options{User: fmt.Sprintf("u%d", i)})
		all = append(all, c)
		c.Signal(room, `{"kind":"selection","data":1}`)
		showing(soon, c, "selection", "1", viewers...)
	}
	for i, c := range all {
		c.Hangup() // an event stream closes by that
		if i >= 2 {
			c.Move(n2)
		}
		c.Reopen()
		c.Signal(room, `{"kind":"selection","data":1}`)
	}
	for _, v := range viewers {
		v.Never(2*time.Second, "shown that a selection has ended", func() bool {
			for _, c := range all {
				if v.Shows(room, c, "selection") != "1" {
					return true
				}
			}
			return false
		})
	}
}

// TestSignalsSurviveTheirSubscription: when the store drops every connection, a
// node asks again for what lives.
func TestSignalsSurviveTheirSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	ana := r.member(r.nodes[0], harness.WS, harness.Options{User: "ana"})
	ben := r.member(r.nodes[1], harness.WS, harness.Options{User: "ben"})
	ben.Until(soon, "ana is here", func() bool { return ben.Has(room, "ana") })
	ana.Signal(room, `{"kind":"selection","data":1}`)
	showing(soon, ana, "selection", "1", ben)
	r.store.do("CLIENT", "KILL", "TYPE", "pubsub")
	ana.Signal(room, `{"kind":"selection","data":2}`) // may be lost
	showing(soon, ana, "selection", "2", ben)
}
