//go:build unix

package departures

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// rig is what a row runs with: a server of its own, a room, three viewers, and
// somebody who stays. Its methods are called by the row's goroutine.
type rig struct {
	row
	order int
	table *table
	ready func() // waits until all rows are ready
	done  func()

	lease time.Duration // of the server
	every time.Duration // between two reads of the polling reader
	note  string        // for the table

	t       *testing.T
	ctx     context.Context // ends with the row
	server  *server
	room    string
	viewers []*viewer // SSE, WebSocket, polling reader
	clients []*client
	known   map[string]bool // who may be named
	cast    []string        // who is here to begin with
}

// stays is the member who is never to be shown leaving.
const stays = "stays"

func (r *rig) main(t *testing.T) {
	defer r.done()
	r.t = t
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r.ctx = ctx
	r.room = "departures/" + r.way
	r.lease, r.every = lease, pollEvery
	r.known = make(map[string]bool)
	r.run(r)
	r.rest()
}

// must ends the row if err is one.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// serve starts the server, the viewers, and the one who stays.
func (r *rig) serve(extra ...string) {
	r.t.Helper()
	var err error
	r.server, err = startServer(r.ctx, r.t, "0", extra...)
	r.must(err)
	r.watch()
	r.client(kindWS, r.server.url, stays)
}

// watch starts the three viewers. They look at the server itself.
func (r *rig) watch() {
	ctx, cancel := context.WithCancel(r.ctx)
	var watching sync.WaitGroup
	r.t.Cleanup(func() { cancel(); watching.Wait() })
	v := []*viewer{newViewer("SSE viewer"), newViewer("WebSocket viewer"), newViewer("polling reader")}
	url, room := r.server.url, r.room
	watching.Go(func() { v[0].watchSSE(ctx, url, room) })
	watching.Go(func() { v[1].watchWS(ctx, url, room) })
	watching.Go(func() { v[2].poll(ctx, url, room, r.every) })
	r.viewers = v
}

// client starts a client process that is users, at url, which may be that of a
// proxy.
func (r *rig) client(k kind, url string, users ...string) *client {
	return r.clientUnder(nil, k, url, users...)
}

func (r *rig) clientUnder(under []string, k kind, url string, users ...string) *client {
	r.t.Helper()
	c, err := startClient(r.t, clientConfig{URL: url, Kind: k, Room: r.room, Users: users}, under...)
	r.must(err)
	r.clients = append(r.clients, c)
	for _, u := range users {
		r.known[u] = true
		if !slices.Contains(r.cast, u) {
			r.cast = append(r.cast, u)
		}
	}
	return c
}

// one starts a client of each of these kinds.
func (r *rig) one(kinds []kind, url string) []*client {
	r.t.Helper()
	var all []*client
	for _, k := range kinds {
		all = append(all, r.client(k, url, k.short()))
	}
	return all
}

// assembled waits until every viewer sees everybody, and then for the other rows.
func (r *rig) assembled() {
	r.t.Helper()
	for _, c := range r.clients {
		if !c.await(r.ctx, func() bool { return c.here() || c.gone() }) || c.gone() {
			r.t.Fatalf("%s client of %v is not here: %v\n%s", c.Kind, c.Users, c.trouble(), c.stderr())
		}
	}
	for _, v := range r.viewers {
		if !v.await(r.ctx, func() bool { return v.isShown() && v.sees(r.cast...) }) {
			r.t.Fatalf("%s sees %v, not %v: %v", v.name, v.users(), r.cast, v.faults(r.isKnown))
		}
	}
	// The memory of a server that has just started is fresh: for a lease, readers
	// keep those who are missing.
	for settling := "?"; settling != ""; pause(r.ctx, pollEvery) {
		var err error
		_, _, settling, err = roster(r.ctx, r.server.url, r.room)
		r.must(err)
	}
	r.ready()
}

// fault makes a client go, and tells when that was.
type fault func(*client, context.Context) (time.Time, error)

// say is the fault of a client that does what it is told.
func say(command string) fault {
	return func(c *client, ctx context.Context) (time.Time, error) { return c.say(ctx, command) }
}

// depart has each client go, waits until every viewer is told of each, and checks
// the promises.
func (r *rig) depart(clients []*client, f fault, promised func(kind) promise) {
	r.t.Helper()
	faults := make([]time.Time, len(clients))
	errs := make([]error, len(clients))
	var going sync.WaitGroup
	for i, c := range clients {
		going.Go(func() {
			if errs[i] = c.settled(r.ctx); errs[i] == nil {
				faults[i], errs[i] = f(c, r.ctx)
			}
		})
	}
	going.Wait()
	for _, err := range errs {
		r.must(err)
	}
	for i, c := range clients {
		r.departed(c.Kind, c.Users[0], promised(c.Kind), faults[i], func() time.Time { return c.proof(c.Users[0]) })
	}
}

