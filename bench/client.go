package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// heard is called for every event that a client reads, in its reading goroutine.
// body is good during the call only, and cut where it is longer than the
// client's buffer.
type heard func(kind, body []byte)

// Sizes of a client's buffer: enough for what it has to answer, and enough for
// whole rosters.
const (
	bufferSmall = 2 << 10
	bufferWhole = 64 << 10
)

// wsClient is a WebSocket that does what a browser does for it by itself:
// answer pings and close frames. Reading and writing may go on in two
// goroutines, but the answers come from the one that reads.
type wsClient struct {
	conn net.Conn
	in   *bufio.Reader
}

// dialWS opens a WebSocket as a user.
func dialWS(addr, user string, buffer int) (*wsClient, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &wsClient{conn: conn, in: bufio.NewReaderSize(conn, buffer)}
	fmt.Fprintf(conn, "GET /v1/ws?user=%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: rollcall.v1\r\n\r\n",
		url.QueryEscape(user), addr)
	if err := awaitHead(conn, c.in, "101"); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// answerWithin is how long a server may take to answer.
const answerWithin = 10 * time.Second

// awaitHead reads the head of an answer that has to come soon.
func awaitHead(conn net.Conn, in *bufio.Reader, status string) error {
	conn.SetReadDeadline(time.Now().Add(answerWithin))
	defer conn.SetReadDeadline(time.Time{})
	return readHead(in, status)
}

func readHead(in *bufio.Reader, status string) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.Contains(line, []byte(" "+status+" ")) {
		return fmt.Errorf("answer is %q", bytes.TrimSpace(line))
	}
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}

// send writes one masked frame. The mask is 0, which is one.
func (c *wsClient) send(op byte, payload []byte) error {
	b := make([]byte, 0, 8+len(payload))
	b = append(b, 0x80|op)
	if n := len(payload); n < 126 {
		b = append(b, 0x80|byte(n))
	} else {
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	}
	b = append(b, 0, 0, 0, 0)
	_, err := c.conn.Write(append(b, payload...))
	return err
}

func (c *wsClient) join(room string) error {
	return c.send(1, fmt.Appendf(nil, `{"type":"join","room":%q}`, room))
}

// leave leaves the room and closes.
func (c *wsClient) leave(room string) {
	c.send(1, fmt.Appendf(nil, `{"type":"leave","room":%q}`, room))
	c.send(8, []byte{0x03, 0xe8})
	c.conn.Close()
}

// read reads until the end.
func (c *wsClient) read(h heard) error {
	for {
		head, err := c.in.Peek(2)
		if err != nil {
			return err
		}
		op, n := head[0]&0x0f, int(head[1]&0x7f)
		size := 2
		switch n {
		case 126:
			if head, err = c.in.Peek(4); err != nil {
				return err
			}
			size, n = 4, int(binary.BigEndian.Uint16(head[2:]))
		case 127:
			if head, err = c.in.Peek(10); err != nil {
				return err
			}
			size, n = 10, int(binary.BigEndian.Uint64(head[2:]))
		}
		c.in.Discard(size)
		shown := min(n, c.in.Size())
		p, err := c.in.Peek(shown)
		if err != nil {
			return err
		}
		switch op {
		case 1:
			if kind, ok := bytes.CutPrefix(p, []byte(`{"type":"`)); ok {
				if i := bytes.IndexByte(kind, '"'); i > 0 {
					h(kind[:i], p)
				}
			}
		case 8:
			c.send(8, p)
			return io.EOF
		case 9:
			if err := c.send(10, p); err != nil {
				return err
			}
		}
		if _, err := c.in.Discard(n); err != nil {
			return err
		}
	}
}

// sseClient is an event stream.
type sseClient struct {
	conn       net.Conn
	in         *bufio.Reader
	addr       string
	id         []byte        // the last id
	retry      time.Duration // as the server asked
	connection string        // of ready
	resume     string        // of ready
	calls      net.Conn      // keep-alive, for beats and releases; nil until used
	callsIn    *bufio.Reader
}

// dialSSE opens a stream of a room; query may hold beat=1. last is the id of the
// last stream; nil for the first.
func dialSSE(addr, room, user, query string, last []byte, buffer int) (*sseClient, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &sseClient{conn: conn, in: bufio.NewReaderSize(conn, buffer), addr: addr}
	if last != nil {
		last = fmt.Appendf(nil, "Last-Event-ID: %s\r\n", last)
	}
	fmt.Fprintf(conn, "GET /v1/rooms/%s/stream?user=%s%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s\r\n",
		room, url.QueryEscape(user), query, addr, last)
	if err := awaitHead(conn, c.in, "200"); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// line reads one line, cut to the buffer.
func (c *sseClient) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
	line = bytes.Clone(line[:min(len(line), bufferSmall)])
	for err == bufio.ErrBufferFull {
		_, err = c.in.ReadSlice('\n')
	}
	return line, err
}

// read reads until the end. keep has it remember the ids, for a reconnect.
func (c *sseClient) read(keep bool, h heard) error {
	var kind []byte
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch string(field) {
		case "event":
			kind = append(kind[:0], value...)
		case "data":
			if string(kind) == "ready" {
				c.connection, c.resume = member(value, "connection"), member(value, "resume")
			}
			h(kind, value)
		case "id":
			if keep {
				c.id = append(c.id[:0], value...)
			}
		case "retry":
			ms, _ := strconv.Atoi(string(value))
			c.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// beat answers a beat.
func (c *sseClient) beat(body []byte) error { return c.call("beat", body) }

// release leaves the room.
func (c *sseClient) release() error { return c.call("release", []byte("{}")) }

// call POSTs what only the connection may ask, on a socket that stays.
func (c *sseClient) call(verb string, body []byte) error {
	if c.calls == nil {
		conn, err := net.DialTimeout("tcp", c.addr, 10*time.Second)
		if err != nil {
			return err
		}
		c.calls, c.callsIn = conn, bufio.NewReaderSize(conn, 512)
	}
	return post(c.calls, c.callsIn, c.addr, c.connection, c.resume, verb, body)
}

func post(conn net.Conn, in *bufio.Reader, addr, connection, resume, verb string, body []byte) error {
	_, err := fmt.Fprintf(conn, "POST /v1/connections/%s/%s HTTP/1.1\r\nHost: %s\r\nRollcall-Resume: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", connection, verb, addr, resume, len(body), body)
	if err != nil {
		return err
	}
	return awaitHead(conn, in, "204")
}

func (c *sseClient) close() {
	c.conn.Close()
	if c.calls != nil {
		c.calls.Close()
	}
}

// member is a member of a flat JSON object whose value is a plain string.
func member(object []byte, name string) string {
	_, rest, _ := bytes.Cut(object, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}
