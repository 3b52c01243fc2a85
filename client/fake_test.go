package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"rollcall"
	"rollcall/wire"
)

// fake is a server whose every word the test says. It lives on pipes, so that it
// can be used in virtual time.
type fake struct {
	t       *testing.T
	conns   chan net.Conn
	streams chan *fakeStream
	http    *http.Server
	done    chan struct{}
	clients []*Client

	mu     sync.Mutex
	down   error            // Guarded by mu. What dialing it fails with.
	refuse http.HandlerFunc // Guarded by mu. Answers the handshake instead.
	posts  []string         // Guarded by mu. Path and body of other requests.
}

// fakeStream is one WebSocket, seen from the server.
type fakeStream struct {
	t       *testing.T
	conn    *websocket.Conn
	request *http.Request
	inbox   []wire.Message // messages of a frame that have not been read yet
	end     chan struct{}
	once    sync.Once
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, conns: make(chan net.Conn), streams: make(chan *fakeStream, 16), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/ws", f.serve)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.posts = append(f.posts, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	f.http = &http.Server{Handler: mux}
	go f.http.Serve(f)
	return f
}

// close ends everything, so that nothing is left in the bubble.
func (f *fake) close() {
	for _, c := range f.clients {
		c.cancel()
		c.Close()
		c.http.CloseIdleConnections()
	}
	close(f.done)
	f.http.Close()
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		refuse(w, r)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		return
	}
	s := &fakeStream{t: f.t, conn: conn, request: r, end: make(chan struct{})}
	f.streams <- s
	select {
	case <-s.end:
	case <-f.done:
	}
	conn.CloseNow()
}

// fake is its own listener.

func (f *fake) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}
func (f *fake) Close() error   { return nil }
func (f *fake) Addr() net.Addr { return &net.IPAddr{} }

func (f *fake) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down != nil {
		return nil, down
	}
	ours, theirs := net.Pipe()
	select {
	case f.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *fake) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *fake) setRefuse(h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = h
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.posts...)
}

// client makes a client of the fake.
func (f *fake) client(o Options) *Client {
	f.t.Helper()
	o.URL = "http://fake"
	o.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: f.dial}}
	c, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.clients = append(f.clients, c)
	return c
}

// next is the next stream that the client opens.
func (f *fake) next() *fakeStream {
	f.t.Helper()
	select {
	case s := <-f.streams:
		return s
	case <-time.After(time.Minute):
		f.t.Fatal("no stream was opened")
		return nil
	}
}

// none checks that no stream is opened for a while.
func (f *fake) none(d time.Duration) {
	f.t.Helper()
	select {
	case <-f.streams:
		f.t.Fatalf("a stream was opened within %v", d)
	case <-time.After(d):
	}
}

func (s *fakeStream) say(event wire.Event, body string) {
	s.t.Helper()
	raw := fmt.Sprintf(`{"type":%q`, event)
	if body != "" {
		raw += "," + body
	}
	if err := s.conn.Write(context.Background(), websocket.MessageText, []byte(raw+"}")); err != nil {
		s.t.Errorf("say %s: %v", event, err)
	}
}

func (s *fakeStream) ready(connection string) {
	s.t.Helper()
	s.say(wire.EventReady, fmt.Sprintf(`"connection":%q,"resume":"secret of %s","user":"ana","leaseMs":30000,"beatMs":9000,"now":0`, connection, connection))
}

// hear is the next message of the client.
func (s *fakeStream) hear() wire.Message {
	s.t.Helper()
	for len(s.inbox) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, raw, err := s.conn.Read(ctx)
		cancel()
		if err != nil {
			s.t.Fatalf("the client says nothing more: %v", err)
		}
		limits := rollcall.DefaultLimits()
		limits.Data = 0
		if s.inbox, err = wire.DecodeMessages(raw, &limits); err != nil {
			s.t.Fatalf("%s: %v", raw, err)
		}
	}
	m := s.inbox[0]
	s.inbox = s.inbox[1:]
	return m
}

// expect hears a message of a type about a room and answers ok.
func (s *fakeStream) expect(kind string, room rollcall.RoomID) wire.Message {
	s.t.Helper()
	m := s.hear()
	if m.Type != kind || m.Room != room || m.Err != nil {
		s.t.Fatalf("the client says %s about %q (%v), want %s about %q", m.Type, m.Room, m.Err, kind, room)
	}
	s.say(wire.EventOK, fmt.Sprintf(`"id":%s`, m.ID))
	return m
}

func (s *fakeStream) refuse(m wire.Message, code rollcall.Code) {
	s.t.Helper()
	s.say(wire.EventError, fmt.Sprintf(`"id":%s,"code":%q,"message":"no","retry":%v`, m.ID, code, code.Retry()))
}

// snapshot says who is in room r, newest first.
func (s *fakeStream) snapshot(version int, users ...string) {
	s.t.Helper()
	s.say(wire.EventSnapshot, fmt.Sprintf(`"room":"r","epoch":"e","version":%d,"mode":"full","count":%d,"members":%s`, version, len(users), membersJSON(users)))
}

func membersJSON(users []string) string {
	list := []map[string]any{}
	for i, u := range users {
		list = append(list, map[string]any{"user": u, "status": "active", "connections": 1, "since": len(users) - i})
	}
	raw, _ := json.Marshal(list)
	return string(raw)
}

// closed is how the client ended the stream: the code of its close frame, or -1
// if it sent none.
func (s *fakeStream) closed() websocket.StatusCode {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, _, err := s.conn.Read(ctx)
		cancel()
		if err != nil {
			s.cut()
			return websocket.CloseStatus(err)
		}
	}
}

// cut ends the stream without a word.
func (s *fakeStream) cut() { s.once.Do(func() { close(s.end) }) }

// entered is a client in room r, and its stream.
func entered(t *testing.T, f *fake, o Options, e EnterOptions) (*Client, *Room, *fakeStream) {
	t.Helper()
	c := f.client(o)
	room := make(chan *Room)
	go func() {
		r, err := c.Enter(t.Context(), "r", e)
		if err != nil {
			t.Errorf("enter: %v", err)
		}
		room <- r
	}()
	s := f.next()
	s.ready("c1")
	s.expect(wire.MessageJoin, "r")
	s.snapshot(10, "ana", "bob")
	return c, <-room, s
}

// bubble runs a test in virtual time, in which nothing may be left running.
func bubble(t *testing.T, test func(t *testing.T, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		defer f.close()
		test(t, f)
	})
}

// next is the next change, which must be of a kind.
func next(t *testing.T, changes <-chan Change, kind Kind) Change {
	t.Helper()
	select {
	case c, ok := <-changes:
		if !ok {
			t.Fatalf("the changes are over, want %v", kind)
		}
		if c.Kind != kind {
			t.Fatalf("change %+v, want %v", c, kind)
		}
		return c
	case <-time.After(time.Minute):
		t.Fatalf("no change, want %v", kind)
	}
	return Change{}
}

var errDown = errors.New("connection refused")
