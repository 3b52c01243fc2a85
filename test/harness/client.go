package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Transport is how a client is connected.
type Transport int

// The transports.
const (
	SSE Transport = iota
	WS
)

func (t Transport) String() string { return [...]string{"SSE", "WebSocket"}[t] }

// Each runs a test over each transport, in parallel.
func Each(t *testing.T, f func(t *testing.T, over Transport)) {
	t.Parallel()
	for _, over := range []Transport{SSE, WS} {
		t.Run(over.String(), func(t *testing.T) {
			t.Parallel()
			f(t, over)
		})
	}
}

// Options are those of a client. The zero value answers beats, and does not come
// back by itself.
type Options struct {
	Rooms   []string
	User    string // of a guest; also who may then be named in Rooms
	Name    string
	Token   string
	TokenBy string // header (the default), query, cookie, subprotocol, message

	Observe      bool
	Hidden       bool // the token says so: nobody may be told of the user
	Status, Data string

	Resume      string // the secret alone
	LastEventID string // SSE
	Since       string // epoch.version
	Held        *List  // what the client holds already; it says so as Since does

	Plain     bool // SSE: answers no beat and says so, and comes back by itself
	Silent    bool // says that it answers beats, and does not
	Reconnect bool // comes back by itself, as an EventSource does
	NoWait    bool // Open does not wait for `ready` and the rooms
	Multi     bool // SSE: /v1/stream even for one room
	// GiveUp closes the socket this long after it was dialed, whatever has come
	// by then.
	GiveUp time.Duration
	Small  bool // a receive buffer of 4 KiB
	Quiet  bool // WebSocket: sends nothing by itself

	// Nodes are where the client comes back to, one after the other, for as long
	// as it takes. It says Reconnect too.
	Nodes func() []*Server

	Through *Server // the node that the client's calls go to; that of its stream if nil

	Query  url.Values
	Header http.Header
	URL    string // instead of the server's: that of a proxy
}

// Ready is the first event of a stream.
type Ready struct {
	Connection, Resume, User string
	LeaseMs, BeatMs, Now     int64
}

// End is how a stream of a client ended.
type End struct {
	At     time.Time
	Stream int
	Code   int    // of the close frame of a WebSocket; 0: none
	Reason string // of the close frame
	Bye    string // the reason of the bye; "" if there was none
	Back   *int64 // reconnectMs of it
	Err    error
}

// Client is a client. Safe for concurrent use, but for its calls that fail tests.
type Client struct {
	Over Transport
	s    *Server                // where it was opened first
	at   atomic.Pointer[Server] // where it is to go now; nil: to s
	t    testing.TB
	o    Options

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // Guarded by mu. Closed and replaced with each event.
	events  []Event       // Guarded by mu.
	lists   lists         // Guarded by mu.
	ends    []End         // Guarded by mu.
	ready   Ready         // Guarded by mu. Of the newest stream.
	lastID  string        // Guarded by mu.
	retry   time.Duration // Guarded by mu. What the server asked for last.
	bye     farewell      // Guarded by mu. Of the current stream.
	stream  *stream       // Guarded by mu. The newest.
	links   []*link       // Guarded by mu. All there were.
	opened  int           // Guarded by mu.
	closed  bool          // Guarded by mu. The client went by itself; it stays away.
	silent  bool          // Guarded by mu.
	asked   int           // Guarded by mu. The id of the last message.
	refused *Answer       // Guarded by mu. The answer that was no stream.
	comment int           // Guarded by mu. Comments seen.
}

type farewell struct {
	Reason      string
	ReconnectMs *int64
}

// stream is one socket of a client.
type stream struct {
	no   int
	link *link
	res  *http.Response
	ws   *socket
	over chan struct{} // closed when its reader has ended
}

// OpenSSE opens a client over SSE.
func (s *Server) OpenSSE(t testing.TB, o Options) *Client { t.Helper(); return s.Open(t, SSE, o) }

