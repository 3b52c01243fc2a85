package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/gobwas/ws"
)

// WebSocketHandler is what is called for what a client sends. The calls of one
// WebSocket come one after the other. p is good during the call only, and may be
// changed.
//
// No call is made once Close or CloseAfter was called (one that is under way is
// not waited for).
type WebSocketHandler interface {
	// Message is called with a text message: valid UTF-8, all its fragments.
	// It may go as deep as it likes: on a plain connection it runs on another
	// goroutine's stack, which the connection does not keep.
	Message(p []byte)
	// Ping is called with the payload of a ping, 0 to 125 bytes, which the
	// caller answers by a pong with the same payload.
	Ping(p []byte)
	// Pong is called with the payload of a pong, 0 to 125 bytes. It may be
	// unsolicited.
	//
	// A ping or pong that comes alone is handled on the stack of the idle
	// connection. As long as the handler, and what called Read, use no more
	// than about 600 bytes of it together, that stack stays at 2 KiB; beyond,
	// it takes 4 for the rest of the connection's life.
	Pong(p []byte)
	// Steady reports whether the client goes on saying what can wait for the next
	// round. It is asked, if there are [Rounds], each time before the WebSocket
	// waits for more, on the stack of the idle connection.
	Steady() bool
}

// WebSocket is the server's side of one WebSocket. It implements [Conn]: what is
// written is complete unmasked frames.
type WebSocket struct {
	socket
	max     int
	pending []byte  // what came behind the request. Owned by Read
	parser  *parser // unfinished frame or message; nil between messages. Owned by Read
	rounds  *Rounds // static; nil: there are none
	seat    *seat   // nil if it is no member of them. Owned by Read
}

var _ Conn = (*WebSocket)(nil)

// Detached implements [Conn]: true.
func (c *WebSocket) Detached() bool { return true }

// Read reads what the client sends, calls h, and returns how the stream ended.
// It is called once, and best in a fresh goroutine after the HTTP handler has
// returned: one that has done nothing else before, since a stack that has grown
// does not shrink to the smallest again. A panic in h goes on in the goroutine
// that called Read, as a [*HandlerPanic] if h was running on another stack; the
// connection stays open.
//
// After Closed or Violation the write side is still open: the caller writes its
// close frame and calls CloseAfter. After Cut it calls Close. After Local
// nothing is left to be done.
func (c *WebSocket) Read(h WebSocketHandler) (end End) {
	var in input
	if !c.readBegin(&in) {
		return End{Kind: Local}
	}
	defer c.readDone(&in, &end) // also if h panics
	c.read(&in, h, &end)
	return end
}

// readBegin is the beginning of Read; false if the stream has ended before.
//
//go:noinline
func (c *WebSocket) readBegin(in *input) bool {
	if c.state.Or(stateReading)&(stateClosed|stateClosing) != 0 {
		c.Close()
		return false
	}
	*in = c.input()
	if c.raw != nil {
		workers.join()
	}
	return true
}

// read is Read until something ends it. Its frame, and that of Read, are small on
// purpose (readBegin is not inlined for that): they are what each idle connection
// has on its stack.
func (c *WebSocket) read(in *input, h WebSocketHandler, end *End) {
	p := c.pending
	c.pending = nil
	for {
		if c.state.Load()&(stateClosed|stateClosing) != 0 {
			end.Kind = Local
			return
		}
		if len(p) > 0 && !c.control(p, h) {
			if c.feed(p, h, end); end.Kind != 0 {
				return
			}
		}
		if p, end.Err = c.next(in, h); end.Err != nil {
			end.Kind = Cut
			return
		}
	}
}

// next waits for bytes, or for its turn in the rounds.
func (c *WebSocket) next(in *input, h WebSocketHandler) ([]byte, error) {
	for c.rounds != nil && in.raw != nil && h.Steady() {
		if !in.raw.full() {
			in.raw.release()
			if !c.rounds.await(c) {
				break
			}
		}
		if p, err := in.raw.poll(); len(p) > 0 || err != nil {
			return p, err
		}
	}
	if c.seat != nil {
		c.rounds.leave(c)
	}
	return in.read()
}

