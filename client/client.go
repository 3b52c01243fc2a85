package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// Errors of the client itself.
var (
	// ErrClosed is returned by calls on a client that was closed.
	ErrClosed = errors.New("client: closed")
	// ErrLeft is returned by calls on a room that was left.
	ErrLeft = errors.New("client: the room was left")
)

// Options are the settings of a [Client]. URL is required.
type Options struct {
	// URL of the server, such as https://presence.example.com; the scheme may
	// also be ws or wss, and a path is a prefix.
	URL string

	// Token is a JWT of the application.
	Token string
	// TokenFunc, if not nil, takes the place of Token: it is asked for a token
	// before each connection and each read, and again shortly before the token
	// of a connection ends. It may be called concurrently.
	TokenFunc func(context.Context) (string, error)
	// APIKey is an sk_ key, for back ends. It takes the place of Token. A back
	// end reads; it has no presence of its own, so it cannot enter rooms.
	APIKey string
	// User and Name are those of a guest, for a server that takes guests; both
	// may be left out. They count only without Token, TokenFunc and APIKey.
	User rollcall.UserID
	Name string

	// HTTPClient is used for everything; nil is one of its own. A Timeout of it
	// bounds the opening of a connection, not its life.
	HTTPClient *http.Client
	// Logger is told, at debug level, what the application need not know; nil
	// discards it. Tokens are never logged.
	Logger *slog.Logger
}

// Client talks to one server. Safe for concurrent use. Its connection is opened
// when the first room is entered, and kept until Close.
type Client struct {
	endpoint *endpoint
	token    func(context.Context) (string, error)
	renews   bool // there is a TokenFunc
	http     *http.Client
	ownHTTP  bool // nobody else uses it
	log      *slog.Logger
	random   func() float64

	ctx     context.Context // ends the stream at once, without a farewell
	cancel  context.CancelFunc
	closing context.Context // ends the wait between streams, and their opening
	goodbye context.CancelFunc
	wake    chan struct{} // of capacity 1: there may be something to say
	done    chan struct{} // closed when run has returned

	mu sync.Mutex // guards the rest, and what rooms say it guards

	started, closed bool
	failed          error // why the client has stopped for good
	lastErr         error // why the last stream ended or did not open

	// The connection, as the server knows it.
	user       rollcall.UserID
	connection rollcall.ConnectionID
	resume     string // its secret; "" if there is nothing to resume

	// The stream.
	open    bool // ready has come
	resumed bool // the server knew the connection
	renew   bool // the token ends soon
	asked   int64
	asks    map[int64]ask

	rooms   []*Room // in the order of entering
	leaving []*leaving
}

// New makes a client. It does not connect: the error is one of the options.
func New(o Options) (*Client, error) {
	e, err := newEndpoint(&o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint: e, token: o.TokenFunc, renews: o.TokenFunc != nil,
		http: o.HTTPClient, log: o.Logger, random: rand.Float64,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		asks: make(map[int64]ask),
	}
	if c.token == nil {
		c.token = func(context.Context) (string, error) { return o.Token, nil }
	}
	if c.http == nil {
		c.ownHTTP = true
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.closing, c.goodbye = context.WithCancel(c.ctx)
	return c, nil
}

// User is who the server says we are; "" before the first connection.
func (c *Client) User() rollcall.UserID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user
}

// Connection is the id of our connection; "" before the first.
func (c *Client) Connection() rollcall.ConnectionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connection
}

// EnterOptions say what to be in a room. The zero value is present and active.
type EnterOptions struct {
	// Status is active if not given.
	Status rollcall.Status
	// Data is a JSON object; nil for none.
	Data json.RawMessage
	// Observe watches the room without being in it. Status and Data are ignored.
	Observe bool
}

// Enter enters a room and waits until its roster is there. While the server
// cannot be reached, it tries until ctx ends; the error then wraps that of ctx
// and that of the last try. What the server refuses is a [*rollcall.Error]. A
// room can be entered once at a time ([rollcall.CodeConflict]).
func (c *Client) Enter(ctx context.Context, room rollcall.RoomID, o EnterOptions) (*Room, error) {
	r, err := c.enter(room, o)
	if err != nil {
		return nil, fmt.Errorf("enter room %q: %w", room, err)
	}
	select {
	case <-r.entered:
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.state == StateOver {
			return nil, fmt.Errorf("enter room %q: %w", room, r.whyOver())
		}
		return r, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.state != StateOver {
			c.leave(r)
		}
		why := c.lastErr
		if c.open {
			why = r.outbox.refusal
		}
		if why != nil {
			return nil, fmt.Errorf("enter room %q: %w: %w", room, ctx.Err(), why)
		}
		return nil, fmt.Errorf("enter room %q: %w", room, ctx.Err())
	}
}

func (c *Client) enter(room rollcall.RoomID, o EnterOptions) (*Room, error) {
	if err := checkRoom(room); err != nil {
		return nil, err
	}
	w := wish{status: o.Status}
	if w.status == rollcall.StatusUnset {
		w.status = rollcall.StatusActive
	}
	if o.Data != nil {
		data, err := wire.Object(o.Data, 0)
		if err != nil {
			return nil, err
		}
		w.data = data
	}
	if o.Observe {
		w = wish{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.failed != nil:
		return nil, c.failed
	case c.find(room) != nil:
		return nil, rollcall.Errorf(rollcall.CodeConflict, "the room is entered already")
	}
	r := &Room{client: c, id: room, observe: o.Observe, entered: make(chan struct{}), over: make(chan struct{})}
	r.outbox.wish, r.outbox.rev = w, 1
	c.rooms = append(c.rooms, r)
	if !c.started {
		c.started = true
		go c.run()
	}
	c.wakeUp()
	return r, nil
}

// Close leaves every room and waits until the server has heard of it, though no
// longer than two seconds. Nothing of the client runs afterwards.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	for _, r := range slices.Clone(c.rooms) {
		c.leave(r)
	}
	if first && !c.started {
		close(c.done)
	}
	c.wakeUp()
	c.mu.Unlock()

	c.goodbye()
	hurry := time.AfterFunc(closeWait, c.cancel)
	<-c.done
	hurry.Stop()
	c.cancel()
	if c.ownHTTP {
		c.http.CloseIdleConnections()
	}
	return nil
}

// The methods below are called with mu held.

func (c *Client) find(room rollcall.RoomID) *Room {
	for _, r := range c.rooms {
		if r.id == room {
			return r
		}
	}
	return nil
}

// leave leaves a room; the channel is closed when the server has heard.
func (c *Client) leave(r *Room) <-chan struct{} {
	l := &leaving{room: r.id, told: make(chan struct{})}
	if r.outbox.join == stepNeeded && !r.roster.known {
		close(l.told) // it never heard of us
	} else {
		c.leaving = append(c.leaving, l)
	}
	c.end(r, nil)
	c.wakeUp()
	return l.told
}

// heard notes that the server knows we left.
func (c *Client) heard(l *leaving) {
	if i := slices.Index(c.leaving, l); i >= 0 {
		c.leaving = slices.Delete(c.leaving, i, i+1)
		close(l.told)
	}
}

// end makes a room over.
func (c *Client) end(r *Room, err error) {
	c.rooms = slices.DeleteFunc(c.rooms, func(other *Room) bool { return other == r })
	r.setState(StateOver, err)
}

// wakeUp tells the writer of the stream that there may be something to say.
func (c *Client) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
