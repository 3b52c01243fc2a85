package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stream is the server's end of an SSE stream, and how it ends.
type stream struct {
	*SSE
	end chan End
}

// serveSSE accepts each request as a stream, as a hub does.
func serveSSE(t *testing.T, change ...func(*httptest.Server)) (*httptest.Server, chan stream) {
	streams := make(chan stream, 1)
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", "7")
		sse, err := AcceptSSE(w, r, http.Header{"Rollcall-Settling": {"1000"}})
		if err == nil {
			err = sse.Write(nil, patience) // the head
		}
		if err != nil {
			t.Error(err)
			return
		}
		s := stream{sse, make(chan End, 1)}
		streams <- s
		if sse.Detached() {
			go func() { s.end <- sse.Wait() }()
		} else {
			s.end <- sse.Wait()
		}
	}, change...)
	return srv, streams
}

func (s stream) put(t *testing.T, text string) {
	t.Helper()
	n, err := s.TryWrite([]byte(text))
	if err == nil && n < len(text) {
		err = s.Write([]byte(text[n:]), patience)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkSSEHeader(t *testing.T, h http.Header) {
	t.Helper()
	for k, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no",
		"Vary": "Origin", "Rollcall-Settling": "1000", "Content-Encoding": "", "Content-Length": "",
	} {
		if got := strings.Join(h.Values(k), "|"); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
	if _, err := http.ParseTime(h.Get("Date")); err != nil {
		t.Errorf("Date = %q", h.Get("Date"))
	}
}

// On HTTP/1.x the answer is written by hand: the body ends with the connection,
// for HTTP/1.0 (a proxy with its defaults) too.
func TestSSEOnHTTP1(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
		srv, streams := serveSSE(t)
		conn := dialRaw(t, srv.Listener.Addr().String())
		io.WriteString(conn, "GET / "+version+"\r\nHost: x\r\n\r\n")
		r := bufio.NewReader(conn)
		status, _ := r.ReadString('\n')
		if status != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("%s: status %q", version, status)
		}
		head, err := textproto.NewReader(r).ReadMIMEHeader() // comes before any event
		if err != nil {
			t.Fatal(err)
		}
		checkSSEHeader(t, http.Header(head))
		if got := head.Get("Connection"); got != "close" || head.Get("Transfer-Encoding") != "" {
			t.Errorf("Connection: %q, Transfer-Encoding: %q", got, head.Get("Transfer-Encoding"))
		}
		s := get(t, streams)
		if !s.Detached() {
			t.Error("not detached")
		}
		if s.RemoteAddr() != conn.LocalAddr().String() {
			t.Errorf("RemoteAddr = %q, want %q", s.RemoteAddr(), conn.LocalAddr())
		}
		if n, err := s.TryWrite([]byte("data: 1\n\n")); n != 9 || err != nil {
			t.Errorf("TryWrite = %d, %v", n, err)
		}
		s.Close()
		if body, err := io.ReadAll(r); string(body) != "data: 1\n\n" || err != nil {
			t.Errorf("body %q, %v", body, err)
		}
		if end := get(t, s.end); end != (End{Kind: Local}) {
			t.Errorf("end = %v, want local", end)
		}
	}
}

var secondProtocol = map[string]struct {
	change func(*httptest.Server)
	client func(*testing.T, *httptest.Server) *http.Client
}{
	"h2": {
		func(srv *httptest.Server) { srv.EnableHTTP2 = true },
		func(_ *testing.T, srv *httptest.Server) *http.Client { return srv.Client() },
	},
	"h2c": {
		func(srv *httptest.Server) {
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
		},
		func(t *testing.T, srv *httptest.Server) *http.Client {
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(tr.CloseIdleConnections)
			return &http.Client{Transport: tr}
		},
	},
}

