package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

func withTLS(srv *httptest.Server) { srv.TLS = new(tls.Config) }

// A connection that ends without a close frame is cut, whatever ended it.
func TestEndWithoutCloseFrameIsCut(t *testing.T) {
	for name, end := range map[string]func(p *pair){
		"FIN":                func(p *pair) { p.client.Close() },
		"half-close":         func(p *pair) { p.client.(*net.TCPConn).CloseWrite() },
		"reset":              func(p *pair) { p.client.(*net.TCPConn).SetLinger(0); p.client.Close() },
		"inside a frame":     func(p *pair) { io.WriteString(p.client, text("hello")[:4]); p.client.Close() },
		"inside a message":   func(p *pair) { io.WriteString(p.client, frame(opText, "hello")); p.client.Close() },
		"right behind words": func(p *pair) { io.WriteString(p.client, text("hello")); p.client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, WebSocketOptions{}, "")
			end(p)
			if got := get(t, p.end); got.Kind != Cut || got.Err == nil {
				t.Errorf("end = %v, want cut with an error", got)
			}
		})
	}
}

func TestCloseEndsTheReader(t *testing.T) {
	for name, change := range map[string][]func(*httptest.Server){"TCP": nil, "TLS": {withTLS}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, WebSocketOptions{}, "", change...)
			p.server.Close()
			if got := get(t, p.end); got != (End{Kind: Local}) {
				t.Errorf("end = %v, want local", got)
			}
			if err := p.server.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			if n, err := p.server.TryWrite([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("TryWrite = %d, %v; want net.ErrClosed", n, err)
			}
			if err := p.server.Write([]byte("x"), time.Second); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write = %v; want net.ErrClosed", err)
			}
			if _, err := io.ReadAll(p.client); err != nil {
				t.Errorf("client: %v, want a clean end", err)
			}
		})
	}
}

func TestReadAfterCloseIsLocal(t *testing.T) {
	c := make(chan *WebSocket, 1)
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		ws, _ := AcceptWebSocket(w, r, WebSocketOptions{})
		c <- ws
	})
	conn := dialRaw(t, srv.Listener.Addr().String())
	io.WriteString(conn, upgradeRequest)
	ws := get(t, c)
	ws.Close()
	if end := ws.Read(newRecord()); end.Kind != Local {
		t.Errorf("end = %v, want local", end)
	}
}

// closeOnMessage closes in the middle of a segment.
type closeOnMessage struct {
	*record
	close func()
}

func (c closeOnMessage) Message(p []byte) { c.record.Message(p); c.close() }

func TestNothingIsHandledAfterClose(t *testing.T) {
	for _, behind := range []string{text("a") + text("b"), text("a") + frame(fin|opPing, "")} {
		for name, closing := range map[string]func(*WebSocket){
			"Close":      func(c *WebSocket) { c.Close() },
			"CloseAfter": func(c *WebSocket) { c.CloseAfter(time.Minute) },
		} {
			done, r := make(chan End, 1), newRecord()
			srv := startServer(t, func(w http.ResponseWriter, req *http.Request) {
				c, _ := AcceptWebSocket(w, req, WebSocketOptions{})
				go func() { done <- c.Read(closeOnMessage{r, func() { closing(c) }}) }()
			})
			conn := dialRaw(t, srv.Listener.Addr().String())
			io.WriteString(conn, upgradeRequest+behind)
			io.ReadAll(conn)
			conn.Close()
			if end := get(t, done); end.Kind != Local {
				t.Errorf("%s: end = %v, want local", name, end)
			}
			if d := cmp.Diff([]string{"message a"}, r.all()); d != "" {
				t.Errorf("%s: events (-want +got)\n%s", name, d)
			}
		}
	}
}

