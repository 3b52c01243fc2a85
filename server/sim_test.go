package server

import (
	"context"
	"encoding/json"
	"errors"
	flags "flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
)

// The simulator: several nodes on one store in virtual time, with a feed that
// loses, delays and repeats, a store that forgets, nodes that are cut off or killed, and clients that
// come, go, die and move. Whoever lives is never shown leaving, and in the end
// every view is the truth.

var (
	simSeeds = flags.Int("sim.seeds", 6, "seeds of the simulator")
	simFirst = flags.Uint64("sim.first", 1, "the first seed")
)

// simStore is one memory that all nodes share.
type simStore struct {
	modes  rollcall.Modes
	memory atomic.Pointer[store.Memory]
	mu     sync.Mutex
	nodes  []*simNode                  // Guarded by mu.
	latest [rollcall.Partitions]uint64 // Guarded by mu. The newest frame.
	grants map[simGrant]*store.Memory  // Guarded by mu. Where each lease was granted.
}

type simGrant struct {
	room       rollcall.RoomID
	connection rollcall.ConnectionID
	generation rollcall.Generation
}

func grantOf(l *rollcall.Lease) simGrant { return simGrant{l.Room, l.Connection, l.Generation} }

func newSimStore(modes rollcall.Modes) *simStore {
	s := &simStore{modes: modes, grants: make(map[simGrant]*store.Memory)}
	s.remember(store.NewMemory(store.MemoryOptions{Settled: true, Modes: modes}))
	return s
}

func (s *simStore) remember(m *store.Memory) {
	m.Feed(func(f *rollcall.Frame) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.memory.Load() != m {
			return
		}
		s.latest[f.Partition] = f.Seq
		for _, n := range s.nodes {
			n.push(f)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Store(m)
	clear(s.latest[:])
}

// forget loses the memory of the store.
func (s *simStore) forget() { s.remember(store.NewMemory(store.MemoryOptions{Modes: s.modes})) }

// simNode is the store as one node sees it.
type simNode struct {
	s    *simStore
	cut  atomic.Bool // calls fail
	fn   func(*rollcall.Frame)
	done chan struct{} // closed by Close
	once sync.Once

	mu     sync.Mutex
	rand   *rand.Rand                  // Guarded by mu.
	queue  []simFrame                  // Guarded by mu.
	seq    [rollcall.Partitions]uint64 // Guarded by mu. What was handed over.
	known  rollcall.Epoch              // Guarded by mu. That it is of.
	calm   bool                        // Guarded by mu. Nothing is lost any more.
	closed bool                        // Guarded by mu.
}

type simFrame struct {
	f  *rollcall.Frame
	at time.Time
}

var errCut = errors.New("cut off")

func (n *simNode) push(f *rollcall.Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.calm && n.rand.IntN(20) == 0 {
		return // lost
	}
	at := time.Now()
	if !n.calm {
		at = at.Add(time.Duration(n.rand.IntN(150)) * time.Millisecond)
	}
	if k := len(n.queue); k > 0 && n.queue[k-1].at.After(at) {
		at = n.queue[k-1].at // a link keeps the order
	}
	n.queue = append(n.queue, simFrame{f, at})
	if !n.calm && n.rand.IntN(20) == 0 {
		n.queue = append(n.queue, simFrame{f, at}) // twice
	}
}

func (n *simNode) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	if n.cut.Load() {
		return nil, errCut
	}
	m := n.s.memory.Load()
	results, err := m.Apply(ctx, ops)
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	for i := range results {
		if l := &results[i].Lease; l.Generation != 0 {
			n.s.grants[grantOf(l)] = m
		}
	}
	return results, err
}

func (n *simNode) Renew(ctx context.Context, renewals []rollcall.Renewal) error {
	if n.cut.Load() {
		return errCut
	}
	// Of a memory that is no more a lease has the name alone.
	m := n.s.memory.Load()
	named := make([]rollcall.Renewal, len(renewals))
	n.s.mu.Lock()
	for i := range renewals {
		l := renewals[i].Lease
		named[i] = renewals[i]
		if n.s.grants[grantOf(l)] != m {
			named[i].Lease = &rollcall.Lease{
				Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, TTL: l.TTL,
			}
		}
	}
	n.s.mu.Unlock()
	err := m.Renew(ctx, named)
	for i := range renewals {
		renewals[i].Outcome, renewals[i].Reason = named[i].Outcome, named[i].Reason
	}
	return err
}

func (n *simNode) Tick(ctx context.Context) error {
	if n.cut.Load() {
		return errCut
	}
	return n.s.memory.Load().Tick(ctx)
}

func (n *simNode) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if n.cut.Load() {
		return rollcall.Answer{}, errCut
	}
	return n.s.memory.Load().Read(ctx, q)
}