// departed waits until every viewer is told that user is gone, and checks the
// promise.
func (r *rig) departed(k kind, user string, p promise, fault time.Time, life func() time.Time) {
	r.t.Helper()
	c := cell{order: r.order, way: r.way, kind: k, promise: p.text, note: r.note}
	latest := time.Time{}
	ctx, cancel := context.WithDeadline(r.ctx, fault.Add(p.most+lease+5*time.Second))
	defer cancel()
	for i, v := range r.viewers {
		var at time.Time
		var reason string
		if !v.await(ctx, func() (ok bool) { at, reason, ok = v.left(user, fault); return ok }) {
			r.t.Errorf("%s: %s was never told that %s is gone", k, v.name, user)
			c.told[i], c.broken = "never", true
			continue
		}
		c.told[i] = seconds(at.Sub(fault))
		if at.After(latest) {
			latest = at
		}
		if broken := p.keeps(fault, life(), at); broken != "" {
			r.t.Errorf("%s: %s was told that %s is gone %s", k, v.name, user, broken)
			c.broken = true
		}
		if reason != "missing" && p.reason != "" && reason != p.reason {
			r.t.Errorf("%s: %s was told the reason %q, want %q", k, v.name, reason, p.reason)
		}
	}
	if l := life(); !l.IsZero() && latest.After(l) {
		c.life = seconds(latest.Sub(l))
	}
	r.table.add(c)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// unnoticed watches for a lease and more, in which nobody must be told anything
// of users.
func (r *rig) unnoticed(from time.Time, k kind, promised string, users ...string) {
	r.t.Helper()
	c := cell{order: r.order, way: r.way, kind: k, promise: promised, note: r.note}
	if !pause(r.ctx, time.Until(from.Add(r.lease+1500*time.Millisecond))) {
		r.t.Fatal(r.ctx.Err())
	}
	for i, v := range r.viewers {
		c.told[i] = "nothing"
		for _, s := range v.since(from) {
			if slices.Contains(users, s.user) {
				r.t.Errorf("%s: %s was told: %v", k, v.name, s)
				c.told[i], c.broken = s.String(), true
			}
		}
	}
	r.table.add(c)
}

func (r *rig) isKnown(user string) bool { return r.known[user] }

// rest checks what must hold once all is quiet: what the viewers have built from
// events is what reads say, and nobody was told what cannot be.
func (r *rig) rest() {
	r.t.Helper()
	if r.server == nil || r.server.gone() {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, 3*time.Second)
	defer cancel()
	var last string
	for {
		if last = r.unlike(ctx); last == "" {
			break
		}
		if !pause(ctx, pollEvery) {
			r.t.Error(last)
			break
		}
	}
	for _, v := range r.viewers {
		for _, f := range v.faults(r.isKnown) {
			r.t.Errorf("%s: %s", v.name, f)
		}
		for _, s := range v.since(time.Time{}) {
			if s.leave && s.user == stays {
				r.t.Errorf("%s: %v", v.name, s)
			}
		}
	}
	if r.t.Failed() {
		r.explain()
	}
}

// unlike tells in what the viewers, the roster and the counts differ; "" if in
// nothing.
func (r *rig) unlike(ctx context.Context) string {
	members, _, _, err := roster(ctx, r.server.url, r.room)
	if err != nil {
		return err.Error()
	}
	count, connections, err := counts(ctx, r.server.url, r.room)
	if err != nil {
		return err.Error()
	}
	users := make(map[string]bool)
	sum := 0
	for _, m := range members {
		users[m.User] = true
		sum += m.Connections
	}
	if len(users) != len(members) || count != len(members) || sum != connections {
		return fmt.Sprintf("the roster has %d members, %d users, %d connections; the counts are %d and %d",
			len(members), len(users), sum, count, connections)
	}
	want := slices.Sorted(maps.Keys(users))
	for _, v := range r.viewers {
		if got := v.users(); !slices.Equal(got, want) {
			return fmt.Sprintf("%s lists %v, the roster is %v", v.name, got, want)
		}
	}
	return ""
}

// explain logs what helps to understand a failure.
func (r *rig) explain() {
	for _, v := range r.viewers {
		r.t.Logf("%s was told: %v", v.name, v.since(time.Time{}))
		v.mu.Lock()
		r.t.Logf("%s had to wait: %q", v.name, v.slow)
		v.mu.Unlock()
	}
	for _, c := range r.clients {
		r.t.Logf("%s client of %v: trouble %v, goodbyes %v, last signs of life %v\n%s", c.Kind, c.Users[0], c.trouble(), c.goodbyes(),
			c.proof(c.Users[0]).Format("05.000"), c.stderr())
	}
	r.t.Logf("server: %s", r.server.stderr())
}
