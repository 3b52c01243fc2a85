package load

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"time"
)

// SSE is an event stream. One goroutine reads it; Close may be called from
// another.
type SSE struct {
	conn       net.Conn
	in         *bufio.Reader
	addr       string
	calls      *Calls        // for beats; nil until the first
	ID         []byte        // the last id, to go on from: see [DialSSE]
	Retry      time.Duration // as the server asked
	Connection string        // of `ready`
	Resume     string        // of `ready`
}

// DialSSE opens a stream of a room; query may hold beat=1. last is the id of the
// last stream; nil for the first.
func DialSSE(addr, room, query string, as Login, last []byte, buffer int) (*SSE, error) {
	header := "Accept: text/event-stream\r\n"
	if last != nil {
		header += "Last-Event-ID: " + string(last) + "\r\n"
	}
	conn, in, err := dial(addr, "/v1/rooms/"+room+"/stream", query, as, header, "200", buffer)
	if err != nil {
		return nil, err
	}
	return &SSE{conn: conn, in: in, addr: addr}, nil
}

// line reads one line, cut to the buffer.
func (c *SSE) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
	line = bytes.Clone(line[:min(len(line), BufferSmall)])
	for err == bufio.ErrBufferFull {
		_, err = c.in.ReadSlice('\n')
	}
	return line, err
}

// Read reads until the end. keep has it remember the ids, for a reconnect.
func (c *SSE) Read(keep bool, h Heard) error {
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
				c.Connection, c.Resume = Text(value, "connection"), Text(value, "resume")
			}
			h(kind, value)
		case "id":
			if keep {
				c.ID = append(c.ID[:0], value...)
			}
		case "retry":
			ms, _ := strconv.Atoi(string(value))
			c.Retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// Beat answers a beat. Called by the goroutine that reads.
func (c *SSE) Beat(body []byte) error {
	if c.calls == nil {
		calls, err := DialCalls(c.addr)
		if err != nil {
			return err
		}
		c.calls = calls
	}
	if err := c.calls.Post(c.Connection, c.Resume, "beat", body); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}

// Close ends the stream as a browser does that goes elsewhere.
func (c *SSE) Close() error {
	if c.calls != nil {
		c.calls.Close()
	}
	return c.conn.Close()
}
