//go:build faults && linux && amd64

package cluster

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"rollcall/test/harness"
)

// forgets checks what is seen when the store loses its memory: nothing, but of
// who comes and goes meanwhile, and of who died meanwhile, once it has settled.
func forgets(t *testing.T, r *rig, lose func()) {
	t.Helper()
	r.watch(room)
	r.fill(9)
	r.calm()
	// u09 dies with the memory: nobody will ever know the lease again.
	r.members[8].Cut()
	lose()
	lost := time.Now()
	r.member(r.nodes[0], harness.SSE, harness.Options{User: "new"})
	for _, w := range r.watchers {
		w.Until(soon, "the join shows at once", func() bool { return w.Has(room, "new") })
	}
	r.members[1].Release(false) // "u02"
	for _, w := range r.watchers {
		w.Until(soon, "the leave shows at once", func() bool { return !w.Has(room, "u02") })
	}
	for _, w := range r.watchers {
		w.Until(2*lease+soon, "who died is gone once the store has settled", func() bool { return !w.Has(room, "u09") })
	}
	t.Logf("who died was gone after %v", time.Since(lost))
	r.Agree(lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(lease/time.Duration(len(r.watchers)), "told that anybody else left", func() bool { return len(w.Leaves(room, "")) > 2 })
	}
	// What came and went at once with the loss may be in the snapshot that tells of
	// it.
	r.atMostOnce("join", "new")
	r.atMostOnce("leave", "u02", "u09")
	r.unmoved("new", "u02", "u09")
}

// TestFlushAll: a store that is emptied at full speed shows nobody leaving.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{})
	forgets(t, r, func() { r.store.do("FLUSHALL") })
}

// TestStoreRestartsEmpty: nor does one that starts again with nothing.
func TestStoreRestartsEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{})
	forgets(t, r, func() {
		r.store.kill()
		r.store.start()
	})
}

// TestFlushAllTwice: while the nodes still bring back what was lost, it is lost
// again.
func TestFlushAllTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{})
	r.watch(room)
	r.fill(12)
	r.calm()
	for range 5 {
		r.store.do("FLUSHALL")
		time.Sleep(lease / 5) // in the middle of it
	}
	r.Agree(2*lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody came or went", func() bool {
			return len(w.Joins(room, ""))+len(w.Leaves(room, "")) > 0
		})
	}
	r.unmoved()
}

// TestFlushAllInALargeRoom: nor does the number of a room that tells no names fall,
// before it is known who died meanwhile.
func TestFlushAllInALargeRoom(t *testing.T) {
	t.Parallel()
	const many = 9
	r := newRig(t, plan{config: harness.Config{Args: []string{"--counts-above", "5", "--counts-below", "3"}}})
	r.watch(room)
	for i := range many {
		r.member(r.nodes[i%len(r.nodes)], harness.Transport(i/len(r.nodes)%2), harness.Options{User: fmt.Sprintf("u%02d", i+1)})
	}
	tells := func(within time.Duration, n int) {
		for _, w := range r.watchers {
			w.Until(within, fmt.Sprintf("is told of %d", n), func() bool {
				l := w.List(room)
				return l != nil && l.Mode == "counts" && l.Count == n
			})
		}
	}
	tells(soon, many)
	r.calm()
	r.members[many-1].Cut()
	r.store.do("FLUSHALL")
	tells(2*lease+soon, many-1)
	r.Agree(lease + 5*time.Second)
	for i, w := range r.watchers {
		for _, e := range w.Events("snapshot", "mode", "count") {
			var told struct{ Count int }
			if err := json.Unmarshal(e.Data, &told); err != nil || told.Count < many-1 {
				t.Errorf("watcher %d was told %s %s, %v", i, e.Name, e.Data, err)
			}
		}
	}
}

// TestMovedConnectionsSurviveLostMemory: the node that a client has left does not
// bring back the lease that it knew, over the one that the client has now.
func TestMovedConnectionsSurviveLostMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(8)
	for i, c := range r.members {
		c.Move(r.nodes[(i+1)%2])
		c.Reopen()
	}
	r.calm()
	streams := make([]int, len(r.members))
	for i, c := range r.members {
		streams[i] = c.Streams()
	}
	r.store.do("FLUSHALL")
	r.Agree(2*lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody came or went", func() bool {
			return len(w.Joins(room, ""))+len(w.Leaves(room, "")) > 0
		})
	}
	r.unmoved()
	for i, c := range r.members {
		if !c.Open() || c.Streams() != streams[i] {
			t.Errorf("the stream of %q did not live on: %+v", r.cast[i], c.Ends())
		}
	}
}