// OpenWS opens a client over WebSocket.
func (s *Server) OpenWS(t testing.TB, o Options) *Client { t.Helper(); return s.Open(t, WS, o) }

// Open opens a client, waits until it has been shown its rooms, and fails the
// test if that does not come.
func (s *Server) Open(t testing.TB, over Transport, o Options) *Client {
	t.Helper()
	c := s.Try(t, over, o)
	if a := c.Refused(); a != nil {
		t.Fatalf("open %v of %q: status %d, %v, %s", over, o.User, a.Status, a.Err, a.Body)
	}
	if !o.NoWait {
		c.waitShown(1)
	}
	return c
}

// Try opens a client that may be refused; see [Client.Refused].
func (s *Server) Try(t testing.TB, over Transport, o Options) *Client {
	t.Helper()
	c := &Client{
		Over: over, s: s, t: t, o: o, lists: newLists(), changed: make(chan struct{}),
		lastID: o.LastEventID, silent: o.Silent || o.Plain,
	}
	if h := o.Held; h != nil {
		held := *h
		held.Members, held.Stream = maps.Clone(h.Members), 0
		c.lists.rooms[h.Room] = &held
		c.o.Since = fmt.Sprintf("%s.%d", h.Epoch, h.Version)
	}
	if s.far != nil && !o.Observe {
		c.at.Store(s.far)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	if o.User != "" && !o.Observe && !o.Hidden {
		for _, r := range o.Rooms {
			s.Know(r, o.User)
		}
	}
	c.open(true)
	return c
}

// Refused is the answer that the client got instead of a stream; nil if there
// was none.
func (c *Client) Refused() *Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Watch opens an observer of a room over the same transport.
func (s *Server) Watch(t testing.TB, over Transport, rooms ...string) *Client {
	t.Helper()
	return s.Open(t, over, Options{Rooms: rooms, Observe: true, Token: s.watcherToken()})
}

func (s *Server) watcherToken() string {
	if !s.Tokens {
		return ""
	}
	return s.Token(Claims{User: "the-watcher"})
}

// base is the URL that the client goes to.
func (c *Client) base() string {
	if c.o.URL != "" {
		return c.o.URL
	}
	return c.node().URL
}

// node is the server that the client is at, or goes to.
func (c *Client) node() *Server {
	if s := c.at.Load(); s != nil {
		return s
	}
	return c.s
}

// Move has the client go to another node from now on: with its next stream, and
// with its calls.
func (c *Client) Move(to *Server) { c.at.Store(to) }

// open opens one stream and starts its reader. first is false when the client
// comes back.
func (c *Client) open(first bool) {
	c.mu.Lock()
	c.opened++
	no := c.opened
	c.bye = farewell{}
	c.mu.Unlock()
	var st *stream
	var refused *Answer
	if c.Over == WS {
		st, refused = c.dialWS(no, first)
	} else {
		st, refused = c.dialSSE(no, first)
	}
	c.mu.Lock()
	if c.closed && st != nil {
		c.mu.Unlock()
		st.link.Close()
		return
	}
	c.refused = refused
	c.stream = st
	c.signalLocked()
	c.mu.Unlock()
	if st == nil {
		if !first && (c.o.Nodes != nil || c.o.Reconnect && c.o.URL != "") {
			c.comeBack(100 * time.Millisecond)
		}
		return
	}
	c.wg.Go(func() {
		if c.Over == WS {
			c.readWS(st)
		} else {
			c.readSSE(st)
		}
		close(st.over)
		c.ended(st)
	})
	if c.Over == WS {
		c.greet(st, first)
	}
}

// ended comes back after a stream has ended, if the client is one that does.
func (c *Client) ended(st *stream) {
	c.mu.Lock()
	again := (c.o.Reconnect || c.o.Plain || c.o.Nodes != nil) && !c.closed && c.stream == st
	wait := c.retry
	if b := c.bye.ReconnectMs; c.Over == WS && b != nil {
		wait = time.Duration(*b) * time.Millisecond
	}
	if c.bye.Reason != "" && c.bye.ReconnectMs == nil {
		again = false
	}
	c.signalLocked()
	c.mu.Unlock()
	if again {
		c.comeBack(wait)
	}
}

// comeBack opens the next stream after a while, at the next node.
func (c *Client) comeBack(wait time.Duration) {
	var nodes []*Server
	if c.o.Nodes != nil {
		nodes = c.o.Nodes()
	}
	c.mu.Lock()
	if n := len(nodes); n > 0 {
		c.at.Store(nodes[c.opened%n])
	}
	away := c.closed
	c.mu.Unlock()
	if away {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return
	case <-timer.C:
	}
	c.wg.Go(func() { c.open(false) })
}

// dial connects a socket that can go dead.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if c.o.Small {
		d.Control = func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			})
		}
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn)
	c.mu.Lock()
	c.links = append(c.links, l)
	c.mu.Unlock()
	if c.o.GiveUp > 0 {
		c.wg.Go(func() {
			select {
			case <-time.After(c.o.GiveUp):
				l.Close()
			case <-c.ctx.Done():
			}
		})
	}
	return l, nil
}

