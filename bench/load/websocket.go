package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// WS is a WebSocket that does what a browser does for it by itself: answer pings
// and close frames. Reading and writing may go on in two goroutines, but the
// answers come from the one that reads.
type WS struct {
	conn net.Conn
	in   *bufio.Reader
}

const upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: rollcall.v1\r\n"

// DialWS opens a WebSocket.
func DialWS(addr string, as Login, buffer int) (*WS, error) {
	conn, in, err := dial(addr, "/v1/ws", "", as, upgrade, "101", buffer)
	if err != nil {
		return nil, err
	}
	return &WS{conn, in}, nil
}

// Close cuts the connection, without a word.
func (c *WS) Close() error { return c.conn.Close() }

// Send writes one masked frame. The mask is 0, which is one.
func (c *WS) Send(op byte, payload []byte) error {
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

// Join enters a room. epoch and version are what is held of it, "" and 0 if
// nothing is.
func (c *WS) Join(room, epoch string, version int) error {
	b := strconv.AppendQuote([]byte(`{"type":"join","room":`), room)
	if epoch != "" {
		b = fmt.Appendf(b, `,"since":{"epoch":%q,"version":%d}`, epoch, version)
	}
	return c.Send(1, append(b, '}'))
}

// Leave leaves the room and closes.
func (c *WS) Leave(room string) {
	c.Send(1, fmt.Appendf(nil, `{"type":"leave","room":%q}`, room))
	c.Send(8, []byte{0x03, 0xe8})
	c.conn.Close()
}

// Read reads until the end.
func (c *WS) Read(h Heard) error {
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
			c.Send(8, p)
			return io.EOF
		case 9:
			if err := c.Send(10, p); err != nil {
				return err
			}
		}
		if _, err := c.in.Discard(n); err != nil {
			return err
		}
	}
}