// control handles p if it is one whole, correct ping or pong between two
// messages: the answer to a beat, that is, all that most connections ever send.
// It spares them the parser, and the depth of its stack.
func (c *WebSocket) control(p []byte, h WebSocketHandler) bool {
	const fin, mask = 0x80, 0x80
	const ping, pong = fin | byte(ws.OpPing), fin | byte(ws.OpPong)
	if c.parser != nil || len(p) < 6 || p[0] != ping && p[0] != pong ||
		p[1]&mask == 0 || int(p[1]&^mask) != len(p)-6 || len(p)-6 > ws.MaxControlFramePayloadSize {
		return false
	}
	key, payload := p[2:6], p[6:]
	for i := range payload {
		payload[i] ^= key[i&3]
	}
	if p[0] == pong {
		h.Pong(payload)
	} else {
		h.Ping(payload)
	}
	return true
}

// readDone is the end of Read. CloseAfter leaves the rest to a reader that it
// finds; once the bit is cleared it finds none.
func (c *WebSocket) readDone(in *input, end *End) {
	if c.seat != nil {
		c.rounds.leave(c)
	}
	if end.Kind == Closed {
		c.state.Or(statePeerEnd)
	}
	state := c.state.And(^uint32(stateReading))
	if state&stateClosing != 0 && state&stateClosed == 0 {
		if end.Kind != Cut {
			discard(in)
		}
		c.Close()
	}
	if state&(stateClosed|stateClosing) != 0 {
		*end = End{Kind: Local}
	}
	in.release()
	if c.raw != nil {
		workers.leave()
	}
}

// feed gives p to the parser.
func (c *WebSocket) feed(p []byte, h WebSocketHandler, end *End) {
	if c.parser == nil {
		c.parser = newParser(c.max, &c.state)
	}
	if c.raw == nil {
		*end = c.parser.feed(p, h)
	} else {
		workers.do(job{c.parser, p, h, end})
	}
	if c.parser.clean() {
		c.parser.free()
		c.parser = nil
	}
}

// CloseAfter ends the stream so that the client sees what was written last, its
// close frame: it says that nothing more will be written, and closes when the
// client has closed its side, or after d. To close at once would not do: if
// bytes of the client are unread, the kernel resets the connection, and the
// reset can overtake the close frame.
//
// It does not wait itself. A running Read does, ignoring what comes in, and
// returns Local. If the client has sent its close frame there is nothing to wait
// for. Only after a Violation, when nobody reads any more, a goroutine stays
// until the client has closed, for d at most.
func (c *WebSocket) CloseAfter(d time.Duration) {
	if d <= 0 {
		c.Close()
		return
	}
	if c.state.Load()&(stateClosed|stateClosing) != 0 {
		return // the first call has set the time
	}
	// The deadline comes before the bit: a reader that sees the bit finds the
	// deadline too.
	c.conn.SetReadDeadline(time.Now().Add(d))
	state := c.state.Or(stateClosing)
	if state&(stateClosed|stateClosing) != 0 {
		return
	}
	if state&stateReading == 0 && state&statePeerEnd != 0 || !c.closeWrite() {
		c.Close()
		return
	}
	if state&stateReading == 0 {
		go c.linger()
	}
}

// closeWrite ends the write side; false if that cannot be done, or not without
// waiting.
func (c *WebSocket) closeWrite() bool {
	switch conn := c.conn.(type) {
	case *tls.Conn:
		return writable(conn.NetConn()) && conn.CloseWrite() == nil
	case interface{ CloseWrite() error }:
		err := conn.CloseWrite()
		return err == nil || errors.Is(err, net.ErrClosed)
	}
	return false
}

// linger closes when the client has closed, or at the read deadline.
func (c *WebSocket) linger() {
	in := c.input()
	discard(&in)
	in.release()
	c.Close()
}

// discard reads until the end or the deadline.
func discard(in *input) {
	for {
		if _, err := in.read(); err != nil {
			return
		}
	}
}
