//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestMasterHangs: of three masters one is stopped, as by SIGSTOP or a link that
// was cut without a word, for several leases. In the rooms of the others nobody is
// shown leaving and everything goes on in time, also for those who are in its rooms
// too, and for those whose calls go to another node, which hands them over by way of
// the one that hangs; in its own rooms nobody is removed, and their viewers are told.
func TestMasterHangs(t *testing.T) {
	t.Parallel()
	masters, r, rooms, clients := halls(t)
	hanging := ownerOf(t, masters, "rollcall:node:node-1")
	ill := make(map[string]bool)
	var well []string
	for _, name := range rooms {
		if ill[name] = len(hanging.do("KEYS", "*:u:"+name).list) > 0; !ill[name] {
			well = append(well, name)
		}
	}
	if len(well) == 0 || len(well) == len(rooms) {
		t.Fatalf("%d of %d rooms lie on other masters", len(well), len(rooms))
	}
	var roomOf []string // of each client
	for k := range clients {
		roomOf = append(roomOf, rooms[k/2])
	}
	for i := range 4 {
		o := harness.Options{User: fmt.Sprintf("afar%d", i), Rooms: well[i%len(well):][:1], Through: r.nodes[1]}
		clients = append(clients, r.nodes[0].Open(t, harness.SSE, o))
		roomOf = append(roomOf, o.Rooms[0])
	}
	r.Agree(soon)
	for _, c := range clients {
		c.Forget()
	}
	hanging.stop()
	stopped := time.Now()
	time.Sleep(lease) // the nodes have noticed
	// Users of many names, whose own partitions are everywhere.
	for i := 0; time.Since(stopped) < 4*lease; i++ {
		name, user := well[i%len(well)], fmt.Sprintf("late%d", i)
		began := time.Now()
		c := r.nodes[i%2].Open(t, harness.Transport(i/2%2), harness.Options{User: user, Rooms: []string{name}, NoWait: true})
		for k, w := range clients {
			if roomOf[k] == name {
				w.Until(soon, user+" is shown", func() bool { return w.Has(name, user) })
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%v after the stop the join of %s showed after %v", time.Since(stopped), user, took)
		}
		c.Release(false)
		time.Sleep(200 * time.Millisecond)
	}
	for k, c := range clients {
		if ill[roomOf[k]] {
			degraded(c, soon, true)
		} else if len(c.Events("health")) > 0 {
			t.Errorf("in %q %q was told of the health of another master", roomOf[k], c.Ready().User)
		}
	}
	hanging.cont()
	for _, m := range masters {
		m.await("cluster_slots_ok:16384", "CLUSTER", "INFO")
	}
	r.Agree(2*lease + 5*time.Second)
	for k, c := range clients {
		if ill[roomOf[k]] {
			degraded(c, soon, false)
		}
		for _, ch := range c.Leaves("", "") {
			if ch.Reason != "left" {
				t.Errorf("in %q %q was told of a leave: %+v", roomOf[k], c.Ready().User, ch)
			}
		}
	}
}

// ownerOf is the master that a key or channel lies on: the others say who it is.
func ownerOf(t *testing.T, masters []*redis, key string) *redis {
	t.Helper()
	for _, m := range masters {
		if r, err := m.try("EXISTS", key); err == nil && r.kind == ':' {
			return m
		}
	}
	t.Fatalf("nobody owns %s", key)
	return nil
}
