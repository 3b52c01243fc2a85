//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"
)

// gate is a TCP proxy between a node and its store. It can stop to forward while
// every socket stays open, lead elsewhere, be slow, and lose what the store says.
type gate struct {
	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string           // Guarded by mu.
	open  chan struct{}    // Guarded by mu. Closed while bytes pass.
	delay time.Duration    // Guarded by mu. Of what the node sends.
	lose  func(reply) bool // Guarded by mu. Which values of the store are lost; nil: none.
	conns []net.Conn       // Guarded by mu.
	ended bool             // Guarded by mu.
}

func newGate(t testing.TB, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{l: l, to: to, open: make(chan struct{})}
	close(g.open)
	g.wg.Go(g.accept)
	t.Cleanup(func() {
		l.Close()
		g.mu.Lock()
		g.ended = true
		g.mu.Unlock()
		g.release()
		g.drop()
		g.wg.Wait()
	})
	return g
}

func (g *gate) url() string { return "redis://" + g.l.Addr().String() }

// hold forwards nothing from now on, in either direction, of the connections
// there are and of new ones; nobody is told.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// release forwards again, also what has been held.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// point has new connections lead elsewhere, and ends those there are.
func (g *gate) point(to string) {
	g.mu.Lock()
	g.to = to
	g.mu.Unlock()
	g.drop()
}

// drop ends the connections there are.
func (g *gate) drop() {
	g.mu.Lock()
	conns := g.conns
	g.conns = nil
	g.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// slow has everything that the node sends come later by d.
func (g *gate) slow(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
}

// losing has the values lost for which which reports true; nil is none.
func (g *gate) losing(which func(reply) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose = which
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) accept() {
	for {
		node, err := g.l.Accept()
		if err != nil {
			return
		}
		g.wg.Go(func() { g.connect(node) })
	}
}

func (g *gate) connect(node net.Conn) {
	g.wait()
	g.mu.Lock()
	to, ended := g.to, g.ended
	g.mu.Unlock()
	store, err := net.Dial("tcp", to)
	if err != nil || ended {
		node.Close()
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, node, store)
	g.mu.Unlock()
	g.wg.Go(func() { g.ask(node, store) })
	g.answer(bufio.NewReader(store), node)
	g.wait() // an end is not told either
	node.Close()
	store.Close()
}

// ask forwards what the node says.
func (g *gate) ask(node, store net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := node.Read(buffer)
		g.mu.Lock()
		delay := g.delay
		g.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay) // what a slow network does
		}
		g.wait()
		if err == nil {
			_, err = store.Write(buffer[:n])
		}
		if err != nil {
			store.Close()
			return
		}
	}
}

// answer forwards what the store says, value by value.
func (g *gate) answer(store *bufio.Reader, node net.Conn) {
	for {
		v, raw, err := readReply(store, nil)
		if err != nil {
			return
		}
		g.wait()
		g.mu.Lock()
		lost := g.lose != nil && g.lose(v)
		g.mu.Unlock()
		if lost {
			continue
		}
		if _, err := node.Write(raw); err != nil {
			return
		}
	}
}

// isMessage reports whether a value is a message of a channel.
func isMessage(v reply) bool {
	return v.kind == '>' && len(v.list) == 3 && (v.list[0].text == "message" || v.list[0].text == "smessage")
}
