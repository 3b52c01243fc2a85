//go:build faults && linux && amd64

package cluster

import (
	"syscall"
	"testing"
	"time"

	"rollcall/server/auth"
	"rollcall/test/harness"
)

const annex = "doc/42/annex"

// annexed is a rig of two nodes with watchers of two rooms, and ana: her event stream
// at the first node names one of them, and the other was put on its connection.
func annexed(t *testing.T, multi bool) (r *rig, ana *harness.Client) {
	t.Helper()
	r = tokens(t, 2)
	one, two := r.nodes[0], r.nodes[1]
	for _, over := range []harness.Transport{harness.SSE, harness.WS} {
		r.watchers = append(r.watchers, two.Watch(t, over, room, annex))
	}
	for _, n := range r.nodes {
		n.Know(annex, "ana", "ben")
	}
	ana = r.member(one, harness.SSE, harness.Options{User: "ana", Token: one.Token(harness.Claims{User: "ana"}), Multi: multi})
	if a := ana.Call("PUT", annex, "", `{"data":{"n":1}}`); !a.OK {
		t.Fatalf("PUT: %s", a.Raw)
	}
	ana.Until(soon, "the annex on the stream", func() bool { return ana.Has(annex, "ana") })
	for _, w := range r.watchers {
		w.Until(soon, "ana is in both rooms", func() bool { return w.Has(room, "ana") && w.Has(annex, "ana") })
	}
	harness.Eventually(t, everywhere, "the index names both rooms", func() bool {
		var u struct{ Rooms []string }
		a := two.Get("/v1/users/ana")
		return a.JSON(&u) == nil && len(u.Rooms) == 2
	})
	r.calm()
	return r, ana
}

// TestAnEventStreamKeepsItsRoomsOnAnotherNode: an EventSource comes back to another
// node with the URL that it began with. What was put on its connection meanwhile goes
// on too: nobody sees a leave, and its frames come.
func TestAnEventStreamKeepsItsRoomsOnAnotherNode(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(r *rig, ana *harness.Client){
		"its node was killed": func(r *rig, _ *harness.Client) {
			r.nodes[0].Signal(syscall.SIGKILL)
			r.nodes[0].Exited(soon)
		},
		"its node was drained": func(r *rig, ana *harness.Client) {
			r.nodes[0].Signal(syscall.SIGTERM)
			ana.Until(2*soon, "sent away", func() bool { return len(ana.Ends()) > 0 })
		},
		"its link was lost": func(_ *rig, ana *harness.Client) { ana.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ana := annexed(t, name == "its link was lost")
			connection := ana.Ready().Connection
			part(r, ana)
			two := r.nodes[1]
			ana.Move(two)
			ana.Reopen()
			if got := ana.Ready().Connection; got != connection {
				t.Errorf("it is connection %s now, want %s", got, connection)
			}
			ana.Until(soon, "both rooms on the new stream", func() bool {
				in, by := ana.List(room), ana.List(annex)
				return in != nil && by != nil && in.Stream == 2 && by.Stream == 2
			})
			ben := two.Open(t, harness.WS, harness.Options{
				User: "ben", Token: two.Token(harness.Claims{User: "ben"}), Rooms: []string{room, annex},
			})
			ana.Until(soon, "ben in both rooms", func() bool { return ana.Has(room, "ben") && ana.Has(annex, "ben") })
			for _, w := range r.watchers {
				w.Never(2*lease/time.Duration(len(r.watchers)), "told that ana came or went", func() bool {
					return len(w.Leaves("", "ana"))+len(w.Joins("", "ana")) > 0
				})
				if m, ok := w.Member(annex, "ana"); !ok || string(m.Data) != `{"n":1}` {
					t.Errorf("in the annex ana is %+v, %v, with another data", m, ok)
				}
			}
			ben.Leave(annex)
			ana.Until(soon, "ben leaves the annex", func() bool { return !ana.Has(annex, "ben") })
			ana.Release(false)
			for _, w := range r.watchers {
				w.Until(soon, "ana is gone", func() bool { return !w.Has(room, "ana") && !w.Has(annex, "ana") })
			}
		})
	}
}

// TestAnEventStreamThatComesToAnotherNodeWithALesserToken: what it may not be in any
// more ends, and who is hidden is seen nowhere, as on the node that it came from.
func TestAnEventStreamThatComesToAnotherNodeWithALesserToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims  harness.Claims
		here    bool // in the room of the URL
		reason  string
		revoked int  // events that tell so
		looks   bool // at the annex
	}{
		"narrower": {harness.Claims{User: "ana", Grants: map[string][]auth.Capability{room: {auth.Presence}}}, true, "revoked", 1, false},
		"hidden":   {harness.Claims{User: "ana", Hidden: true}, false, "left", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ana := annexed(t, false)
			two := r.nodes[1]
			ana.Cut()
			back := two.Open(t, harness.SSE, harness.Options{
				User: "ana", Token: two.Token(c.claims), Rooms: []string{room}, LastEventID: ana.LastEventID(),
			})
			for _, w := range r.watchers {
				w.Until(soon, "ana has left the annex", func() bool { return !w.Has(annex, "ana") })
				w.Until(soon, "ana is in the room if she may be seen there", func() bool { return w.Has(room, "ana") == c.here })
				w.Never(lease/time.Duration(len(r.watchers)), "told anything else", func() bool {
					return len(w.Joins("", "")) > 0 || w.Has(room, "ana") != c.here
				})
				for _, l := range w.Leaves("", "ana") {
					if l.Reason != c.reason {
						t.Errorf("ana left %q: %s, want %s", l.Room, l.Reason, c.reason)
					}
				}
			}
			if got := back.Events("ended"); len(got) != c.revoked || (back.List(annex) != nil) != c.looks {
				t.Errorf("it was told of %d ends, and of the annex %+v", len(got), back.List(annex))
			}
		})
	}
}
