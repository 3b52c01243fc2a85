//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA05EmptyIsDecidedOnTheWhole: nobody leaves, and no room is empty, while
// somebody is there on another node; back ends are told once that it is.
func TestA05EmptyIsDecidedOnTheWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	var backends []*backend
	for _, n := range r.nodes {
		backends = append(backends, readEvents(t, n))
	}
	one := r.member(r.nodes[0], harness.SSE, harness.Options{User: "ana"})
	two := r.member(r.nodes[1], harness.WS, harness.Options{User: "ana"})
	ben := r.member(r.nodes[1], harness.SSE, harness.Options{User: "ben"})
	r.see(soon, "ana", "ben")
	r.calm()
	one.Close()
	for _, w := range r.watchers {
		w.Never((grace+2*time.Second)/time.Duration(len(r.watchers)), "told that ana left", func() bool { return len(w.Leaves(room, "")) > 0 })
	}
	two.Close()
	r.see(soon, "ben")
	r.once("leave", "ana")
	for _, b := range backends {
		if n := len(b.of("vacated")); n > 0 {
			t.Errorf("a back end was told %d times that the room is empty while ben is there", n)
		}
	}
	for _, n := range r.nodes {
		if got := n.Count(room); got != 1 {
			t.Errorf("count %d, want 1", got)
		}
	}
	ben.Close()
	r.see(soon)
	r.once("leave", "ana", "ben")
	for _, b := range backends {
		harness.Eventually(t, soon, "a back end is told", func() bool { return len(b.of("vacated")) > 0 })
	}
	for _, w := range r.watchers {
		w.Never(time.Second/time.Duration(len(r.watchers)), "another change", func() bool { return len(w.Leaves(room, "")) != 2 })
	}
	for i, b := range backends {
		occupied, vacated := b.of("occupied"), b.of("vacated")
		if len(occupied) != 1 || len(vacated) != 1 || vacated[0] != backends[0].of("vacated")[0] || len(b.of("leave")) != 2 {
			t.Errorf("the back end at node %d was told %+v and %+v, and of %+v", i+1, occupied, vacated, b.of("leave"))
		}
	}
}

// TestA06OldConnectionTakesNothingAlong: a client whose network died goes on on
// another node, as the same connection and as another one; whatever becomes of the
// old sockets, nobody is told that it left.
func TestA06OldConnectionTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	var same, other []*harness.Client
	for i, over := range []harness.Transport{harness.SSE, harness.WS} {
		same = append(same, r.member(r.nodes[0], over, harness.Options{User: fmt.Sprintf("same%d", i)}))
		other = append(other, r.member(r.nodes[0], over, harness.Options{User: fmt.Sprintf("other%d", i)}))
	}
	r.see(soon, r.cast...)
	r.calm()
	for i := range same {
		same[i].Cut()
		other[i].Cut()
	}
	time.Sleep(lease / 3) // the old socket is dead for a while
	for i := range same {
		same[i].Move(r.nodes[1])
		same[i].Reopen()
		r.member(r.nodes[1], harness.Transport(i), harness.Options{User: fmt.Sprintf("other%d", i)})
	}
	for _, w := range r.watchers {
		w.Never(2*lease/time.Duration(len(r.watchers)), "told that anybody left", func() bool { return len(w.Leaves(room, "")) > 0 })
	}
	r.unmoved()
	for _, n := range r.nodes {
		if got := n.Count(room); got != 4 {
			t.Errorf("count %d, want 4", got)
		}
	}
}

// TestA03CrashedNodeLeavesNobody: everybody of a node that dies, and whose clients
// do not come back, leaves once; the node that starts again, empty, brings nobody.
func TestA03CrashedNodeLeavesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	doomed, other := r.nodes[0], r.nodes[1]
	for _, over := range []harness.Transport{harness.SSE, harness.WS} {
		r.watchers = append(r.watchers, other.Watch(t, over, room))
	}
	for i := range 10 {
		r.member(doomed, harness.Transport(i%2), harness.Options{User: fmt.Sprintf("u%d", i+1)})
	}
	lost := slices.Clone(r.cast)
	r.member(other, harness.WS, harness.Options{User: "u11"})
	r.see(soon, r.cast...)
	r.calm()
	doomed.Signal(syscall.SIGKILL)
	doomed.Exited(soon)
	killed := time.Now()
	r.cast = []string{"u11"}
	r.see(gone, r.cast...)
	t.Logf("all were gone after %v", time.Since(killed))
	r.once("leave", lost...)
	if users := other.Users(room); !slices.Equal(users, r.cast) {
		t.Errorf("the node that is left reads %q", users)
	}
	r.node(r.store.url())
	for _, w := range r.watchers {
		w.Never(lease/time.Duration(len(r.watchers)), "told anything of a node that starts", func() bool { return len(w.Leaves(room, "")) != len(lost) || len(w.Joins(room, "")) > 0 })
	}
}

