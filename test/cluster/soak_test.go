//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// soakFor is how long faults are thrown.
func soakFor(t *testing.T) time.Duration {
	if text := os.Getenv("ROLLCALL_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("ROLLCALL_SOAK: %v", err)
		}
		return d
	}
	return 45 * time.Second
}

// soakSeed is the seed of the faults; ROLLCALL_SEED is another one.
func soakSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("ROLLCALL_SEED"), 10, 64); err == nil {
		return n
	}
	return 7
}

// TestSoak throws faults at random at three nodes and their store, while people
// come and go. After the last one all views are the same within a lease and five
// seconds, and show exactly those who are here.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := soakSeed()
	t.Logf("ROLLCALL_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, plan{gated: true, config: harness.Config{Args: []string{"--drain", "1s"}}})
	addresses := make([]string, 3)
	for i, n := range r.nodes {
		addresses[i] = n.Host()
	}
	here := func() []*harness.Server { return slices.Clone(r.Up()) }
	for i := range 6 {
		r.watchers = append(r.watchers, r.nodes[i%3].Open(t, harness.Transport(i/3), harness.Options{
			Rooms: []string{room}, Observe: true, Nodes: here, Reconnect: true, User: "watcher",
		}))
	}
	type person struct {
		c    *harness.Client
		user string
	}
	var people []person
	arrive := func(i int) {
		up := here()
		if len(up) == 0 {
			return
		}
		p := person{user: fmt.Sprintf("u%03d", i)}
		p.c = up[random.IntN(len(up))].Try(t, harness.Transport(random.IntN(2)), harness.Options{
			User: p.user, Rooms: []string{room}, Nodes: here, Reconnect: true, NoWait: true,
		})
		if p.c.Refused() == nil {
			people = append(people, p)
		} else {
			p.c.Kill()
		}
	}
	count := 0
	for range 15 {
		arrive(count)
		count++
	}
	restart := func(i int) {
		c := r.config
		c.Listen = addresses[i]
		c.Args = append([]string{"--store", r.gates[i].url(), "--node-id", fmt.Sprintf("node-%d", i+1)}, c.Args...)
		r.nodes[i] = r.Start(c)
	}
	pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) } // the pace of the faults
	faults := []struct {
		name string
		do   func(i int)
	}{
		{"a node is killed", func(i int) { r.nodes[i].Signal(syscall.SIGKILL); r.nodes[i].Exited(soon); pause(lease); restart(i) }},
		{"a node is drained", func(i int) { r.nodes[i].Signal(syscall.SIGTERM); r.nodes[i].Exited(15 * time.Second); restart(i) }},
		{"a node stands still", func(i int) { r.nodes[i].Signal(syscall.SIGSTOP); pause(2 * lease); r.nodes[i].Signal(syscall.SIGCONT) }},
		{"a node is cut off", func(i int) { r.gates[i].hold(); pause(2 * lease); r.gates[i].release() }},
		{"connections to the store end", func(i int) { r.gates[i].drop() }},
		{"messages are lost", func(i int) {
			r.gates[i].losing(isMessage)
			pause(lease)
			r.gates[i].losing(nil)
		}},
		{"the store stands still", func(int) { r.store.stop(); pause(2 * lease); r.store.cont() }},
		{"the store forgets", func(int) { r.store.try("FLUSHALL") }},
		{"the store starts again", func(int) { r.store.kill(); pause(lease / 2); r.store.start() }},
		{"the feeds are killed", func(int) { r.store.try("CLIENT", "KILL", "TYPE", "pubsub") }},
	}
	until := time.Now().Add(soakFor(t))
	for time.Now().Before(until) {
		f := faults[random.IntN(len(faults))]
		i := random.IntN(3)
		t.Logf("%s: node %d: %s", time.Now().Format("04:05.000"), i+1, f.name)
		f.do(i)
		for range random.IntN(4) {
			switch k := random.IntN(3); {
			case k == 0 || len(people) < 5:
				arrive(count)
				count++
			default:
				j := random.IntN(len(people))
				if k == 1 {
					people[j].c.Release(false)
				}
				people[j].c.Kill()
				people = slices.Delete(people, j, j+1)
			}
		}
		pause(time.Second)
	}
	last := time.Now()
	r.cast = nil
	for _, p := range people {
		r.cast = append(r.cast, p.user)
	}
	r.see(lease+5*time.Second, r.cast...)
	t.Logf("all views are the same %v after the last fault", time.Since(last))
	r.Agree(time.Second)
}
