package harness

import (
	"net"
	"sync"
)

// link is the socket of a client, which can go dead without anybody being told.
type link struct {
	net.Conn
	closed chan struct{} // closed by Close

	mu   sync.Mutex
	cut  bool          // Guarded by mu. For good.
	gate chan struct{} // Guarded by mu. Closed while bytes pass.
}

func newLink(c net.Conn) *link {
	open := make(chan struct{})
	close(open)
	return &link{Conn: c, closed: make(chan struct{}), gate: open}
}

// freeze stops the client: it reads and writes nothing, while its kernel goes on
// acknowledging.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

// thaw lets a frozen client go on with whatever has come meanwhile.
func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		select {
		case <-l.gate:
		default:
			close(l.gate)
		}
	}
}

// sever drops the bytes of both directions from now on; both sockets stay open.
func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.gate = make(chan struct{})
}

func (l *link) state() (cut bool, gate <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.gate
}

// passes reports whether bytes pass right now.
func (l *link) passes() bool {
	_, gate := l.state()
	select {
	case <-gate:
		return true
	default:
		return false
	}
}

// wait waits until bytes pass; it reports false if the link was closed instead.
func (l *link) wait() bool {
	_, gate := l.state()
	select {
	case <-gate:
		return true
	case <-l.closed:
		return false
	}
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	if !l.wait() {
		return 0, net.ErrClosed
	}
	n, err := l.Conn.Read(p)
	if !l.wait() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	if cut, _ := l.state(); cut {
		return len(p), nil
	}
	if !l.wait() {
		return 0, net.ErrClosed
	}
	return l.Conn.Write(p)
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil
	default:
	}
	close(l.closed)
	return l.Conn.Close()
}

// reset closes with a reset instead of a clean end, as a process that is killed
// with unread bytes does.
func (l *link) reset() {
	if tcp, ok := l.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	l.Close()
}
