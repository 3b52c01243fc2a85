package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"rollcall"
	"rollcall/wire"
)

const (
	// openWait is the most time for a stream to open, ready included.
	openWait = 10 * time.Second
	// closeWait is the most time for the farewell.
	closeWait = 2 * time.Second
	// stays is how long a stream must have been open to count as good: one that
	// ends at once each time must not be opened at once each time.
	stays = 5 * time.Second
	// silence is how many beats a server may say nothing.
	silence = 1.6
	// readLimit is the most bytes of a message of the server.
	readLimit = 16 << 20

	subprotocol = "rollcall.v1"
)

// run opens streams, one after the other, until the client is closed or must not
// come back.
func (c *Client) run() {
	defer close(c.done)
	failures, tokens := 0, 0
	for {
		s := &stream{client: c}
		e := s.run()
		if s.opened.IsZero() || time.Since(s.opened) < stays {
			failures++
		} else {
			failures, tokens = 0, 0
		}
		if c.closing.Err() != nil {
			c.release()
			return
		}
		c.log.Debug("stream ended", "err", e.err)
		if e.verdict == token {
			if tokens++; !c.renews || tokens > 1 {
				e.verdict = stop
			}
		}
		if e.verdict == stop {
			c.stop(e.err)
			return
		}
		c.lost(e)
		select {
		case <-time.After(backoff(max(failures-1, 0), e, c.random)):
		case <-c.closing.Done():
			c.release()
			return
		}
	}
}

// lost notes the end of a stream that will have a successor.
func (c *Client) lost(e *ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = e.err
	if e.verdict == fresh {
		c.resume = ""
	}
	for _, r := range c.rooms {
		if r.roster.known {
			r.setState(StateReconnecting, e.err)
		}
	}
}

// stop ends everything for good.
func (c *Client) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	for len(c.rooms) > 0 {
		c.end(c.rooms[0], err)
	}
}

// stream is one WebSocket, from its opening to its end. Owned by run, but for
// what says otherwise.
type stream struct {
	client *Client
	conn   *websocket.Conn
	cancel context.CancelFunc
	alive  *time.Timer  // ends a stream whose server is silent
	quiet  atomic.Int64 // how long that may be, a time.Duration
	dead   atomic.Bool  // it was
	opened time.Time    // when ready came; zero before
}

// run runs the stream to its end, and waits for all that it started.
func (s *stream) run() *ending {
	c := s.client
	if e := s.dial(); e != nil {
		return e
	}
	ctx, cancel := context.WithCancel(c.ctx)
	s.cancel = cancel
	s.quiet.Store(int64(openWait))
	s.alive = time.AfterFunc(openWait, func() {
		s.dead.Store(true)
		cancel()
	})
	var writer sync.WaitGroup
	writer.Go(func() { s.write(ctx) })
	e := s.read(ctx)
	cancel()
	s.alive.Stop()
	s.conn.CloseNow() // without a close frame: that would announce that we go
	writer.Wait()
	c.mu.Lock()
	c.open = false
	clear(c.asks)
	c.mu.Unlock()
	return e
}

// dial opens the WebSocket.
func (s *stream) dial() *ending {
	c := s.client
	ctx, cancel := context.WithTimeout(c.closing, openWait)
	defer cancel()
	token, err := c.token(ctx)
	if err != nil {
		return cutOff(fmt.Errorf("get a token: %w", err))
	}
	c.mu.Lock()
	query := url.Values{}
	if c.resume != "" {
		query.Set("resume", c.resume)
	}
	c.mu.Unlock()
	options := &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: make(map[string][]string), Subprotocols: []string{subprotocol},
		OnPingReceived: func(context.Context, []byte) bool { s.proof(); return true },
	}
	c.endpoint.authorize(options.HTTPHeader, token)
	conn, response, err := websocket.Dial(ctx, c.endpoint.at(query, "ws"), options)
	switch {
	case err != nil && response == nil:
		return cutOff(withoutQuery(err))
	case err != nil:
		body, _ := io.ReadAll(response.Body) // the package has read what there is
		return judgeAnswer(response.StatusCode, response.Header, problem(response, body))
	case conn.Subprotocol() != subprotocol:
		conn.CloseNow()
		return stopped(fmt.Errorf("%s does not speak %s", c.endpoint.base, subprotocol))
	}
	conn.SetReadLimit(readLimit)
	s.conn = conn
	return nil
}

