//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/test/harness"
)

// startCluster starts three masters that share the slots.
func startCluster(t *testing.T) []*redis {
	t.Helper()
	var all []*redis
	args := []string{"--cluster", "create"}
	for range 3 {
		r := startRedis(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-node-timeout", "2000")
		all, args = append(all, r), append(args, r.addr())
	}
	if out, err := exec.Command("redis-cli", append(args, "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for _, r := range all {
		r.await("cluster_state:ok", "CLUSTER", "INFO")
	}
	return all
}

func clusterURL(masters []*redis) string {
	var hosts []string
	for _, m := range masters {
		hosts = append(hosts, m.addr())
	}
	return "redis://" + strings.Join(hosts, ",")
}

// TestA53RoomsOfAnyNameInACluster: names that look like hash tags and like keys
// are rooms like others, and nothing of one is in another.
func TestA53RoomsOfAnyNameInACluster(t *testing.T) {
	t.Parallel()
	masters := startCluster(t)
	r := newRig(t, plan{nodes: 2, url: clusterURL(masters)})
	rooms := []string{"r", "a{b}c", "{}", "}{", "x:meta", "x"}
	want := make(map[string][]string)
	clients := make(map[string][]*harness.Client)
	for i, name := range rooms {
		for k := range 4 {
			user := fmt.Sprintf("{u%d}:%d", i, k)
			c := r.nodes[k%2].Open(t, harness.Transport(k/2), harness.Options{User: user, Rooms: []string{name}})
			if a := c.Set(name, fmt.Sprintf(`{"data":{"room":%d}}`, i)); !a.OK {
				t.Fatalf("set in %q: %s", name, a.Raw)
			}
			want[name], clients[name] = append(want[name], user), append(clients[name], c)
		}
	}
	check := func() {
		t.Helper()
		for _, name := range rooms {
			for _, c := range clients[name] {
				c.Until(soon, fmt.Sprintf("in %q are %q", name, want[name]), func() bool {
					l := c.List(name)
					return l != nil && slices.Equal(l.Users(), want[name])
				})
			}
		}
		r.Agree(soon)
	}
	check()
	owners := 0
	for _, m := range masters {
		if len(m.do("KEYS", "*:u:*").list) > 0 {
			owners++
		}
	}
	if owners < 2 {
		t.Errorf("the rooms lie on %d masters", owners)
	}
	time.Sleep(2 * lease) // beats keep everybody here
	check()
	for i, name := range rooms {
		for _, c := range clients[name] {
			if n := len(c.Leaves(name, "")); n > 0 {
				t.Errorf("%d leaves in %q", n, name)
			}
		}
		if i%2 == 0 {
			clients[name][3].Release(false)
		} else {
			clients[name][3].Cut()
		}
		want[name], clients[name] = want[name][:3], clients[name][:3]
	}
	time.Sleep(gone) // who was cut off is gone then
	check()
	for i, n := range r.nodes {
		if said := n.Said(); strings.Contains(said, "CROSSSLOT") || strings.Contains(said, "WRONGTYPE") {
			t.Errorf("node %d: %s", i+1, said)
		}
	}
}

// TestSlotMoves: the slot of a room moves to another master, key by key, while
// people stay and come: nobody is told that anybody left.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	masters := startCluster(t)
	r := newRig(t, plan{nodes: 2, url: clusterURL(masters)})
	r.watch(room)
	r.fill(8)
	r.calm()
	from := slices.IndexFunc(masters, func(m *redis) bool { return len(m.do("KEYS", "*:u:"+room).list) > 0 })
	if from < 0 {
		t.Fatal("the room is nowhere")
	}
	for turn := range 2 {
		to := (from + 1) % 3
		moveSlot(t, masters, from, to)
		from = to
		r.member(r.nodes[turn], harness.Transport(turn), harness.Options{User: fmt.Sprintf("late%d", turn)})
		r.see(soon, r.cast...)
	}
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody left", func() bool { return len(w.Leaves(room, "")) > 0 })
	}
	r.Agree(soon)
	r.unmoved("late0", "late1")
	r.members[0].Release(false)
	r.see(soon, r.without("u01")...)
	r.cast = r.without("u01")
}

// moveSlot moves the slot of the room from one master to another, as redis-cli
// does.
func moveSlot(t *testing.T, masters []*redis, from, to int) {
	t.Helper()
	src, dst := masters[from], masters[to]
	key := src.do("KEYS", "*:u:"+room).strings()[0]
	slot := src.do("CLUSTER", "KEYSLOT", key).text
	srcID, dstID := src.do("CLUSTER", "MYID").text, dst.do("CLUSTER", "MYID").text
	dst.do("CLUSTER", "SETSLOT", slot, "IMPORTING", srcID)
	src.do("CLUSTER", "SETSLOT", slot, "MIGRATING", dstID)
	for {
		keys := src.do("CLUSTER", "GETKEYSINSLOT", slot, "10").strings()
		if len(keys) == 0 {
			break
		}
		src.do(append([]string{"MIGRATE", "127.0.0.1", dst.port, "", "0", "5000", "REPLACE", "KEYS"}, keys...)...)
	}
	for _, m := range []*redis{dst, src, masters[3-from-to]} {
		m.do("CLUSTER", "SETSLOT", slot, "NODE", dstID)
	}
}

// halls starts three masters that go on without each other, two nodes, and a dozen
// rooms over all masters; clients 2i and 2i+1, one on each node, are in rooms[i].
func halls(t *testing.T) (masters []*redis, r *rig, rooms []string, clients []*harness.Client) {
	t.Helper()
	masters = startCluster(t)
	for _, m := range masters {
		m.do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	r = newRig(t, plan{nodes: 2, url: clusterURL(masters)})
	for i := range 12 {
		name := fmt.Sprintf("hall %d", i)
		rooms = append(rooms, name)
		for k := range 2 {
			c := r.nodes[k].Open(t, harness.Transport(i%2), harness.Options{User: fmt.Sprintf("u%d", k), Rooms: []string{name}})
			clients = append(clients, c)
		}
	}
	r.Agree(soon)
	return masters, r, rooms, clients
}

// TestMasterDies: of three masters one is gone for several leases, and the others
// go on: nobody is told that anybody left, in its rooms or in others.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	masters, r, rooms, clients := halls(t)
	for _, c := range clients {
		c.Forget()
	}
	masters[1].kill()
	time.Sleep(3 * lease) // long enough for every lease to run out
	masters[1].start()
	for _, m := range masters {
		m.await("cluster_slots_ok:16384", "CLUSTER", "INFO")
	}
	r.Agree(2*lease + 5*time.Second)
	for i, c := range clients {
		if ch := c.Leaves("", ""); len(ch) > 0 {
			t.Errorf("in %q %q was told of leaves: %+v", rooms[i/2], c.Ready().User, ch)
		}
	}
}