// getStream sends the request and checks the head of the answer.
func getStream(t *testing.T, client *http.Client, url string) (body io.ReadCloser, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Fatalf("%s: %s", resp.Proto, resp.Status)
	}
	checkSSEHeader(t, resp.Header)
	return resp.Body, cancel
}

func TestSSEOnHTTP2(t *testing.T) {
	for name, second := range secondProtocol {
		t.Run(name, func(t *testing.T) {
			srv, streams := serveSSE(t, second.change)
			client := second.client(t, srv)

			body, cancel := getStream(t, client, srv.URL)
			s := get(t, streams)
			if s.Detached() || s.RemoteAddr() == "" {
				t.Errorf("detached %v, remote %q", s.Detached(), s.RemoteAddr())
			}
			if n, err := s.TryWrite([]byte("x")); n != 0 || err != nil {
				t.Errorf("TryWrite = %d, %v; want 0, nil", n, err)
			}
			long := strings.Repeat(": 345678\n", 5000)
			written := make(chan error, 1)
			go func() { written <- s.Write([]byte(long), patience) }()
			got := make([]byte, len(long))
			if _, err := io.ReadFull(body, got); err != nil || string(got) != long {
				t.Fatal("body differs", err)
			}
			if err := get(t, written); err != nil {
				t.Fatal(err)
			}
			cancel() // the client goes
			if end := get(t, s.end); end.Kind != Closed {
				t.Errorf("end = %v, want closed", end)
			}
			if err := s.Write([]byte("x"), time.Second); err == nil {
				t.Error("Write after the end succeeded")
			}
			if _, err := s.TryWrite([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("TryWrite after the end: %v", err)
			}

			body, _ = getStream(t, client, srv.URL)
			s = get(t, streams)
			s.put(t, "data: bye\n\n")
			s.Close()
			s.Close()
			if end := get(t, s.end); end != (End{Kind: Local}) {
				t.Errorf("end = %v, want local", end)
			}
			if got, err := io.ReadAll(body); string(got) != "data: bye\n\n" || err != nil {
				t.Errorf("body %q, %v; want a clean end", got, err)
			}
		})
	}
}

// The time-outs of the http.Server were made for requests and do not end a
// stream, whatever carries it.
func TestServerTimeoutsDoNotEndSSE(t *testing.T) {
	check := func(t *testing.T, s stream, body io.Reader) {
		time.Sleep(longerThanTimeouts) // the time-outs pass: that is the test
		s.put(t, "data: 1\n\n")
		time.Sleep(longerThanTimeouts) // and those of the write
		s.put(t, "data: 2\n\n")
		got := make([]byte, 18)
		if _, err := io.ReadFull(body, got); err != nil || string(got) != "data: 1\n\ndata: 2\n\n" {
			t.Errorf("body %q, %v", got, err)
		}
		s.Close()
		if end := get(t, s.end); end.Kind != Local {
			t.Errorf("end = %v, want local", end)
		}
	}
	for name, second := range secondProtocol {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, streams := serveSSE(t, withTimeouts, second.change)
			body, _ := getStream(t, second.client(t, srv), srv.URL)
			check(t, get(t, streams), body)
		})
	}
	for name, change := range map[string]func(*httptest.Server){
		"HTTP/1.1":            func(*httptest.Server) {},
		"HTTP/1.1, TLS":       func(srv *httptest.Server) { srv.TLS = new(tls.Config) },
		"HTTP/1.1, no hijack": withoutHijack,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, streams := serveSSE(t, withTimeouts, change)
			resp, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			checkSSEHeader(t, resp.Header)
			check(t, get(t, streams), resp.Body)
		})
	}
}

// plainWriter is the writer of a middleware that hides the connection.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }
func (p plainWriter) Flush()                      { p.w.(http.Flusher).Flush() }
func (p plainWriter) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(p.w).SetReadDeadline(t)
}
func (p plainWriter) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(p.w).SetWriteDeadline(t)
}