func (n *simNode) Users(ctx context.Context, users []rollcall.UserID) (rollcall.UsersAnswer, error) {
	if n.cut.Load() {
		return rollcall.UsersAnswer{}, errCut
	}
	return n.s.memory.Load().Users(ctx, users)
}

func (n *simNode) Shared() bool { return true }

// Feed hands over what comes, and what a poll every two seconds finds missing.
func (n *simNode) Feed(fn func(*rollcall.Frame)) {
	n.fn = fn
	n.s.mu.Lock()
	n.seq = n.s.latest
	n.s.nodes = append(n.s.nodes, n)
	n.s.mu.Unlock()
	n.known = n.epoch()
	go func() {
		polled := time.Now()
		for {
			select {
			case <-n.done:
				return
			case <-time.After(10 * time.Millisecond):
			}
			n.deliver()
			if time.Since(polled) > 2*time.Second && !n.cut.Load() {
				polled = time.Now()
				n.poll()
			}
		}
	}()
}

func (n *simNode) deliver() {
	for {
		n.mu.Lock()
		if n.closed || n.cut.Load() || len(n.queue) == 0 || n.queue[0].at.After(time.Now()) {
			if n.cut.Load() {
				n.queue = nil // what is said meanwhile is lost
			}
			n.mu.Unlock()
			return
		}
		f := n.queue[0].f
		n.queue = n.queue[1:]
		if f.Epoch != n.known {
			n.mu.Unlock()
			n.poll()
			continue
		}
		last := n.seq[f.Partition]
		gap := f.Seq > last+1
		n.seq[f.Partition] = max(last, f.Seq)
		n.mu.Unlock()
		switch {
		case f.Seq <= last:
			continue
		case gap:
			n.fn(&rollcall.Frame{Partition: f.Partition, Epoch: f.Epoch, Seq: f.Seq, Gap: true})
		}
		n.fn(f)
	}
}

func (n *simNode) poll() {
	n.s.mu.Lock()
	latest := n.s.latest
	n.s.mu.Unlock()
	epoch := n.epoch()
	n.mu.Lock()
	another := epoch != n.known
	n.known = epoch
	if another {
		n.queue = slices.DeleteFunc(n.queue, func(q simFrame) bool { return q.f.Epoch != epoch })
	}
	n.mu.Unlock()
	for i := range latest {
		n.mu.Lock()
		waiting := slices.ContainsFunc(n.queue, func(q simFrame) bool { return q.f.Partition == i })
		behind := another || !waiting && n.seq[i] < latest[i]
		if behind {
			n.seq[i] = latest[i]
		}
		n.mu.Unlock()
		if behind {
			n.fn(&rollcall.Frame{Partition: i, Epoch: epoch, Seq: latest[i], Gap: true})
		}
	}
}

func (n *simNode) epoch() rollcall.Epoch {
	a, _ := n.s.memory.Load().Read(context.Background(), rollcall.Query{Room: "-"})
	return a.Epoch
}

func (n *simNode) Close() error {
	n.once.Do(func() { close(n.done) })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	return nil
}

// simulation is one run.
type simulation struct {
	t       *testing.T
	rand    *rand.Rand
	store   *simStore
	servers []*Server
	nodes   []*simNode
	clients map[string]*simClient
	next    int
	mortals map[string]bool // who may be shown leaving
	forgot  time.Time       // when the store last did
}

// simClient is a user with one connection, who follows the lobby strictly.
type simClient struct {
	name    string
	node    int
	c       *client
	resume  string
	epoch   rollcall.Epoch
	version rollcall.Version
	list    map[string]bool
	known   bool // what it holds is good
	full    bool // and that is the list; otherwise the count
	count   int
	window  simWindow
	story   map[string][]string
	annex   whether // it was put there, besides
}

// whether is what has to be.
type whether uint8

const (
	no whether = iota
	yes
	either // the store has forgotten, or could not be asked
)

