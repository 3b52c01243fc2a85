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
// too; in its own rooms nobody is removed, and their viewers are told.
func TestMasterHangs(t *testing.T) {
	t.Parallel()
	masters, r, rooms, clients := halls(t)
	ill := make(map[string]bool)
	var well []string
	for _, name := range rooms {
		if ill[name] = len(masters[1].do("KEYS", "*:u:"+name).list) > 0; !ill[name] {
			well = append(well, name)
		}
	}
	if len(well) == 0 || len(well) == len(rooms) {
		t.Fatalf("%d of %d rooms lie on other masters", len(well), len(rooms))
	}
	for _, c := range clients {
		c.Forget()
	}
	masters[1].stop()
	stopped := time.Now()
	time.Sleep(lease) // the nodes have noticed
	// Users of many names, whose own partitions are everywhere.
	for i := 0; time.Since(stopped) < 4*lease; i++ {
		name, user := well[i%len(well)], fmt.Sprintf("late%d", i)
		began := time.Now()
		c := r.nodes[i%2].Open(t, harness.Transport(i/2%2), harness.Options{User: user, Rooms: []string{name}, NoWait: true})
		for k, w := range clients {
			if rooms[k/2] == name {
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
		if ill[rooms[k/2]] {
			degraded(c, soon, true)
		} else if len(c.Events("health")) > 0 {
			t.Errorf("in %q %q was told of the health of another master", rooms[k/2], c.Ready().User)
		}
	}
	masters[1].cont()
	for _, m := range masters {
		m.await("cluster_slots_ok:16384", "CLUSTER", "INFO")
	}
	r.Agree(2*lease + 5*time.Second)
	for k, c := range clients {
		if ill[rooms[k/2]] {
			degraded(c, soon, false)
		}
		for _, ch := range c.Leaves("", "") {
			if ch.Reason != "left" {
				t.Errorf("in %q %q was told of a leave: %+v", rooms[k/2], c.Ready().User, ch)
			}
		}
	}
}