func withoutHijack(srv *httptest.Server) {
	h := srv.Config.Handler
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(plainWriter{w}, r) })
}

func TestSSEWithoutHijack(t *testing.T) {
	srv, streams := serveSSE(t, withoutHijack)
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := get(t, streams)
	if s.Detached() {
		t.Error("detached")
	}
	s.put(t, "data: 1\n\n")
	got := make([]byte, 9)
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "data: 1\n\n" {
		t.Errorf("body %q, %v", got, err)
	}
	resp.Body.Close()
	if end := get(t, s.end); end.Kind != Closed {
		t.Errorf("end = %v, want closed", end)
	}
}

// The head of the answer and what comes first are one write.
func TestSSEHeadGoesOutWithTheFirstWrite(t *testing.T) {
	for name, write := range map[string]func(*SSE, []byte) error{
		"try":   func(s *SSE, p []byte) error { _, err := s.TryWrite(p); return err },
		"write": func(s *SSE, p []byte) error { return s.Write(p, patience) },
	} {
		server, client := socketPair(t)
		s := &SSE{head: []byte("head\n")}
		s.init(server)
		if err := write(s, []byte("first\n")); err != nil {
			t.Fatal(name, err)
		}
		b := make([]byte, 64)
		client.SetReadDeadline(time.Now().Add(patience))
		n, err := client.Read(b)
		if err == nil && string(b[:n]) == "head\nfirst\n" {
			err = write(s, []byte("second\n"))
		}
		if err == nil && string(b[:n]) == "head\nfirst\n" {
			n, err = client.Read(b)
		}
		if got := string(b[:n]); err != nil || got != "second\n" {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

// socketPair is two ends of a connection.
func socketPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err == nil {
		server, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// A recorder, as in a test of a handler, has no deadlines and works.
func TestSSEOnRecorder(t *testing.T) {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := AcceptSSE(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write([]byte("data: 1\n\n"), time.Second); err != nil {
		t.Error(err)
	}
	cancel()
	if end := s.Wait(); end.Kind != Closed || w.Body.String() != "data: 1\n\n" {
		t.Errorf("end = %v, body %q", end, w.Body)
	}
}

// A writer that cannot stream is an error, not a stream that nobody hears.
func TestSSEWithoutFlush(t *testing.T) {
	w := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	if _, err := AcceptSSE(w, httptest.NewRequest("GET", "/", nil), nil); err == nil {
		t.Error("accepted")
	}
}

// However a client goes on HTTP/1.1, the stream was closed by it; what it sends
// before is ignored.
func TestSSEEndsByTheClient(t *testing.T) {
	tcp := func(c net.Conn) *net.TCPConn { return baseConn(c).(*net.TCPConn) }
	for name, end := range map[string]func(c net.Conn){
		"close":                    func(c net.Conn) { c.Close() },
		"half-close":               func(c net.Conn) { tcp(c).CloseWrite() },
		"reset":                    func(c net.Conn) { tcp(c).SetLinger(0); tcp(c).Close() },
		"without a farewell":       func(c net.Conn) { tcp(c).Close() },
		"after bytes to no end":    func(c net.Conn) { io.WriteString(c, strings.Repeat("x", 10000)); c.Close() },
		"after a request too many": func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); c.Close() },
	} {
		for carrier, change := range map[string][]func(*httptest.Server){"TCP": nil, "TLS": {withTLS}} {
			t.Run(name+"/"+carrier, func(t *testing.T) {
				srv, streams := serveSSE(t, change...)
				var conn net.Conn
				if srv.TLS != nil {
					conn = dialTLS(t, srv)
				} else {
					conn = dialRaw(t, srv.Listener.Addr().String())
				}
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				readHead(t, bufio.NewReader(conn))
				s := get(t, streams)
				end(conn)
				if end := get(t, s.end); end.Kind != Closed {
					t.Errorf("end = %v, want closed", end)
				}
				s.Close()
			})
		}
	}
}

func TestSSEFloodIsAViolation(t *testing.T) {
	srv, streams := serveSSE(t)
	conn := dialRaw(t, srv.Listener.Addr().String())
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s := get(t, streams)
	go io.Copy(conn, strings.NewReader(strings.Repeat("x", maxIgnored+1)))
	if end := get(t, s.end); end.Kind != Violation {
		t.Errorf("end = %v, want violation", end)
	}
	s.Close()
}

// A client that takes nothing on HTTP/2 fills its window; Write gives up, and
// others on the same connection are not held up.
func TestSlowReaderOnHTTP2(t *testing.T) {
	for name, second := range secondProtocol {
		t.Run(name, func(t *testing.T) {
			srv, streams := serveSSE(t, second.change)
			client := second.client(t, srv)
			getStream(t, client, srv.URL) // and never read
			slow := get(t, streams)
			body, _ := getStream(t, client, srv.URL)
			good := get(t, streams)

			written := make(chan error, 1)
			go func() { written <- slow.Write(make([]byte, 64<<20), 50*time.Millisecond) }()
			if err := get(t, written); err != ErrSlow {
				t.Errorf("Write = %v, want ErrSlow", err)
			}
			slow.Close()
			get(t, slow.end)

			good.put(t, "data: 1\n\n")
			got := make([]byte, 9)
			if _, err := io.ReadFull(body, got); err != nil || string(got) != "data: 1\n\n" {
				t.Errorf("body %q, %v", got, err)
			}
			good.Close()
			get(t, good.end)
		})
	}
}

// Close ends a Write that waits, and Wait does not return before it has, since
// the handler returns then and net/http takes the writer back.
func TestCloseEndsWriteOnHTTP2(t *testing.T) {
	srv, streams := serveSSE(t, secondProtocol["h2c"].change)
	client := secondProtocol["h2c"].client(t, srv)
	for range 20 {
		getStream(t, client, srv.URL)
		s := get(t, streams)
		var writes sync.WaitGroup
		var err error
		writes.Go(func() {
			for err == nil {
				err = s.Write(make([]byte, 1<<20), time.Hour)
			}
		})
		s.Close()
		if end := get(t, s.end); end.Kind != Local {
			t.Errorf("end = %v, want local", end)
		}
		writes.Wait()
	}
}

func TestSlowReaderOfSSE(t *testing.T) {
	srv, streams := serveSSE(t)
	conn := dialRaw(t, srv.Listener.Addr().String())
	conn.(*net.TCPConn).SetReadBuffer(4096)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s := get(t, streams)
	if err := s.Write(make([]byte, 64<<20), 50*time.Millisecond); err != ErrSlow {
		t.Errorf("Write = %v, want ErrSlow", err)
	}
	s.Close()
	if end := get(t, s.end); end.Kind != Local {
		t.Errorf("end = %v, want local", end)
	}
}

func TestSSEHeaderForHEAD(t *testing.T) {
	h := http.Header{"Content-Length": {"7"}}
	SetSSEHeader(h)
	if h.Get("Content-Type") != "text/event-stream" || h.Get("Content-Length") != "" {
		t.Errorf("%v", h)
	}
}

// Only what the client did is closed; what the network did is cut.
func TestSSEEndsByTheNetwork(t *testing.T) {
	for err, want := range map[error]EndKind{
		io.EOF: Closed, syscall.ECONNRESET: Closed, io.ErrUnexpectedEOF: Closed,
		syscall.ETIMEDOUT: Cut, syscall.EHOSTUNREACH: Cut, syscall.ENETUNREACH: Cut, syscall.ECONNABORTED: Cut,
	} {
		if got := new(SSE).ended(&net.OpError{Op: "read", Err: err}); got.Kind != want {
			t.Errorf("%v: %v, want %v", err, got.Kind, want)
		}
	}
}
