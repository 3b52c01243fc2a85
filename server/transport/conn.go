package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrSlow is returned by Write when the client took nothing for too long.
var ErrSlow = errors.New("client takes nothing")

// Conn is the write side of one stream: a [*WebSocket] or an [*SSE].
//
// Calls to TryWrite and Write are serialized by the caller. The other methods
// are safe for concurrent use with everything.
type Conn interface {
	// TryWrite hands p to the kernel without ever waiting and returns the
	// number of bytes taken; n < len(p) with a nil error means that more would
	// wait: continue with Write, at p[n:]. Where a stream cannot be written
	// without waiting (TLS, HTTP/2) it takes nothing and returns 0, nil.
	// p is not kept.
	TryWrite(p []byte) (n int, err error)
	// Write returns when all of p is taken, or the stream is closed, or
	// nothing was taken for progress (at most twice that passes before it is
	// noticed): then the error is ErrSlow. After any error the stream is
	// good for Close only. p is not kept.
	Write(p []byte, progress time.Duration) error
	// Close ends the stream at once and ends its reader; it never waits and
	// sends no close frame. Only the first call does anything.
	Close() error
	// RemoteAddr is the address of the other end of the connection, as
	// "host:port".
	RemoteAddr() string
	// Detached reports whether the stream outlives the HTTP handler that
	// accepted it. If not, the handler must not return before Wait has.
	Detached() bool
}

// EndKind is how a stream ended.
type EndKind uint8

// The kinds of end.
const (
	// Closed: the client ended it: by a close frame on a WebSocket, by closing
	// or resetting the connection or HTTP/2 stream on SSE.
	Closed EndKind = iota + 1
	// Cut: it broke: a WebSocket without a close frame, a time-out, an
	// unreachable network.
	Cut
	// Violation: the client broke the protocol; Code and Reason belong in the
	// close frame that it should be sent.
	Violation
	// Local: this side closed it.
	Local
)

var endWords = [...]string{"", "closed", "cut", "violation", "local"}

// String is one lower-case word, for logs and metrics.
func (k EndKind) String() string {
	if int(k) < len(endWords) {
		return endWords[k]
	}
	return ""
}

// End is how a stream ended.
type End struct {
	Kind EndKind
	// Code is the close code: what the client sent if Closed (1005: a close
	// frame without a code), what the client should be sent if Violation,
	// else 0. 0 on SSE.
	Code int
	// Reason is the text that goes with Code.
	Reason string
	// Err is the error of the connection if Cut, or if Closed on SSE by other
	// than a clean end; else nil.
	Err error
}

// String is for logs.
func (e End) String() string {
	switch {
	case e.Code != 0:
		return fmt.Sprintf("%s %d %q", e.Kind, e.Code, e.Reason)
	case e.Err != nil:
		return fmt.Sprintf("%s: %v", e.Kind, e.Err)
	}
	return e.Kind.String()
}

// Bits of socket.state.
const (
	stateClosed  = 1 << iota // Close was called
	stateClosing             // CloseAfter was called: nothing is read or written for the caller any more
	stateReading             // a reader is running
	statePeerEnd             // the client has sent its close frame: it will send no more
)

// writeChunk is how much of a Write that cannot be done without waiting is
// offered at once where partial progress cannot be seen (TLS): one TLS record.
const writeChunk = 16 << 10

// socket is a connection taken over from net/http. It holds no buffer.
type socket struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: reads and writes can only be done by waiting
	state atomic.Uint32   // state bits above
}

// init takes the connection over.
func (s *socket) init(conn net.Conn) {
	s.conn = conn
	s.raw = rawConn(conn)
	// The deadlines of the http.Server (ReadTimeout, WriteTimeout) were made
	// for requests and would end a stream that is well.
	conn.SetDeadline(time.Time{})
	if t, ok := baseConn(conn).(*net.TCPConn); ok {
		t.SetKeepAlive(false) // see the package comment
		limitUnsent(t)
	}
}

// baseConn is the connection below TLS.
func baseConn(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// TryWrite implements [Conn].
func (s *socket) TryWrite(p []byte) (int, error) {
	if s.state.Load()&(stateClosed|stateClosing) != 0 {
		return 0, net.ErrClosed
	}
	if s.raw == nil || len(p) == 0 {
		return 0, nil
	}
	return tryWrite(s.raw, p)
}

// Write implements [Conn].
func (s *socket) Write(p []byte, progress time.Duration) error {
	n, err := s.TryWrite(p)
	if err != nil {
		return err
	}
	p = p[n:]
	if len(p) == 0 {
		return nil
	}
	defer s.conn.SetWriteDeadline(time.Time{})
	for len(p) > 0 {
		chunk := p
		if s.raw == nil && len(chunk) > writeChunk {
			chunk = chunk[:writeChunk]
		}
		if err := s.conn.SetWriteDeadline(time.Now().Add(progress)); err != nil {
			return err
		}
		n, err := s.conn.Write(chunk)
		p = p[n:]
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n == 0:
			return ErrSlow
		}
	}
	return nil
}

// Close implements [Conn].
func (s *socket) Close() error {
	if s.state.Or(stateClosed)&stateClosed != 0 {
		return nil
	}
	if t, ok := s.conn.(*tls.Conn); ok && !writable(t.NetConn()) {
		// The closing alert of TLS would wait for a client that takes
		// nothing, for seconds; and Close never waits.
		return t.NetConn().Close()
	}
	return s.conn.Close()
}

// Unacknowledged is how many bytes the kernel has taken that the other end of the
// connection has not acknowledged; ok is false where that cannot be told
// (HTTP/2, other systems than Linux). Safe for concurrent use.
func (s *socket) Unacknowledged() (n int, ok bool) {
	raw := s.raw
	if raw == nil && s.conn != nil {
		raw = rawConn(baseConn(s.conn))
	}
	if raw == nil {
		return 0, false
	}
	return unacknowledged(raw)
}

// RemoteAddr implements [Conn].
func (s *socket) RemoteAddr() string { return s.conn.RemoteAddr().String() }