// The client sees the close frame, not a reset, even if it has sent more than
// anybody will read.
func TestCloseFrameSurvivesUnreadBytes(t *testing.T) {
	for name, change := range map[string][]func(*httptest.Server){"TCP": nil, "TLS": {withTLS}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, WebSocketOptions{MaxMessage: 1000}, "", change...)
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(p.client, text(strings.Repeat("x", 2<<20)))
				sent <- err
			}()
			end := get(t, p.end)
			if end.Kind != Violation || end.Code != 1009 {
				t.Fatalf("end = %v, want violation 1009", end)
			}
			if err := p.server.Write(serverFrame(opClose, closing(end.Code, end.Reason)), time.Second); err != nil {
				t.Fatal(err)
			}
			p.server.CloseAfter(patience)
			if err := get(t, sent); err != nil {
				t.Errorf("the client could not send all: %v", err)
			}
			op, payload, err := readServerFrame(p.r)
			if err != nil || op != opClose || payload != closing(1009, end.Reason) {
				t.Fatalf("client got %#x %q %v, want the close frame", op, payload, err)
			}
			if _, err := p.r.ReadByte(); err != io.EOF {
				t.Errorf("then %v, want EOF", err)
			}
			p.client.Close()
			eventually(t, func() bool { return p.server.state.Load()&stateClosed != 0 })
		})
	}
}

func TestCloseAfterIsBounded(t *testing.T) {
	t.Run("while Read runs", func(t *testing.T) {
		p := open(t, WebSocketOptions{}, "")
		p.server.Write(serverFrame(opClose, closing(4503, "draining")), time.Second)
		p.server.CloseAfter(20 * time.Millisecond)
		if end := get(t, p.end); end.Kind != Local { // the client never closes
			t.Errorf("end = %v, want local", end)
		}
		if _, err := p.server.TryWrite([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("TryWrite = %v, want net.ErrClosed", err)
		}
	})
	t.Run("after a violation", func(t *testing.T) {
		p := open(t, WebSocketOptions{}, "")
		p.send(t, frame(fin|opBin, "x"))
		get(t, p.end)
		p.server.CloseAfter(20 * time.Millisecond)
		eventually(t, func() bool { return p.server.state.Load()&stateClosed != 0 })
	})
	t.Run("Close cuts it short", func(t *testing.T) {
		p := open(t, WebSocketOptions{}, "")
		p.server.CloseAfter(time.Hour)
		p.server.Close()
		if end := get(t, p.end); end.Kind != Local {
			t.Errorf("end = %v, want local", end)
		}
	})
	t.Run("it waits for nobody who has said goodbye", func(t *testing.T) {
		p := open(t, WebSocketOptions{}, "")
		p.send(t, closeFrame(1000, ""))
		if end := get(t, p.end); end.Kind != Closed {
			t.Fatalf("end = %v", end)
		}
		p.server.CloseAfter(time.Hour)
		if p.server.state.Load()&stateClosed == 0 {
			t.Error("still open")
		}
	})
	t.Run("a client that closes ends it at once", func(t *testing.T) {
		p := open(t, WebSocketOptions{}, "")
		p.server.Write(serverFrame(opClose, closing(1001, "")), time.Second)
		p.server.CloseAfter(time.Hour)
		if op, _, err := readServerFrame(p.r); op != opClose || err != nil {
			t.Fatal(op, err)
		}
		p.send(t, text("too late"), closeFrame(1001, ""))
		p.client.Close()
		if end := get(t, p.end); end.Kind != Local || len(p.all()) != 0 {
			t.Errorf("end = %v after %q, want local after nothing", end, p.all())
		}
	})
}

// panicky panics, or ends its goroutine, on one kind of frame.
type panicky struct {
	*record
	do func(what string)
}

func (h panicky) Message(p []byte) { h.do("message") }
func (h panicky) Pong(p []byte)    { h.do("pong") }

// A panic of a handler arrives in the goroutine that called Read, wherever the
// handler ran, and so does a runtime.Goexit.
func TestPanicOfHandlerReachesTheCallerOfRead(t *testing.T) {
	for _, c := range []struct {
		sent string
		do   func(what string)
		want string
	}{
		{text("x"), func(what string) { panic("boom " + what) }, "boom message\n\nhandler's stack:\n"},
		{frame(fin|opPong, ""), func(what string) { panic("boom " + what) }, "boom pong"},
		{text("x"), func(string) { runtime.Goexit() }, "<nil>"},
		{frame(fin|opPong, ""), func(string) { runtime.Goexit() }, "<nil>"},
	} {
		got := make(chan any, 1)
		srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
			ws, _ := AcceptWebSocket(w, r, WebSocketOptions{})
			go func() {
				defer ws.Close()
				defer func() { got <- recover() }()
				end := ws.Read(panicky{newRecord(), c.do})
				t.Errorf("%q: Read returned %v", c.want, end)
			}()
		})
		conn := dialRaw(t, srv.Listener.Addr().String())
		io.WriteString(conn, upgradeRequest+c.sent)
		if v := fmt.Sprint(get(t, got)); !strings.HasPrefix(v, c.want) {
			t.Errorf("recovered %q, want %q", v, c.want)
		}
	}
}