// query is what the URL of a stream says besides its rooms.
func (c *Client) query() url.Values {
	q := url.Values{}
	for k, v := range c.o.Query {
		q[k] = v
	}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !c.s.Tokens {
		set("user", c.o.User)
		set("name", c.o.Name)
	}
	if c.o.TokenBy == "query" {
		set("access_token", c.o.Token)
	}
	return q
}

// header is the header of the request of a stream.
func (c *Client) header() http.Header {
	h := http.Header{}
	for k, v := range c.o.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	if c.o.Token != "" {
		switch c.o.TokenBy {
		case "", "header":
			h.Set("Authorization", "Bearer "+c.o.Token)
		case "cookie":
			h.Set("Cookie", "rollcall_token="+c.o.Token)
		}
	}
	return h
}

func (c *Client) signalLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// record takes one event.
func (c *Client) record(st *stream, name string, data []byte) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := Event{At: now, Name: name, Data: append(json.RawMessage(nil), data...), Stream: st.no}
	c.events = append(c.events, e)
	defer c.signalLocked()
	if st.no != c.opened {
		return // the last words of an old stream
	}
	switch name {
	case "ready":
		c.ready = Ready{}
		if err := json.Unmarshal(data, &c.ready); err != nil {
			c.lists.fault(&e, "cannot be read: %v", err)
		}
		if !c.o.Observe && !c.o.Hidden {
			for _, r := range c.o.Rooms {
				c.s.Know(r, c.ready.User)
			}
		}
	case "snapshot", "resumed", "diff", "count", "mode", "ended":
		only := ""
		if len(c.o.Rooms) == 1 && c.Over == SSE && !c.o.Multi {
			only = c.o.Rooms[0]
		}
		c.lists.apply(&e, only)
	case "bye":
		json.Unmarshal(data, &c.bye)
	case "beat":
		c.beatLocked(st, data)
	}
}

// beatLocked answers a beat of SSE; a WebSocket answers pings.
func (c *Client) beatLocked(st *stream, data []byte) {
	if c.Over == WS || c.silent {
		return
	}
	var beat struct{ N json.RawMessage }
	json.Unmarshal(data, &beat)
	ready := c.ready
	c.wg.Go(func() {
		if st.link.passes() {
			c.other().Do(Call{
				Base: c.o.URL, Method: "POST", Path: "/v1/connections/" + url.PathEscape(ready.Connection) + "/beat",
				Body: fmt.Sprintf(`{"n":%s}`, beat.N), Resume: ready.Resume,
			})
		}
	})
}

