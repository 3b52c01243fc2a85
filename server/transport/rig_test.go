package transport

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. Nothing is decided by
// it but the failure of a test.
const patience = 10 * time.Second

// record is a handler that writes down what it is called with.
type record struct {
	mu     sync.Mutex
	events []string
	signal chan struct{} // capacity 1: something was written down
	steady atomic.Bool
	heard  func() // called before a message is written down, if not nil
}

func newRecord() *record { return &record{signal: make(chan struct{}, 1)} }

func (r *record) add(kind string, p []byte) {
	r.mu.Lock()
	r.events = append(r.events, kind+" "+string(p))
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *record) Message(p []byte) {
	if heard := r.heard; heard != nil {
		heard()
	}
	r.add("message", p)
}
func (r *record) Ping(p []byte) { r.add("ping", p) }
func (r *record) Pong(p []byte) { r.add("pong", p) }
func (r *record) Steady() bool  { return r.steady.Load() }

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

// wait returns when n events have been written down.
func (r *record) wait(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(patience)
	for len(r.all()) < n {
		select {
		case <-r.signal:
		case <-timeout:
			t.Fatalf("%d events, want %d", len(r.all()), n)
		}
	}
}

// get receives from c, or fails.
func get[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// startServer serves h on a loopback port until the test ends.
func startServer(t *testing.T, h http.HandlerFunc, change ...func(*httptest.Server)) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	for _, f := range change {
		f(srv)
	}
	if srv.TLS != nil || srv.EnableHTTP2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// withTimeouts gives the server time-outs that a stream outlives: long enough for
// a TLS handshake on a machine that does other things too.
func withTimeouts(srv *httptest.Server) {
	srv.Config.ReadTimeout = time.Second
	srv.Config.WriteTimeout = time.Second
	srv.Config.IdleTimeout = time.Second
}

const longerThanTimeouts = 1200 * time.Millisecond

// dialRaw opens a connection whose reads fail a test rather than hang it.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(patience))
	return c
}

const upgradeRequest = "GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// pair is both ends of a WebSocket: the server's, which a Read with record is
// running on, and the raw connection of the client behind the handshake.
type pair struct {
	*record
	server *WebSocket
	client net.Conn
	r      *bufio.Reader // of client
	end    chan End
}

// open makes a pair; behind is what the client sends in one piece with its
// request.
func open(t *testing.T, o WebSocketOptions, behind string, change ...func(*httptest.Server)) *pair {
	t.Helper()
	p := &pair{record: newRecord(), end: make(chan End, 1)}
	accepted := make(chan *WebSocket, 1)
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := AcceptWebSocket(w, r, o)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}, change...)
	addr := srv.Listener.Addr().String()
	if srv.TLS != nil {
		p.client = dialTLS(t, srv)
	} else {
		p.client = dialRaw(t, addr)
	}
	if _, err := io.WriteString(p.client, upgradeRequest+behind); err != nil {
		t.Fatal(err)
	}
	p.r = bufio.NewReader(p.client)
	if head := readHead(t, p.r); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("answer %q", head)
	}
	p.server = get(t, accepted)
	t.Cleanup(func() { p.server.Close() })
	go func() { p.end <- p.server.Read(p) }()
	return p
}

func (p *pair) send(t *testing.T, frames ...string) {
	t.Helper()
	if _, err := io.WriteString(p.client, strings.Join(frames, "")); err != nil {
		t.Fatal(err)
	}
}

// readHead reads up to the empty line.
func readHead(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", head.String(), err)
		}
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}

// Opcodes and bits of the first byte of a frame.
const (
	fin                            = 0x80
	opCont, opText, opBin          = 0x0, 0x1, 0x2
	opClose, opPing, opPong        = 0x8, 0x9, 0xa
	rsv1, rsv2, rsv3               = 0x40, 0x20, 0x10
	lenShort, len16, len64, noMask = 1, 2, 8, 16
)

// frame is a masked frame whose first byte is b0.
func frame(b0 byte, payload string) string { return frameAs(b0, payload, 0) }

// frameAs is a frame with a length of len16 or len64 where it could be shorter,
// or with noMask.
func frameAs(b0 byte, payload string, how int) string {
	n := len(payload)
	mask := []byte{0x5a, 0x00, 0xc3, 0x11}
	maskBit := byte(0x80)
	if how&noMask != 0 {
		mask, maskBit = nil, 0
	}
	b := []byte{b0}
	switch {
	case how&len64 != 0 || n > 0xffff:
		b = append(b, maskBit|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	case how&len16 != 0 || n > 125:
		b = append(b, maskBit|126, byte(n>>8), byte(n))
	default:
		b = append(b, maskBit|byte(n))
	}
	b = append(b, mask...)
	for i := range n {
		c := payload[i]
		if mask != nil {
			c ^= mask[i%4]
		}
		b = append(b, c)
	}
	return string(b)
}

func text(s string) string { return frame(fin|opText, s) }

// closing is the payload of a close frame.
func closing(code int, reason string) string {
	return string([]byte{byte(code >> 8), byte(code)}) + reason
}

func closeFrame(code int, reason string) string { return frame(fin|opClose, closing(code, reason)) }

// serverFrame is an unmasked frame, as a server sends it.
func serverFrame(op byte, payload string) []byte {
	return []byte(frameAs(fin|op, payload, noMask))
}

// readServerFrame reads one unmasked frame of less than 64 KiB.
func readServerFrame(r io.Reader) (op byte, payload string, err error) {
	head := make([]byte, 2, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, "", err
	}
	n := int(head[1])
	if n == 126 {
		if _, err := io.ReadFull(r, head[2:4]); err != nil {
			return 0, "", err
		}
		n = int(head[:4][2])<<8 | int(head[:4][3])
	}
	if n > 0xffff || head[1] > 126 {
		return 0, "", errors.New("masked or long frame from the server")
	}
	p := make([]byte, n)
	_, err = io.ReadFull(r, p)
	return head[0] & 0x0f, string(p), err
}

func short(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%q... (%d bytes)", s[:60], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// dialTLS opens a TLS connection that speaks HTTP/1.1 to srv.
func dialTLS(t *testing.T, srv *httptest.Server) net.Conn {
	t.Helper()
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	c, err := tls.Dial("tcp", srv.Listener.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(patience))
	return c
}
