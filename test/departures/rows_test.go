//go:build unix

package departures

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

func always(p promise) func(kind) promise { return func(kind) promise { return p } }

// socketEnds is the promise when the kernel of the client, or a proxy, ends the
// connection without a word: that is how SSE streams of people end, while a
// WebSocket without a close frame was cut.
func socketEnds(k kind) promise {
	if k == kindSSE || k == kindPlain {
		return closed
	}
	return runsOut
}

func explicitLeave(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, say(sayLeave), always(left))
}

func tabClosed(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, say(sayClose), always(closed))
}

func tabClosedBeacon(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, say(sayBeacon), always(closed))
}

func killed(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, (*client).kill, socketEnds)
}

// killedInTheGap kills a plain EventSource that the server has just sent to come
// back: no connection is there to end, so only the lease tells.
func killedInTheGap(r *rig) {
	r.serve()
	c := r.client(kindPlain, r.server.url, kindPlain.short())
	r.assembled()
	seen := len(c.goodbyes())
	if !c.await(r.ctx, func() bool { return len(c.goodbyes()) > seen }) {
		r.t.Fatal("the stream is not rotated")
	}
	at, err := c.kill(r.ctx)
	r.must(err)
	r.departed(c.Kind, c.Users[0], atMostLease, at, func() time.Time { return c.proof(c.Users[0]) })
}

// frozen also wakes the clients again: each is back once, and the viewers have
// been told of one leave and one join.
func frozen(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, (*client).freeze, always(runsOut))
	for _, c := range clients {
		r.must(c.signal(syscall.SIGCONT))
	}
	for _, c := range clients {
		r.back(c.Kind, c.Users[0])
	}
}

// back waits until every viewer sees user again.
func (r *rig) back(k kind, user string) {
	r.t.Helper()
	for _, v := range r.viewers {
		if !v.await(r.ctx, func() bool { return v.sees(user) }) {
			r.t.Errorf("%s: %s does not see %s again", k, v.name, user)
		}
	}
}

// silent is a WebSocket without pongs, a stream whose beats are not answered, a
// plain EventSource that does not come back, and a PUT that is not repeated.
func silent(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	r.depart(clients, say(sayMute), always(runsOut))
	for _, c := range clients {
		if c.Kind != kindSSE && c.Kind != kindWS {
			continue // the one has no stream by then, the other never has
		}
		if !c.await(r.ctx, func() bool { return strings.Contains(strings.Join(c.goodbyes(), " "), `"expired"`) }) {
			r.t.Errorf("%s client was not told that its lease has ended: %v", c.Kind, c.goodbyes())
		}
	}
}

func heldByProxy(r *rig) {
	r.serve()
	proxy, err := startProxy(r.ctx, r.t, r.server)
	r.must(err)
	clients := r.one(kinds, proxy)
	r.assembled()
	r.depart(clients, (*client).kill, always(runsOut))
}

// oneOfTwo closes one of two tabs of each user: the number of connections falls,
// and nobody leaves.
func oneOfTwo(r *rig) {
	r.serve()
	first := r.one(kinds, r.server.url)
	r.one(kinds, r.server.url)
	r.assembled()
	from := time.Now()
	for _, c := range first {
		r.must(c.settled(r.ctx))
		_, err := c.say(r.ctx, sayClose)
		r.must(err)
	}
	for _, k := range kinds {
		r.unnoticed(from, k, "no leave", k.short())
	}
	_, connections, err := counts(r.ctx, r.server.url, r.room)
	r.must(err)
	if want := 1 + len(kinds); connections != want {
		r.t.Errorf("%d connections are left, want %d", connections, want)
	}
}

// reloaded closes each tab and comes back at once as a new page.
func reloaded(r *rig) {
	r.serve()
	clients := r.one(kinds, r.server.url)
	r.assembled()
	from := time.Now()
	before := make([]int, len(clients))
	for i, c := range clients {
		r.must(c.settled(r.ctx))
		before[i] = c.opens()
		_, err := c.say(r.ctx, sayReload)
		r.must(err)
	}
	for _, k := range kinds {
		r.unnoticed(from, k, "no leave, no join", k.short())
	}
	for i, c := range clients {
		if c.opens() == before[i] {
			r.t.Errorf("%s client did not come back: %v", c.Kind, c.trouble())
		}
	}
}

// suspended stops the server for two leases. Of 24 clients four die meanwhile:
// they are gone within a lease after the wake, and nobody else is.
func suspended(r *rig) {
	r.serve()
	dying := r.one(kinds, r.server.url)
	living := make([][]string, len(kinds))
	for i, n := range []int{7, 5, 5, 3} {
		for j := range n {
			living[i] = append(living[i], fmt.Sprintf("living-%s-%d", kinds[i].short(), j))
		}
		r.client(kinds[i], r.server.url, living[i]...)
	}
	r.assembled()
	from := time.Now()
	r.must(r.server.signal(syscall.SIGSTOP))
	pause(r.ctx, lease/3)
	for _, c := range dying {
		r.must(c.signal(syscall.SIGKILL))
	}
	pause(r.ctx, time.Until(from.Add(2*lease)))
	wake := time.Now()
	r.must(r.server.signal(syscall.SIGCONT))
	p := promise{text: "lease + 1 s after the wake", most: lease + time.Second}
	for _, c := range dying {
		r.departed(c.Kind, c.Users[0], p, wake, func() time.Time { return c.proof(c.Users[0]) })
	}
	r.row.way = "alive while the server is suspended"
	for i, k := range kinds {
		r.unnoticed(from, k, "no leave, no join", living[i]...)
	}
}

// restarted kills the server, which has no state, and starts it again. Viewers
// that come back are told that it settles, and keep who they knew; who is back
// within the lease was never away, and who died with the server goes at the end.
func restarted(r *rig) {
	r.serve()
	dying := r.one(kinds, r.server.url)
	var living []string
	for _, k := range kinds {
		living = append(living, "living-"+k.short())
		r.client(k, r.server.url, "living-"+k.short())
	}
	r.assembled()
	heard := make([]int, len(r.viewers))
	for i, v := range r.viewers {
		heard[i] = len(v.settled())
	}
	from := time.Now()
	r.must(r.server.signal(syscall.SIGKILL))
	for _, c := range dying {
		r.must(c.signal(syscall.SIGKILL))
	}
	<-r.server.exited
	next, err := startServer(r.ctx, r.t, r.server.port)
	r.must(err)
	up := time.Now()
	r.server = next
	var longest time.Duration
	for i, v := range r.viewers {
		if !v.await(r.ctx, func() bool { return len(v.settled()) > heard[i] }) {
			r.t.Fatalf("%s was never told that the store settles", v.name)
		}
		told := v.settled()[heard[i]]
		longest = max(longest, told)
		if told <= 0 || told > lease {
			r.t.Errorf("%s was told settlingMs %v after the restart, want at most %v", v.name, told, lease)
		}
	}
	r.note = fmt.Sprintf("viewers that came back heard settlingMs %d", longest.Milliseconds())
	p := promise{text: "lease + 1 s after the start", least: lease - time.Second, most: lease + time.Second}
	for _, c := range dying {
		r.departed(c.Kind, c.Users[0], p, up, func() time.Time { return c.proof(c.Users[0]) })
	}
	r.row.way = "alive while the server is killed and started again"
	for i, k := range kinds {
		r.unnoticed(from, k, "no leave, no join", living[i])
	}
}
