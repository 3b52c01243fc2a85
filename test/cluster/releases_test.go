//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestLaterReleaseEndsNoStream: a node of a later release shares the store, and
// keeps and tells what this release cannot read. It is left alone, the log and a
// metric tell of it, no stream ends, and everybody else comes and goes as ever.
func TestLaterReleaseEndsNoStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(6)
	r.calm()
	users := r.store.do("KEYS", "*:u:"+room).strings()[0]
	prefix := strings.TrimSuffix(users, "u:"+room)
	// Values of layout 2 in MessagePack, and a name of a lease that begins with it.
	r.store.do("HSET", users, "later", "\x93\x02\xa1x\xa1y")
	r.store.do("ZADD", prefix+"l", "1", "\x02\x00of its own")
	clients := append(append([]*harness.Client{}, r.watchers...), r.members...)
	tell := func() {
		r.store.do("PUBLISH", prefix+"b", "\x93\x02\xa1x\xa1y")
		signals := prefix + "s:" + room
		for _, message := range []string{`{"node":"later","layout":2,"more":[{}]}`, `{"node":"later","signals":[{"user":"u01","kind":"cursor","more":{"x":1}}]}`, "\x02 no JSON"} {
			r.store.do("PUBLISH", signals, message)
			for i := range r.nodes {
				r.store.do("PUBLISH", fmt.Sprintf("rollcall:node:node-%d", i+1), message)
			}
		}
	}
	for i := range 4 {
		tell()
		c := r.member(r.nodes[i%2], harness.Transport(i/2), harness.Options{User: fmt.Sprintf("new%d", i)})
		if a := c.Set(room, `{"status":"idle"}`); !a.OK {
			t.Errorf("set: %s", a.Raw)
		}
		r.see(soon, r.cast...)
		tell()
		c.Release(false)
		r.cast = r.without(fmt.Sprintf("new%d", i))
		r.see(soon, r.cast...)
	}
	// A user of the later release comes here too, and has to wait.
	o := harness.Options{User: "later", Rooms: []string{room}, NoWait: true}
	late := r.nodes[0].Try(t, harness.WS, o)
	late.Until(soon, "accepted", func() bool { return late.Ready().Connection != "" })
	for _, w := range r.watchers {
		w.Never(lease/time.Duration(len(r.watchers)), "told that somebody left", func() bool {
			return len(w.Leaves(room, "")) > len(w.Leaves(room, "new0"))+len(w.Leaves(room, "new1"))+len(w.Leaves(room, "new2"))+len(w.Leaves(room, "new3"))
		})
	}
	r.unmoved("new0", "new1", "new2", "new3", "later")
	for _, c := range clients {
		if n := len(c.Ends()); n > 0 || c.Streams() != 1 {
			t.Errorf("%v of %q: %d streams have ended: %+v", c.Over, c.Ready().User, n, c.Ends())
		}
	}
	for i, n := range r.nodes {
		if n.Metric("rollcall_store_unknown_values_total") == 0 {
			t.Errorf("node %d has counted nothing that it cannot read", i+1)
		}
		if said := n.Said(); strings.Count(said, "a later release keeps") != 1 {
			t.Errorf("node %d is to tell once of a later release:\n%s", i+1, said)
		}
	}
	// The later release is gone, and with it what it kept.
	r.store.do("HDEL", users, "later")
	r.store.do("ZREM", prefix+"l", "\x02\x00of its own")
	r.cast = append(r.cast, "later")
	r.see(soon, r.cast...)
}