// TestA20EveryNodeShowsEverybody: four nodes with three users each.
func TestA20EveryNodeShowsEverybody(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 4})
	r.watch(room)
	r.fill(12)
	for i, n := range r.nodes {
		users := n.Users(room)
		slices.Sort(users)
		if version := r.watchers[0].List(room).Version; n.Room(room).Version < version {
			t.Errorf("node %d is at version %d, behind %d", i+1, n.Room(room).Version, version)
		}
		if !slices.Equal(users, r.cast) || n.Count(room) != 12 {
			t.Errorf("node %d reads %q and counts %d", i+1, users, n.Count(room))
		}
	}
	late := r.member(r.nodes[3], harness.SSE, harness.Options{User: "late"})
	if l := late.List(room); l.Count != 13 || len(l.Members) != 13 {
		t.Errorf("a newcomer's first list has %d members and says %d, want 13 with itself", len(l.Members), l.Count)
	}
	r.Agree(soon)
}

// TestA21EveryChangeIsToldOnce: four nodes, ten joins and ten leaves, five of them
// by expiry; every watcher hears of each once, and the leaves by expiry come from
// one sweep each.
func TestA21EveryChangeIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 4})
	r.watch(room)
	r.calm()
	r.fill(10)
	r.once("join", r.cast...)
	for i, c := range r.members {
		switch {
		case i%2 == 0:
			c.Cut()
		case i%4 == 1:
			c.Release(false)
		default:
			c.Close()
		}
	}
	r.see(gone, []string{}...)
	r.once("join", r.cast...)
	r.once("leave", r.cast...)
	for i, n := range r.nodes {
		if ended := n.Metric("rollcall_leases_ended_total", `how="expired"`); ended != 5 {
			t.Errorf("node %d heard of %g leases that expired, want 5", i+1, ended)
		}
	}
}

// stepsOf is how many steps of chance are taken: 5000, or ROLLCALL_STEPS.
func stepsOf(t *testing.T) int {
	text := os.Getenv("ROLLCALL_STEPS")
	if text == "" {
		return 5000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 4 {
		t.Fatalf("ROLLCALL_STEPS=%s", text)
	}
	return n
}

// TestA44CountsNeverDrift: clients come, go, are cut and come back at random on
// three nodes; whenever nothing happens the count is the number of users.
func TestA44CountsNeverDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{})
	r.watch(room)
	random := rand.New(rand.NewPCG(7, 7))
	type seat struct {
		c    *harness.Client
		user string
		open bool
	}
	var seats []*seat
	present := make(map[string]int) // open connections of a user
	steps := stepsOf(t)
	for step := range steps {
		n := r.nodes[random.IntN(len(r.nodes))]
		switch k := random.IntN(10); {
		case k < 4 && len(seats) < 100 || len(seats) == 0:
			user := fmt.Sprintf("u%02d", random.IntN(50))
			c := n.Open(t, harness.Transport(random.IntN(2)), harness.Options{User: user, Rooms: []string{room}})
			if l := c.List(room); l.Count < 1 || !c.Has(room, user) || l.Count != len(l.Members) {
				t.Fatalf("step %d: a newcomer's first count is %d, with itself: %v", step, l.Count, c.Has(room, user))
			}
			seats = append(seats, &seat{c, user, true})
			present[user]++
		default:
			s := seats[random.IntN(len(seats))]
			switch {
			case s.open && k < 7:
				s.c.Release(k == 6)
				s.c.Kill()
				s.open = false
				present[s.user]--
			case s.open && k == 7:
				s.c.Close()
				s.open = false
				present[s.user]--
			case s.open && k == 8:
				s.c.Hangup()
				s.c.Move(n)
				s.c.Reopen()
			case !s.open:
				s.c.Move(n)
				s.c.Reopen()
				s.open = true
				present[s.user]++
			}
		}
		if step%(steps/4) != steps/4-1 {
			continue
		}
		var want []string
		for u, n := range present {
			if n > 0 {
				want = append(want, u)
			}
		}
		r.see(gone, want...)
		for i, n := range r.nodes {
			if got := n.Count(room); got != len(want) {
				t.Errorf("step %d: node %d counts %d, want %d", step, i+1, got, len(want))
			}
		}
	}
	for _, s := range seats {
		if s.open {
			s.c.Release(false)
		}
	}
	r.see(gone)
	for _, w := range r.watchers {
		for _, e := range w.Events() {
			if contains(e.Data, `"count":-`) {
				t.Errorf("a count below zero: %s", e.Data)
			}
		}
	}
}

