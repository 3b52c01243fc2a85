package harness

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy before a server. It knows nothing of what passes.
type Proxy struct {
	URL string // to use instead of the server's

	to   string
	l    net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	pair []*proxied // Guarded by mu.
	down bool       // Guarded by mu. New connections are refused.
	rate int        // Guarded by mu. Bytes a second to the client of a new connection; 0: as they come.
}

// proxied is one connection through the proxy: a link to the client and one to
// the server.
type proxied struct{ client, server *link }

// NewProxy starts a proxy before the server; it ends with the test.
func (s *Server) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "http://" + l.Addr().String(), to: s.Host(), l: l}
	p.wg.Go(p.accept)
	s.mu.Lock()
	s.proxies = append(s.proxies, p)
	s.mu.Unlock()
	return p
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		down, rate := p.down, p.rate
		p.mu.Unlock()
		if down {
			c.Close()
			continue
		}
		dial := net.Dialer{}
		if rate > 0 {
			dial.Control = narrow
		}
		s, err := dial.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		both := &proxied{newLink(c), newLink(s)}
		p.mu.Lock()
		p.pair = append(p.pair, both)
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(both.client, both.server) })
		p.wg.Go(func() {
			if rate > 0 {
				p.drip(both.server, both.client, rate)
			} else {
				p.copy(both.server, both.client)
			}
		})
	}
}

// copy forwards one direction, and its end.
func (p *Proxy) copy(from, to *link) {
	io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if cut, _ := from.state(); !cut {
		if tcp, ok := to.Conn.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
	}
}

// dripEvery is how much time the bytes that pass at once take on a slow link.
const dripEvery = 20 * time.Millisecond

// drip forwards one direction as a slow link does: so many bytes a second. What
// has not passed waits at the sender, but for what a socket takes at least.
func (p *Proxy) drip(from, to *link, rate int) {
	b := make([]byte, max(1, rate*int(dripEvery)/int(time.Second)))
	free := time.Now() // when the link has carried what it was given
	for {
		n, err := from.Read(b)
		if _, refused := to.Write(b[:n]); err != nil || refused != nil {
			to.Close()
			return
		}
		// On a busy machine we come late, and catch up.
		if late := time.Now().Add(-5 * dripEvery); free.Before(late) {
			free = late
		}
		free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(free)) // it is the time that the bytes take
	}
}

// Slow has new connections pass so many bytes a second to the client.
func (p *Proxy) Slow(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

func (p *Proxy) each(do func(*proxied)) {
	p.mu.Lock()
	pairs := append([]*proxied(nil), p.pair...)
	p.mu.Unlock()
	for _, both := range pairs {
		do(both)
	}
}

// Cut forwards nothing any more of the connections there are; all their sockets
// stay open. New ones are as before.
func (p *Proxy) Cut() {
	p.each(func(b *proxied) { b.client.sever(); b.server.sever() })
}

// Drop ends all connections there are at once, on both sides, as a proxy that is
// reloaded does.
func (p *Proxy) Drop() {
	p.each(func(b *proxied) { b.client.Close(); b.server.Close() })
}

// Refuse has new connections refused, or no longer.
func (p *Proxy) Refuse(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *Proxy) close() {
	p.l.Close()
	p.Drop()
	p.wg.Wait()
}