// TestFailoverLosesWrites: a replica takes over that lacks the last joins and
// leaves. The joins come back; nobody else is shown coming or going.
func TestFailoverLosesWrites(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	replica := startRedis(t, "--replicaof", "127.0.0.1 "+master.port)
	replica.await("master_link_status:up", "INFO", "replication")
	r := newRig(t, plan{gated: true, store: master})
	r.watch(room)
	r.fill(8)
	r.calm()
	// From here on the replica hears nothing.
	key := r.store.do("KEYS", "*:u:"+room).strings()[0]
	harness.Eventually(t, soon, "the replica has everybody", func() bool { return replica.do("HLEN", key).int() == len(r.cast) })
	replica.do("REPLICAOF", "NO", "ONE")
	r.member(r.nodes[0], harness.SSE, harness.Options{User: "new1"})
	r.member(r.nodes[1], harness.WS, harness.Options{User: "new2"})
	r.members[3].Release(false) // "u04"
	for _, w := range r.watchers {
		w.Until(soon, "the last writes", func() bool { return w.Has(room, "new1") && w.Has(room, "new2") && !w.Has(room, "u04") })
	}
	r.store.kill()
	for _, g := range r.gates {
		g.point(replica.addr())
	}
	r.reads()
	r.Agree(2*lease + 5*time.Second)
	for i, w := range r.watchers {
		w.Until(gone+lease, "who had left is gone", func() bool { return !w.Has(room, "u04") })
		for _, u := range []string{"new1", "new2"} {
			if n := len(w.Leaves(room, u)); n > 1 {
				t.Errorf("watcher %d was told %d times that %q left", i, n, u)
			}
		}
		if n := len(w.Leaves(room, "u04")); n > 2 {
			t.Errorf("watcher %d was told %d times that u04 left", i, n)
		}
	}
	r.unmoved("new1", "new2", "u04")
	r.Agree(soon)
	r.store = replica
}

// TestSentinelFailover: the nodes find the new master by themselves. The servers
// want a password, and the sentinels another one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := startRedis(t, "--requirepass", "of the data", "--masterauth", "of the data")
	replica := startRedis(t, "--requirepass", "of the data", "--masterauth", "of the data", "--replicaof", "127.0.0.1 "+master.port)
	replica.await("master_link_status:up", "INFO", "replication")
	url := "redis+sentinel://:of%20the%20data@"
	var sentinels []*redis
	for i := range 3 {
		s := startSentinel(t, master)
		sentinels = append(sentinels, s)
		if i > 0 {
			url += ","
		}
		url += s.addr()
	}
	for _, s := range sentinels {
		harness.Eventually(t, soon, "the sentinels know of each other and of the replica", func() bool {
			a := s.do("SENTINEL", "MASTER", "rollcall")
			table := map[string]string{}
			for i := 0; i+1 < len(a.list); i += 2 {
				table[a.list[i].text] = a.list[i+1].text
			}
			return table["num-other-sentinels"] == "2" && table["num-slaves"] == "1"
		})
	}
	r := newRig(t, plan{store: master, url: url + "/rollcall?sentinelPassword=watch&db=3"})
	r.watch(room)
	r.fill(6)
	r.calm()
	master.kill()
	replica.await("role:master", "INFO", "replication")
	r.reads()
	late := r.member(r.nodes[2], harness.SSE, harness.Options{User: "late"})
	r.see(soon, r.cast...)
	r.Agree(2*lease + 5*time.Second)
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody left", func() bool { return len(w.Leaves(room, "")) > 0 })
	}
	r.unmoved("late")
	late.Release(false)
	r.see(soon, r.without("late")...)
}

// startSentinel starts a sentinel that watches master.
func startSentinel(t *testing.T, master *redis) *redis {
	t.Helper()
	file := t.TempDir() + "/sentinel.conf"
	write(t, file, fmt.Sprintf(`
sentinel monitor rollcall 127.0.0.1 %s 2
sentinel down-after-milliseconds rollcall 1000
sentinel failover-timeout rollcall 5000
sentinel auth-pass rollcall "%s"
requirepass watch
`, master.port, master.pass))
	return startRedisBy(t, func(cmd *exec.Cmd) error {
		cmd.Args = append([]string{cmd.Args[0], file, "--sentinel"}, "--port", portOf(cmd.Args), "--bind", "127.0.0.1")
		return launch(cmd)
	}, "--requirepass", "watch")
}