func (c *Client) finished(st *stream, e End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.At, e.Stream = time.Now(), st.no
	if st.no == c.opened {
		e.Bye, e.Back = c.bye.Reason, c.bye.ReconnectMs
	}
	c.ends = append(c.ends, e)
	c.signalLocked()
}

// Answers has the client answer beats and pings, or not.
func (c *Client) Answers(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = !yes
}

func (c *Client) current() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// Close ends the client as people do: a WebSocket with a close frame 1000, an
// EventSource by closing the connection. It returns when the stream has ended.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	st := c.stream
	c.mu.Unlock()
	if st == nil {
		return
	}
	if c.Over == SSE {
		st.res.Body.Close()
		st.link.Close()
	} else {
		st.ws.write(opClose, []byte{1000 >> 8, 1000 & 0xff})
		select {
		case <-st.over:
		case <-time.After(3 * time.Second):
			c.t.Errorf("the server does not answer a close frame")
		}
		st.link.Close()
	}
	<-st.over
}

// Hangup ends the connection without a close frame. (On SSE that is what Close
// does.)
func (c *Client) Hangup() {
	if st := c.current(); st != nil {
		st.link.Close()
		<-st.over
	}
}

// Kill ends the connection with a reset, and the client stays away.
func (c *Client) Kill() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if st := c.current(); st != nil {
		st.link.reset()
		<-st.over
	}
}

// Cut drops what is under way in both directions from now on, and nobody is
// told: both sockets stay open.
func (c *Client) Cut() {
	if st := c.current(); st != nil {
		st.link.sever()
	}
}

// Freeze stops the client as SIGSTOP does; Thaw lets it go on.
func (c *Client) Freeze() { c.current().link.freeze() }

// Thaw lets a frozen client go on.
func (c *Client) Thaw() { c.current().link.thaw() }

// Reopen opens a new stream of the same connection, as it is done by a client
// that comes back, whatever became of the last one; and waits until its rooms
// are shown.
func (c *Client) Reopen() {
	c.t.Helper()
	c.mu.Lock()
	c.closed = false
	c.mu.Unlock()
	c.open(false)
	if a := c.Refused(); a != nil {
		c.t.Fatalf("reopen %v of %q: status %d, %v, %s", c.Over, c.o.User, a.Status, a.Err, a.Body)
	}
	c.mu.Lock()
	no := c.opened
	c.mu.Unlock()
	c.waitShown(no)
}

// waitShown waits until stream no has shown all rooms.
func (c *Client) waitShown(no int) {
	c.t.Helper()
	c.Until(8*time.Second, "shown its rooms", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := 0
		for _, r := range c.o.Rooms {
			if l := c.lists.rooms[r]; l != nil && l.Stream >= no {
				n++
			}
		}
		ready := false
		for i := range c.events {
			ready = ready || c.events[i].Name == "ready" && c.events[i].Stream >= no
		}
		return ready && n == len(c.o.Rooms)
	})
}

// quit ends everything that belongs to the client.
func (c *Client) quit() {
	c.mu.Lock()
	c.closed = true
	links := c.links
	c.mu.Unlock()
	c.cancel()
	for _, l := range links {
		l.Close()
	}
	c.wg.Wait()
}

// dump is the last events, for a test that failed.
func (c *Client) dump() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%v of %q, rooms %q, %s:", c.Over, c.ready.User, c.o.Rooms, c.ready.Connection)
	from := max(len(c.events)-12, 0)
	for _, e := range c.events[from:] {
		data := e.Data
		if len(data) > 300 {
			data = append(data[:300:300], "..."...)
		}
		fmt.Fprintf(&b, "\n\t%s #%d %s %s", e.At.Format("05.000"), e.Stream, e.Name, data)
	}
	for _, e := range c.ends {
		fmt.Fprintf(&b, "\n\t%s #%d ended: code %d %q, bye %q, %v", e.At.Format("05.000"), e.Stream, e.Code, e.Reason, e.Bye, e.Err)
	}
	return b.String()
}