func (s *simulation) start(i int) {
	n := &simNode{s: s.store, done: make(chan struct{}), rand: rand.New(rand.NewPCG(s.rand.Uint64(), 1))}
	server, err := New(Options{
		Store: n, Auth: auth.Guests{}, Modes: s.store.modes, Secret: []byte("the secret of all nodes"),
		NodeID: fmt.Sprintf("n%d-%d", i, s.next), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.next++
	s.servers[i], s.nodes[i] = server, n
}

// kill ends a node without a word; its clients find out.
func (s *simulation) kill(i int) {
	for _, c := range s.clients {
		if c.c != nil && c.node == i {
			c.read(s.t)
			c.c = nil
		}
	}
	s.nodes[i].cut.Store(true) // what it would still say is not heard
	s.servers[i].Close()
	s.nodes[i].Close()
	s.store.mu.Lock()
	s.store.nodes = slices.DeleteFunc(s.store.nodes, func(n *simNode) bool { return n == s.nodes[i] })
	s.store.mu.Unlock()
	s.start(i)
}

// connect opens a stream, with the resume secret that the client has.
func (s *simulation) connect(c *simClient) {
	c.node = s.rand.IntN(len(s.servers))
	w := &world{t: s.t, h: s.servers[c.node].h}
	c.c = w.arrive(c.name, lobby, func(a *arrival) {
		a.last = lastEvent{resume: c.resume}
		if c.known && s.rand.IntN(2) == 0 {
			a.last.since.Epoch, a.last.since.Version = c.epoch, c.version
		} else {
			c.known = false
		}
	})
	c.resume = c.c.st.resume
	c.window = simWindow{}
	if s.nodes[c.node].cut.Load() {
		c.annex = either // it cannot be found, and what the node held before is taken for granted
	}
	if s.rand.IntN(2) == 0 {
		s.lookAround(c)
	}
}

// cross puts a client into the annex, or takes it out of there.
func (s *simulation) cross(c *simClient) {
	if s.nodes[c.node].cut.Load() {
		return
	}
	conn := c.c.st.c
	conn.op.Lock()
	defer conn.op.Unlock()
	var refused *rollcall.Error
	if c.annex == no {
		_, refused = conn.enter(s.t.Context(), entry{room: "annex"})
		c.annex = yes
	} else {
		refused = conn.leave(s.t.Context(), "annex")
		if c.annex = no; time.Since(s.forgot) < time.Minute {
			c.annex = either // a node that held it before may bring it back while the store settles
		}
	}
	if refused != nil {
		s.t.Errorf("%s: %v", c.name, refused)
	}
}

// read follows what the stream told since.
func (c *simClient) read(t *testing.T) {
	if c.c == nil {
		return
	}
	text, _ := c.c.conn.take()
	for _, e := range events(text) {
		kind, data, _ := strings.Cut(e, " ")
		var d struct {
			Room, Mode    string
			Epoch         rollcall.Epoch
			Prev, Version rollcall.Version
			Count         int
			Members, Join []struct{ User string }
			Leave         []struct{ User, Reason string }
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		if d.Room == "annex" {
			continue
		}
		switch kind {
		case "snapshot", "mode":
			c.list, c.known, c.epoch, c.version = make(map[string]bool), true, d.Epoch, d.Version
			c.full, c.count = d.Mode == "full", d.Count
			for _, m := range d.Members {
				c.list[m.User] = true
			}
		case "resumed":
			if !c.known {
				t.Errorf("%s was told resumed and held nothing", c.name)
			}
			c.epoch, c.version = d.Epoch, d.Version
		case "diff":
			if !c.known || !c.full || d.Prev != c.version {
				t.Errorf("%s holds version %d (%v) and was told a diff from %d", c.name, c.version, c.known, d.Prev)
			}
			c.version = d.Version
			for _, m := range d.Join {
				if c.list[m.User] {
					t.Errorf("%s was told that %s joined, who is there", c.name, m.User)
				}
				c.list[m.User] = true
			}
			for _, l := range d.Leave {
				if !c.list[l.User] {
					t.Errorf("%s was told that %s left, who is not there", c.name, l.User)
				}
				delete(c.list, l.User)
				c.story[l.User] = append(c.story[l.User], l.Reason)
			}
			if d.Count != len(c.list) {
				t.Errorf("%s: count %d, list of %d", c.name, d.Count, len(c.list))
			}
		case "count":
			if c.full {
				t.Errorf("%s was told a count in full mode", c.name)
			}
			c.version, c.count = d.Version, d.Count
		case "page", "contacts":
			c.look(t, kind, data)
		}
	}
}

// step lets one thing happen.
func (s *simulation) step() {
	names := slices.Sorted(maps.Keys(s.clients))
	pick := func() *simClient {
		if len(names) == 0 {
			return nil
		}
		return s.clients[names[s.rand.IntN(len(names))]]
	}
	switch n := s.rand.IntN(100); {
	case n < 12 && len(names) < 25:
		c := &simClient{name: fmt.Sprintf("u%03d", s.next), story: make(map[string][]string)}
		s.next++
		s.clients[c.name] = c
		s.connect(c)
	case n < 30: // a stream breaks; the client comes back at once, somewhere
		if c := pick(); c != nil {
			c.read(s.t)
			if c.c != nil {
				c.c.ends(transport.Cut)
			}
			s.connect(c)
		}
	case n < 36: // leaves, closes, or dies
		if c := pick(); c != nil {
			s.mortals[c.name] = true
			c.read(s.t)
			if c.c != nil {
				switch s.rand.IntN(3) {
				case 0:
					c.c.st.c.release(false)
				case 1:
					c.c.st.c.release(true)
				}
				c.c.ends(transport.Cut)
			}
			delete(s.clients, c.name)
		}
	case n < 42:
		if c := pick(); c != nil && c.c != nil {
			s.cross(c)
		}
	case n < 60:
		if c := pick(); c != nil && c.c != nil {
			conn := c.c.st.c
			conn.op.Lock()
			conn.set(s.t.Context(), "lobby", change{data: fmt.Appendf(nil, `{"n":%d}`, n)})
			conn.op.Unlock()
		}
	case n < 62: // cut off for less than a lease allows
		i := s.rand.IntN(len(s.nodes))
		node := s.nodes[i]
		if !node.cut.Swap(true) {
			d := time.Duration(s.rand.IntN(15)) * time.Second
			go func() {
				time.Sleep(d)
				node.cut.Store(false)
			}()
		}
	case n < 63 && s.rand.IntN(4) == 0:
		s.store.forget()
		s.forgot = time.Now()
		for _, c := range s.clients {
			c.annex = either
		}
	case n < 64:
		i := s.rand.IntN(len(s.nodes))
		s.kill(i)
	}
	s.pass(time.Duration(s.rand.IntN(700)) * time.Millisecond)
}

// pass lets the living answer and come back.
func (s *simulation) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		for _, name := range slices.Sorted(maps.Keys(s.clients)) {
			c := s.clients[name]
			if c.c != nil && c.c.conn.isClosed() {
				c.read(s.t)
				c.c.ends(transport.Local)
				c.c = nil
			}
			if c.c == nil {
				s.connect(c)
			}
			c.c.answer()
			c.read(s.t)
		}
		if !time.Now().Before(end) {
			return
		}
		time.Sleep(min(200*time.Millisecond, time.Until(end)))
	}
}

// checkAnnex checks who was put there and went on wherever they came back.
func (s *simulation) checkAnnex() {
	a, _ := s.store.memory.Load().Read(s.t.Context(), rollcall.Query{Want: rollcall.WantPage, Room: "annex", Limit: 1000})
	there := make(map[string]bool)
	for _, m := range a.Members {
		there[string(m.User)] = true
	}
	for name, c := range s.clients {
		if c.annex != either && there[name] != (c.annex == yes) {
			s.t.Errorf("%s is in the annex: %v", name, there[name])
		}
		delete(there, name)
	}
	if len(there) > 0 {
		s.t.Errorf("%v are still in the annex", there)
	}
}

func simulate(t *testing.T, seed uint64, modes rollcall.Modes) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			t: t, rand: rand.New(rand.NewPCG(seed, seed)), store: newSimStore(modes),
			servers: make([]*Server, 3), nodes: make([]*simNode, 3),
			clients: make(map[string]*simClient), mortals: make(map[string]bool),
		}
		for i := range s.servers {
			s.start(i)
		}
		for range 300 {
			s.step()
			if t.Failed() {
				break
			}
		}
		for _, n := range s.nodes {
			n.mu.Lock()
			n.calm = true
			n.mu.Unlock()
		}
		s.pass(15 * time.Second) // the last node that was cut off is back
		s.pass(35 * time.Second)
		synctest.Wait()

		want := slices.Sorted(maps.Keys(s.clients))
		a, _ := s.store.memory.Load().Read(t.Context(), rollcall.Query{Want: rollcall.WantPage, Room: "lobby", Limit: 1000})
		var here []string
		for _, m := range a.Members {
			here = append(here, string(m.User))
		}
		slices.Sort(here)
		if !slices.Equal(here, want) {
			t.Errorf("here: %v, want %v", here, want)
		}
		s.checkAnnex()
		for _, name := range want {
			c := s.clients[name]
			c.read(t)
			if got := slices.Sorted(maps.Keys(c.list)); c.full && !slices.Equal(got, want) {
				t.Errorf("%s sees %v, want %v", name, got, want)
			}
			if !c.full && c.count != len(want) {
				t.Errorf("%s was told of %d, want %d", name, c.count, len(want))
			}
			s.checkWindow(c)
			for user, reasons := range c.story {
				if !s.mortals[user] {
					t.Errorf("%s was shown that %s, who lives, left: %v", name, user, reasons)
				}
			}
		}
		for i := range s.servers {
			s.servers[i].Close()
			s.nodes[i].Close()
		}
		s.store.memory.Load().Close()
	})
}

func TestManyNodesAgree(t *testing.T) {
	for i := range *simSeeds {
		seed := *simFirst + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { simulate(t, seed, rollcall.DefaultModes()) })
		// In a room that changes its mode again and again.
		t.Run(fmt.Sprintf("%d/crowd", seed), func(t *testing.T) {
			simulate(t, seed, rollcall.Modes{Above: 9, Below: 7, Every: time.Second})
		})
	}
}
