package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"syscall"
	"time"
)

// maxIgnored is how many bytes a client may send on an SSE stream behind its
// request, where it has nothing to say; more is a Violation.
const maxIgnored = 64 << 10

// SetSSEHeader sets the header fields of an SSE stream, for an answer to HEAD.
func SetSSEHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	// no-transform: a proxy that compresses would buffer.
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
}

// SSE is one stream of server-sent events. It implements [Conn]: what is written
// is complete SSE text.
type SSE struct {
	socket           // HTTP/1.x: taken over from net/http
	resp   *response // else
	head   []byte    // of the answer, until it is written; owned by TryWrite and Write
}

var _ Conn = (*SSE)(nil)

// AcceptSSE answers a request with an SSE stream: status 200, the header fields
// of SSE, those that are set on w already (CORS, Vary), and extra, which may be
// nil. They go out with what is written first, which should be at once: each write
// wakes the client. If it fails, the error says why, and the request has
// been answered if that was possible.
//
// On HTTP/1.x the connection is taken over; the body ends with the connection,
// which every client and proxy understands, HTTP/1.0 too, and which needs no
// framing of its own. On HTTP/2, and where the connection cannot be had, the
// stream lives in the handler: see Detached. The caller owns the SSE: it runs
// Wait, and calls Close in the end.
func AcceptSSE(w http.ResponseWriter, r *http.Request, extra http.Header) (*SSE, error) {
	header := w.Header()
	maps.Copy(header, extra)
	SetSSEHeader(header)
	if r.ProtoMajor == 1 {
		conn, _, err := hijack(w)
		if err == nil {
			s := &SSE{head: sseHead(header)}
			s.init(conn)
			return s, nil
		}
		if !errors.Is(err, http.ErrNotSupported) {
			return nil, fmt.Errorf("accept SSE: %w", err)
		}
	}
	resp, err := newResponse(w, r)
	if err != nil {
		return nil, fmt.Errorf("accept SSE: %w", err)
	}
	return &SSE{resp: resp}, nil
}

func sseHead(header http.Header) []byte {
	var head bytes.Buffer
	// The version is that of the server, not of the request (RFC 9110, 6.2).
	head.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
	if _, set := header["Date"]; !set {
		head.WriteString("Date: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	}
	header.WriteSubset(&head, hopHeader)
	head.WriteString("\r\n")
	return head.Bytes()
}

// Detached implements [Conn]: true on HTTP/1.x.
func (s *SSE) Detached() bool { return s.resp == nil }

// TryWrite implements [Conn].
func (s *SSE) TryWrite(p []byte) (int, error) {
	if s.resp != nil {
		return s.resp.tryWrite()
	}
	if s.head == nil || s.raw == nil {
		return s.socket.TryWrite(p)
	}
	n, err := s.socket.TryWrite(append(s.head, p...))
	if n < len(s.head) {
		s.head = s.head[n:]
		return 0, err
	}
	n -= len(s.head)
	s.head = nil
	return n, err
}

// Write implements [Conn].
func (s *SSE) Write(p []byte, progress time.Duration) error {
	if s.resp != nil {
		return s.resp.write(p, progress)
	}
	if s.head != nil {
		p = append(s.head, p...)
		s.head = nil
	}
	return s.socket.Write(p, progress)
}

// Close implements [Conn].
func (s *SSE) Close() error {
	if s.resp != nil {
		s.resp.close()
		return nil
	}
	return s.socket.Close()
}

// RemoteAddr implements [Conn].
func (s *SSE) RemoteAddr() string {
	if s.resp != nil {
		return s.resp.remote
	}
	return s.socket.RemoteAddr()
}

// Wait returns when the stream has ended, with how. It is called once: in the
// handler if the stream is not detached, else best in a fresh goroutine after the
// handler has returned. Violation is a client that sends what nobody asked for.
// On HTTP/2 a connection that broke cannot be told from a stream that the client
// closed: both are Closed.
//
// When it has returned on a stream that is not detached, no Write is running and
// none will write any more.
func (s *SSE) Wait() End {
	if s.resp != nil {
		return s.resp.wait()
	}
	in := s.input()
	defer in.release()
	for ignored := 0; ; {
		p, err := in.read()
		if err != nil {
			return s.ended(err)
		}
		if ignored += len(p); ignored > maxIgnored {
			return End{Kind: Violation, Reason: "bytes from the client of an event stream"}
		}
	}
}

// ended tells how a stream ended by the error of its reader.
func (s *SSE) ended(err error) End {
	switch {
	case s.state.Load()&stateClosed != 0:
		return End{Kind: Local}
	case errors.Is(err, io.EOF):
		return End{Kind: Closed}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrUnexpectedEOF):
		// A client that goes with events unread resets; one that goes
		// without taking its leave of TLS has gone all the same.
		return End{Kind: Closed, Err: err}
	}
	return End{Kind: Cut, Err: err}
}