// After a panic the write side is still the caller's, for a close frame.
func TestCloseFrameAfterPanic(t *testing.T) {
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		ws, _ := AcceptWebSocket(w, r, WebSocketOptions{})
		go func() {
			defer func() {
				recover()
				ws.Write(serverFrame(opClose, closing(4500, "")), time.Second)
				ws.CloseAfter(time.Second)
			}()
			ws.Read(panicky{newRecord(), func(string) { panic("boom") }})
		}()
	})
	conn := dialRaw(t, srv.Listener.Addr().String())
	io.WriteString(conn, upgradeRequest+text("x"))
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(all), string(serverFrame(opClose, closing(4500, "")))) {
		t.Errorf("client got %q, %v", all, err)
	}
}

// A client that takes nothing fills the kernel, not the server: TryWrite takes
// less and less and then nothing, Write gives up.
func TestSlowReader(t *testing.T) {
	for name, change := range map[string][]func(*httptest.Server){"TCP": nil, "TLS": {withTLS}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, WebSocketOptions{}, "", change...)
			baseConn(p.client).(*net.TCPConn).SetReadBuffer(4096)
			event := serverFrame(opText, strings.Repeat("x", 1000))
			total := 0
			for name == "TCP" {
				n, err := p.server.TryWrite(event)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
				if total += n; total > 8<<20 {
					t.Fatal("the kernel takes everything")
				}
			}
			t.Logf("the kernel took %d bytes", total)
			start := time.Now()
			big := make([]byte, 8<<20)
			if err := p.server.Write(big, 50*time.Millisecond); err != ErrSlow {
				t.Errorf("Write = %v, want ErrSlow", err)
			}
			if d := time.Since(start); d < 50*time.Millisecond {
				t.Errorf("gave up after %v", d)
			}
			closing := make(chan error, 1)
			go func() { closing <- p.server.Close() }()
			get(t, closing)
			get(t, p.end)
		})
	}
}

// Close never waits for a client that takes nothing, not even for the alert that
// ends TLS; and it ends a Write that does.
func TestCloseDoesNotWaitForSlowReader(t *testing.T) {
	for name, change := range map[string][]func(*httptest.Server){"TCP": nil, "TLS": {withTLS}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, WebSocketOptions{}, "", change...)
			written := make(chan error, 1)
			go func() { written <- p.server.Write(make([]byte, 64<<20), time.Hour) }()
			eventually(t, func() bool { return !writable(baseConn(p.server.conn)) })
			start := time.Now()
			p.server.Close()
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("Close took %v", d)
			}
			if err := get(t, written); err == nil {
				t.Error("Write took all of it")
			}
			get(t, p.end)
		})
	}
}