// withoutQuery takes the address, which may hold a secret, out of an error.
func withoutQuery(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// proof notes that the server lives.
func (s *stream) proof() { s.alive.Reset(time.Duration(s.quiet.Load())) }

// read handles what the server says until it says no more.
func (s *stream) read(ctx context.Context) *ending {
	for {
		kind, raw, err := s.conn.Read(ctx)
		if err != nil {
			return s.judge(err)
		}
		s.proof()
		if kind != websocket.MessageText {
			continue
		}
		if e := s.hear(raw); e != nil {
			return e
		}
	}
}

// judge judges why the stream can no longer be read.
func (s *stream) judge(err error) *ending {
	var closed websocket.CloseError
	switch {
	case s.dead.Load():
		return cutOff(fmt.Errorf("the server was silent for %v", time.Duration(s.quiet.Load())))
	case errors.As(err, &closed):
		return judgeClose(wire.CloseCode(closed.Code), closed.Reason)
	}
	return cutOff(err)
}

// hear handles one text frame. The stream is over if there is an ending.
func (s *stream) hear(raw []byte) *ending {
	c := s.client
	events, garbled := decodeFrame(raw)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range events {
		switch e := event.(type) {
		case *wire.Ready:
			s.ready(e, now)
		case *wire.Bye:
			return judgeBye(e)
		default:
			c.told(event, now)
		}
	}
	if garbled != nil {
		c.garbled(garbled)
	}
	return nil
}

// decodeFrame reads a text frame; the error is about what could not be read
// besides the events that could.
func decodeFrame(raw []byte) (events []any, garbled error) {
	messages, garbled := wire.DecodeFrame(raw)
	for _, m := range messages {
		event, err := wire.DecodeEvent(m.Event, m.Body)
		if err != nil {
			garbled = err
			continue
		}
		events = append(events, event)
	}
	return events, garbled
}

// ready notes that the stream is open. Called with mu held.
func (s *stream) ready(e *wire.Ready, now time.Time) {
	c := s.client
	if e.Beat > 0 {
		s.quiet.Store(int64(silence * float64(e.Beat)))
		s.proof()
	}
	s.opened = now
	c.resumed = c.resume != "" && e.Connection == c.connection
	c.open, c.lastErr = true, nil
	c.connection, c.resume, c.user = e.Connection, e.Resume, e.User
	for _, r := range c.rooms {
		r.outbox.reopen()
		r.signals.reopen(now)
		r.windows.reopen()
	}
	for len(c.leaving) > 0 && !c.resumed {
		c.heard(c.leaving[0]) // the leases of another connection run out
	}
	for _, l := range c.leaving {
		l.said = false
	}
	c.wakeUp()
}

// write says what there is to say.
func (s *stream) write(ctx context.Context) {
	c := s.client
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		c.mu.Lock()
		var (
			messages []wire.Message
			wait     time.Duration
		)
		if c.open {
			messages, wait = c.collect(time.Now())
		}
		closed, renew := c.closed, c.renew
		c.renew = false
		c.mu.Unlock()
		if renew {
			if token, err := c.token(ctx); err != nil {
				c.log.Debug("token not renewed", "err", err)
			} else {
				messages = append(messages, wire.Message{Type: wire.MessageAuth, Token: token})
			}
		}
		for _, frame := range encodeFrames(messages) {
			if s.say(ctx, frame) != nil {
				s.cancel()
				return
			}
		}
		if closed {
			s.conn.Close(websocket.StatusNormalClosure, "")
			return
		}
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

func (s *stream) say(ctx context.Context, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, frame)
}

// The methods below are called with mu held.

// garbled handles what could not be read: whatever it was may be missing.
func (c *Client) garbled(err error) {
	c.log.Debug("message not understood", "err", err)
	for _, r := range c.rooms {
		if r.roster.known {
			r.outbox.mend()
		}
	}
	c.wakeUp()
}

// told handles an event of a room, or an answer.
func (c *Client) told(event any, now time.Time) {
	switch e := event.(type) {
	case *wire.Snapshot:
		c.toldRoom(e.Room, e, now)
	case *wire.RoomDiff:
		c.toldRoom(e.Room, e, now)
	case *wire.Count:
		c.toldRoom(e.Room, e, now)
	case *wire.Resumed:
		c.toldRoom(e.Room, e, now)
	case *wire.Signals:
		c.toldRoom(e.Room, e, now)
	case *wire.Page:
		c.toldRoom(e.Room, e, now)
	case *wire.Contacts:
		c.toldRoom(e.Room, e, now)
	case *wire.EndedLease:
		c.toldEnded(e)
	case *wire.Expiring:
		c.renew = c.renews
		c.wakeUp()
	case *wire.OK:
		if a, ok := c.answer(e.ID); ok {
			if a.window != nil {
				a.room.takenWindow(a, e.Fields)
			} else {
				c.taken(a, self(e.Fields))
			}
			c.wakeUp()
		}
	case *wire.Failure:
		if a, ok := c.answer(e.ID); ok {
			c.refused(a, &e.Err, e.Retry, now)
			c.wakeUp()
		} else {
			c.log.Debug("server complains", "code", e.Err.Code, "detail", e.Err.Detail)
		}
	}
}

// self is our member as an answer tells it; nil if it does not.
func self(fields json.RawMessage) *rollcall.Member {
	m, _ := wire.DecodePatched(fields) // a lease has it by the same name
	return m
}

func (c *Client) toldRoom(room rollcall.RoomID, event any, now time.Time) {
	if r := c.find(room); r != nil {
		r.told(event, now)
	}
}

// toldEnded handles the end of our own lease. Whoever was sent away, or left by
// another way, stays away; a lease that ran out is asked for again.
func (c *Client) toldEnded(e *wire.EndedLease) {
	r := c.find(e.Room)
	if r == nil {
		return
	}
	r.emit(Change{Kind: KindEnded, Reason: e.Reason, Count: r.roster.size()})
	switch e.Reason {
	case rollcall.ReasonLeft, rollcall.ReasonKicked, rollcall.ReasonRevoked:
		c.end(r, rollcall.Errorf(rollcall.CodeGone, "the lease ended: %s", e.Reason))
	default:
		r.outbox.join = stepNeeded
		c.wakeUp()
	}
}

// answer finds what an answer is for.
func (c *Client) answer(id []byte) (ask, bool) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return ask{}, false
	}
	a, ok := c.asks[n]
	delete(c.asks, n)
	return a, ok
}
