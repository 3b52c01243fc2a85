package harness

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Nodes are servers on one store. What is checked of a single server at the end
// of a test is checked of all of them together.
type Nodes struct {
	t     testing.TB
	known *known

	mu  sync.Mutex
	all []*Server // Guarded by mu. Those that have ended too.
}

// NewNodes returns no nodes yet. When the test ends they are checked and stopped.
func NewNodes(t testing.TB) *Nodes {
	n := &Nodes{t: t, known: newKnown()}
	t.Cleanup(n.finish)
	return n
}

// Start starts a node.
func (n *Nodes) Start(c Config) *Server {
	n.t.Helper()
	c.Process = true
	s := start(n.t, c, n)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, s)
	return s
}

// Up are the nodes that run.
func (n *Nodes) Up() []*Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.all), (*Server).down)
}

func (n *Nodes) clients() (all []*Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.all {
		all = append(all, s.all()...)
	}
	return all
}

// Agree waits until every list that a client has built from events is the roster
// that its node reads, and every node reads the same.
func (n *Nodes) Agree(within time.Duration) {
	n.t.Helper()
	if why := n.disagree(within); why != "" {
		n.t.Errorf("not all the same within %v: %s", within, why)
	}
}

func (n *Nodes) disagree(within time.Duration) (why string) {
	clients := n.clients()
	rooms := make(map[string]bool)
	for _, c := range clients {
		for _, r := range c.rooms() {
			rooms[r] = true
		}
	}
	agree := func() bool {
		why = ""
		for _, c := range clients {
			if !c.watching() || c.node().down() {
				continue
			}
			for _, room := range c.rooms() {
				if why = c.differs(room); why != "" {
					why = fmt.Sprintf("room %q: %s\n%s", room, why, c.dump())
					return false
				}
			}
		}
		for room := range rooms {
			if why = n.differ(room); why != "" {
				return false
			}
		}
		return true
	}
	holds(within, agree)
	return why
}

// differ tells how nodes read a room differently; "" if they do not.
func (n *Nodes) differ(room string) string {
	var first []string
	for i, s := range n.Up() {
		if s.away(room) {
			return "a node cannot read"
		}
		users := s.Users(room)
		slices.Sort(users)
		if i == 0 {
			first = users
		} else if !slices.Equal(first, users) {
			return fmt.Sprintf("room %q is read as %q here and as %q there", room, first, users)
		}
	}
	return ""
}

func (n *Nodes) finish() {
	if !n.t.Failed() {
		n.Agree(5 * time.Second)
	}
	clients := n.clients()
	n.mu.Lock()
	all := n.all
	n.mu.Unlock()
	for _, c := range clients {
		c.s.checkRecord(c)
	}
	n.empty(clients)
	for _, s := range all {
		s.mu.Lock()
		proxies, extras := s.proxies, s.extras
		s.mu.Unlock()
		for _, check := range extras {
			check()
		}
		for _, p := range proxies {
			p.close()
		}
	}
	for _, s := range all {
		s.stop()
	}
	if n.t.Failed() {
		for i, c := range clients {
			if i < 6 {
				n.t.Log(c.dump())
			}
		}
		for i, s := range all {
			n.t.Logf("node %d: %s", i+1, s.Said())
		}
	}
}

// empty ends all clients and checks that nobody is left in their rooms.
func (n *Nodes) empty(clients []*Client) {
	rooms := make(map[string]bool)
	for _, c := range clients {
		for _, r := range c.o.Rooms {
			rooms[r] = true
		}
	}
	up := n.Up()
	if len(up) == 0 {
		for _, c := range clients {
			c.quit()
		}
		return
	}
	for _, c := range clients {
		if c.node().down() {
			c.Move(up[0])
		}
	}
	up[0].end(clients)
	left := ""
	gone := holds(up[0].Lease+5*time.Second, func() bool {
		left = ""
		for _, s := range up {
			if streams := s.Metric("rollcall_connections"); streams != 0 {
				left = fmt.Sprintf("%g streams", streams)
				return false
			}
			for room := range rooms {
				if users := s.Users(room); len(users) > 0 {
					left = fmt.Sprintf("%q in room %q", users, room)
					return false
				}
			}
		}
		return true
	})
	if !gone {
		n.t.Errorf("left at the end: %s", left)
	}
}