// A slow reader that reads again gets every byte in order.
func TestWriteGoesOnWhereTryWriteStopped(t *testing.T) {
	p := open(t, WebSocketOptions{}, "")
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i >> 8 * 7)
	}
	n, err := p.server.TryWrite(data)
	if err != nil || n == 0 || n == len(data) {
		t.Fatalf("TryWrite = %d, %v; want a part", n, err)
	}
	written := make(chan error, 1)
	go func() { written <- p.server.Write(data[n:], patience) }()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(p.r, got); err != nil {
		t.Fatal(err)
	}
	if err := get(t, written); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(data) {
		t.Error("other bytes came than were written")
	}
	// No deadline is left behind.
	if n, err := p.server.TryWrite([]byte("x")); n != 1 || err != nil {
		t.Errorf("TryWrite after Write = %d, %v", n, err)
	}
}

// Writing to a client that is gone is an error at the latest with the second
// write, and the reader knows too.
func TestWriteToAbsentClient(t *testing.T) {
	p := open(t, WebSocketOptions{}, "")
	p.client.(*net.TCPConn).SetLinger(0)
	p.client.Close()
	get(t, p.end)
	eventually(t, func() bool {
		_, err := p.server.TryWrite([]byte("x"))
		return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	})
}

// The time-outs of the http.Server do not reach a stream.
func TestServerTimeoutsDoNotEndWebSocket(t *testing.T) {
	t.Parallel()
	p := open(t, WebSocketOptions{}, "", withTimeouts)
	time.Sleep(longerThanTimeouts) // the time-outs pass: that is the test
	p.send(t, text("hello"))
	p.wait(t, 1)
	if n, err := p.server.TryWrite(serverFrame(opText, "x")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if _, payload, err := readServerFrame(p.r); payload != "x" || err != nil {
		t.Fatal(payload, err)
	}
}

func TestWebSocketOverTLS(t *testing.T) {
	p := open(t, WebSocketOptions{MaxMessage: testMax}, "", withTLS)
	if n, err := p.server.TryWrite([]byte("x")); n != 0 || err != nil {
		t.Errorf("TryWrite = %d, %v; want 0, nil", n, err)
	}
	long := strings.Repeat("x", 65536)
	p.send(t, text("hello"), frame(fin|opPing, "p"), frame(fin|opPong, "q"), text(long), frame(opText, "a"))
	p.send(t, frame(fin|opCont, "b"))
	p.wait(t, 5)
	if d := cmp.Diff([]string{"message hello", "ping p", "pong q", "message " + long, "message ab"}, p.all()); d != "" {
		t.Errorf("events (-want +got)\n%s", short(d))
	}
	if err := p.server.Write(serverFrame(opText, long[:60000]), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, payload, err := readServerFrame(p.r); payload != long[:60000] || err != nil {
		t.Fatal(len(payload), err)
	}
	p.send(t, closeFrame(1001, ""))
	if end := get(t, p.end); end != (End{Closed, 1001, "", nil}) {
		t.Errorf("end = %v", end)
	}
}

// A client that only answers pings is heard; a flood of pongs that nobody asked
// for is only heard.
func TestPongsAreHeard(t *testing.T) {
	p := open(t, WebSocketOptions{}, "")
	for i := range 3 {
		beat := fmt.Sprint("beat ", i)
		if n, err := p.server.TryWrite(serverFrame(opPing, beat)); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		op, payload, err := readServerFrame(p.r)
		if op != opPing || err != nil {
			t.Fatal(op, err)
		}
		p.send(t, frame(fin|opPong, payload))
		p.wait(t, i+1)
	}
	p.send(t, strings.Repeat(frame(fin|opPong, ""), 1000))
	p.wait(t, 1003)
	if d := cmp.Diff([]string{"pong beat 0", "pong beat 1", "pong beat 2", "pong "}, p.all()[:4]); d != "" {
		t.Error(d)
	}
}

// The library that the Go client is made of speaks to us.
func TestCoderClient(t *testing.T) {
	ends := make(chan End, 1)
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		go func() { ends <- serveEcho(c) }()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, srv.URL, &websocket.DialOptions{
		Subprotocols:    []string{"rollcall.v1", "bearer.abc"},
		CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if c.Subprotocol() != "rollcall.v1" || resp.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("agreed on %q with %q", c.Subprotocol(), resp.Header.Get("Sec-WebSocket-Extensions"))
	}
	c.SetReadLimit(1 << 20)
	for _, s := range []string{"", "hello", "κόσμε", strings.Repeat("x", 125), strings.Repeat("x", 126), strings.Repeat("x", 65536)} {
		if err := c.Write(ctx, websocket.MessageText, []byte(s)); err != nil {
			t.Fatal(err)
		}
		if _, p, err := c.Read(ctx); string(p) != s || err != nil {
			t.Fatalf("got %s, %v; want %s", short(string(p)), err, short(s))
		}
	}
	w, err := c.Writer(ctx, websocket.MessageText) // in fragments
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		io.WriteString(w, strings.Repeat("f", 5000))
	}
	w.Close()
	if _, p, err := c.Read(ctx); len(p) != 15000 || err != nil {
		t.Fatal(len(p), err)
	}
	pinged := make(chan error, 1)
	go func() { pinged <- c.Ping(ctx) }()
	read := make(chan error, 1)
	go func() {
		_, _, err := c.Read(ctx)
		read <- err
	}()
	if err := get(t, pinged); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(4001, "goodbye"); err != nil {
		t.Errorf("Close: %v", err)
	}
	get(t, read)
	if end := get(t, ends); end != (End{Closed, 4001, "goodbye", nil}) {
		t.Errorf("end = %v", end)
	}
}

// serveEcho is a server that answers each message with itself, and does at the
// end what a hub does.
func serveEcho(c *WebSocket) End {
	end := c.Read(echo{c})
	switch end.Kind {
	case Closed:
		code := end.Code
		if code == codeNone {
			code = 1000
		}
		c.Write(serverFrame(opClose, closing(code, "")), time.Second)
	case Violation:
		c.Write(serverFrame(opClose, closing(end.Code, end.Reason)), time.Second)
	}
	c.CloseAfter(time.Second)
	return end
}

type echo struct{ c *WebSocket }

func (e echo) Message(p []byte) {
	if string(p) == "close me" {
		e.c.Write(serverFrame(opClose, closing(4503, "draining")), time.Second)
		e.c.CloseAfter(time.Second)
		return
	}
	e.c.Write(serverFrame(opText, string(p)), time.Second)
}
func (e echo) Ping(p []byte) { e.c.Write(serverFrame(opPong, string(p)), time.Second) }
func (e echo) Pong(p []byte) {}
func (e echo) Steady() bool  { return false }

// Connections that speak at once share the workers and nothing else; when all
// have gone there is no worker left (the leak check of this package sees to it).
func TestManySpeakAtOnce(t *testing.T) {
	const clients, words = 40, 25
	done := make(chan error, clients)
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		go serveEcho(c)
	})
	for i := range clients {
		conn := dialRaw(t, srv.Listener.Addr().String())
		io.WriteString(conn, upgradeRequest)
		r := bufio.NewReader(conn)
		readHead(t, r)
		go func() {
			for j := range words {
				sent := fmt.Sprintf("client %d word %d", i, j)
				io.WriteString(conn, text(sent))
				if _, got, err := readServerFrame(r); got != sent || err != nil {
					done <- fmt.Errorf("got %q, %v; want %q", got, err, sent)
					return
				}
			}
			io.WriteString(conn, closeFrame(1000, ""))
			_, _, err := readServerFrame(r)
			done <- err
		}()
	}
	for range clients {
		if err := get(t, done); err != nil {
			t.Error(err)
		}
	}
}