// TestA47NothingIsLeftInTheStore: after everybody has left, in whatever way, and
// two leases, there is no key but those of the partitions themselves.
func TestA47NothingIsLeftInTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	var all []*harness.Client
	for i := range 200 {
		o := harness.Options{User: fmt.Sprintf("u%03d", i), Rooms: []string{fmt.Sprintf("hall/%03d", i%120)}, Data: `{"n":1}`}
		all = append(all, r.nodes[i%2].Open(t, harness.Transport(i/2%2), o))
	}
	if n := len(keys(r, false)); n < 240 {
		t.Fatalf("%d keys while 120 rooms have members, which is no test", n)
	}
	for i, c := range all {
		switch i % 4 {
		case 0:
			c.Release(false)
		case 1:
			c.Close()
		case 2:
			c.Release(true)
			c.Kill()
		default:
			c.Cut()
		}
	}
	harness.Eventually(t, 2*lease+gone, "nothing is left", func() bool { return len(keys(r, true)) == 0 })
	for _, n := range r.nodes {
		harness.Eventually(t, 2*lease, "no room is watched any more", func() bool { return n.Metric("rollcall_watched_rooms") == 0 })
	}
	for _, k := range keys(r, false) {
		if ttl := r.store.do("TTL", k).int(); ttl <= 0 {
			t.Errorf("key %q lives for ever", k)
		}
	}
}

// keys are the keys in the store; left are those among them that only somebody who
// is here may have.
func keys(r *rig, left bool) []string {
	r.t.Helper()
	all := r.store.do("KEYS", "*").strings()
	if !left {
		return all
	}
	return slices.DeleteFunc(all, func(k string) bool {
		_, own, ok := strings.Cut(k, "}:")
		// The head of a partition; where users were last seen; audiences, by the minute.
		return ok && (own == "c" || strings.HasPrefix(own, "w:") || strings.HasPrefix(own, "h:") || strings.HasPrefix(own, "g:")) || k == "rollcall:secret"
	})
}

// TestA52SweepAndRenewalCannotMiss: the calls of one node reach the store late, so
// that sweeps of the other and renewals cross; and both sweep at once what has
// expired. Nobody who lives leaves, and who died leaves once.
func TestA52SweepAndRenewalCannotMiss(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2, gated: true})
	r.watch(room)
	r.fill(4)
	var dead []*harness.Client
	var users []string
	for i := range 100 {
		u := fmt.Sprintf("dead%02d", i)
		c := r.nodes[i%2].Open(t, harness.Transport(i/2%2), harness.Options{User: u, Rooms: []string{room}})
		dead, users = append(dead, c), append(users, u)
	}
	r.see(soon, append(slices.Clone(r.cast), users...)...)
	r.calm()
	r.gates[0].slow(200 * time.Millisecond)
	for _, c := range dead {
		c.Cut()
	}
	r.see(gone+time.Second, r.cast...)
	r.once("leave", users...)
	for _, w := range r.watchers {
		w.Never(lease/time.Duration(len(r.watchers)), "told that somebody who lives left", func() bool { return len(w.Leaves(room, "")) > len(users) })
	}
	r.unmoved(users...)
	r.gates[0].slow(0)
}

// TestHalfOpenAndFrozenClients: nobody is told of the end of these, so their lease
// decides; on every node alike.
func TestHalfOpenAndFrozenClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	r.watch(room)
	r.fill(8)
	r.calm()
	began := time.Now()
	var users []string
	for i, c := range r.members[:6] {
		users = append(users, r.cast[i])
		if i%3 == 0 {
			c.Freeze()
		} else {
			c.Cut()
		}
	}
	r.see(gone, r.without(users...)...)
	t.Logf("gone after %v", time.Since(began))
	r.once("leave", users...)
	r.unmoved(users...)
	r.cast = r.without(users...)
}

// TestABackEndCallsAnyNode: with a server key a connection is set, put into a room
// and taken out of one on a node that does not have it.
func TestABackEndCallsAnyNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 3, config: harness.Config{Tokens: true}})
	token := r.nodes[0].Token(harness.Claims{User: "ana"})
	ana := r.nodes[0].Open(t, harness.SSE, harness.Options{User: "ana", Token: token, Rooms: []string{room}})
	path := harness.RoomPath(room, "/connections/"+ana.Ready().Connection)
	if a := r.nodes[1].Do(harness.Call{Method: "PATCH", Path: path, Body: `{"status":"away"}`}); a.Status != 200 {
		t.Errorf("PATCH: %d %s", a.Status, a.Body)
	}
	ana.Until(soon, "ana is away", func() bool { m, ok := ana.Member(room, "ana"); return ok && m.Status == "away" })
	began := time.Now()
	if a := r.nodes[2].Do(harness.Call{Method: "DELETE", Path: path}); a.Status != 204 {
		t.Errorf("DELETE: %d %s", a.Status, a.Body)
	}
	ana.Until(soon, "the stream ends with its last room", func() bool { return len(ana.Ends()) > 0 })
	for range 2 {
		if a := r.nodes[1].Do(harness.Call{Method: "DELETE", Path: path}); a.Status != 204 {
			t.Errorf("DELETE again: %d %s", a.Status, a.Body)
		}
	}
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("it took %v: a node did not answer", took)
	}
}
