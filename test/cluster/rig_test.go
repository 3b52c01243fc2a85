//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rollcall/test/harness"
)

// rig is some nodes on a store of their own, with watchers and members.
type rig struct {
	*harness.Nodes
	t      *testing.T
	store  *redis
	nodes  []*harness.Server
	gates  []*gate // of each node, if asked for
	config harness.Config

	watchers []*harness.Client // on every node, over both transports
	members  []*harness.Client
	cast     []string // the users among them
}

// plan is what a rig is to be like. The zero value is three nodes that reach the
// store directly.
type plan struct {
	nodes  int
	gated  bool
	store  *redis
	url    string // instead of the store's
	config harness.Config
}

func newRig(t *testing.T, p plan) *rig {
	t.Helper()
	r := &rig{t: t, store: p.store, config: p.config}
	if r.store == nil && p.url == "" {
		r.store = startRedis(t)
	}
	if p.nodes == 0 {
		p.nodes = 3
	}
	if r.config.Grace == 0 {
		r.config.Grace = grace
	}
	r.config.Lease, r.config.Beat = lease, beat
	if r.config.Launch == nil {
		r.config.Launch = launch
	}
	for range p.nodes {
		if p.gated {
			r.gates = append(r.gates, newGate(t, r.store.addr()))
		}
	}
	r.Nodes = harness.NewNodes(t)
	for i := range p.nodes {
		url := p.url
		switch {
		case p.gated:
			url = r.gates[i].url()
		case url == "":
			url = r.store.url()
		}
		r.node(url)
	}
	return r
}

// node starts one more node on a store.
func (r *rig) node(url string) *harness.Server {
	r.t.Helper()
	c := r.config
	c.Args = append([]string{"--store", url, "--node-id", fmt.Sprintf("node-%d", len(r.nodes)+1)}, c.Args...)
	s := r.Start(c)
	r.nodes = append(r.nodes, s)
	return s
}

// watch opens the watchers of rooms.
func (r *rig) watch(rooms ...string) {
	r.t.Helper()
	for _, n := range r.nodes {
		for _, over := range []harness.Transport{harness.SSE, harness.WS} {
			w := n.Watch(r.t, over, rooms...)
			r.watchers = append(r.watchers, w)
		}
	}
}

// member opens a member on a node.
func (r *rig) member(n *harness.Server, over harness.Transport, o harness.Options) *harness.Client {
	r.t.Helper()
	if o.Rooms == nil {
		o.Rooms = []string{room}
	}
	c := n.Open(r.t, over, o)
	r.members = append(r.members, c)
	if !slices.Contains(r.cast, o.User) {
		r.cast = append(r.cast, o.User)
	}
	return c
}

// fill opens n members, over the nodes and the transports by turns, and waits
// until every watcher has all of them.
func (r *rig) fill(n int) {
	r.t.Helper()
	for i := range n {
		over := harness.Transport(i / len(r.nodes) % 2)
		r.member(r.nodes[i%len(r.nodes)], over, harness.Options{User: fmt.Sprintf("u%02d", i+1)})
	}
	r.see(soon, r.cast...)
}

// see waits until every watcher's list has exactly these users.
func (r *rig) see(within time.Duration, users ...string) {
	r.t.Helper()
	want := slices.Sorted(slices.Values(users))
	for _, w := range r.watchers {
		w.Until(within, fmt.Sprintf("lists %q", want), func() bool {
			l := w.List(room)
			return l != nil && slices.Equal(l.Users(), want)
		})
	}
}

// reads waits until every node reads from the store again.
func (r *rig) reads() {
	r.t.Helper()
	for i, n := range r.Up() {
		harness.Eventually(r.t, soon, fmt.Sprintf("node %d reads", i+1), func() bool {
			return n.Do(harness.Call{Path: harness.RoomPath(room, "")}).Status == 200
		})
	}
}

// without is the cast without some.
func (r *rig) without(users ...string) []string {
	return slices.DeleteFunc(slices.Clone(r.cast), func(u string) bool { return slices.Contains(users, u) })
}

// calm forgets what the watchers have seen so far, once they agree and the store,
// whose memory is new, has settled.
func (r *rig) calm() {
	r.t.Helper()
	for _, n := range r.Up() {
		harness.Eventually(r.t, soon, "the store has settled", func() bool {
			a := n.Do(harness.Call{Path: harness.RoomPath(room, "")})
			return a.Status == 200 && a.Header.Get("Rollcall-Settling") == ""
		})
	}
	r.Agree(soon)
	for _, w := range r.watchers {
		w.Forget()
	}
}

// unmoved checks that no watcher was told since calm that somebody came or went,
// whether by a change or by a snapshot that lacks or adds somebody; except these.
func (r *rig) unmoved(but ...string) {
	r.t.Helper()
	for i, w := range r.watchers {
		for _, ch := range w.Changes(room, "") {
			if ch.Kind != "update" && !slices.Contains(but, ch.User) {
				r.t.Errorf("watcher %d was told: %s of %q %s", i, ch.Kind, ch.User, ch.Reason)
			}
		}
		for _, u := range r.without(but...) {
			if !w.Has(room, u) {
				r.t.Errorf("watcher %d does not list %q", i, u)
			}
		}
		for _, e := range w.Events("snapshot") {
			if err := lacks(e, r.without(but...)); err != "" {
				r.t.Errorf("watcher %d got a snapshot without %s", i, err)
			}
		}
	}
}

// once checks that every watcher was told of each of users once, since calm.
func (r *rig) once(kind string, users ...string) { r.t.Helper(); r.told(kind, 1, 1, users) }

// atMostOnce checks that none was told twice.
func (r *rig) atMostOnce(kind string, users ...string) { r.t.Helper(); r.told(kind, 0, 1, users) }

func (r *rig) told(kind string, least, most int, users []string) {
	r.t.Helper()
	for i, w := range r.watchers {
		for _, u := range users {
			n := 0
			for _, ch := range w.Changes(room, u) {
				if ch.Kind == kind {
					n++
				}
			}
			if n < least || n > most {
				r.t.Errorf("watcher %d was told %d times that %q had a %s", i, n, u, kind)
			}
		}
	}
}

// degraded waits until a client was told that the store is degraded, or that it
// is well again.
func degraded(c *harness.Client, within time.Duration, want bool) {
	word := map[bool]string{true: "degraded", false: "ok"}[want]
	c.Until(within, "health "+word, func() bool {
		all := c.Events("health")
		return len(all) > 0 && contains(all[len(all)-1].Data, `"`+word+`"`)
	})
}
