package harness

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Opcodes of frames.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

// socket writes and reads the frames of a WebSocket by hand.
type socket struct {
	conn net.Conn
	in   *bufio.Reader

	mu sync.Mutex // held while writing
}

// write writes one whole frame.
func (w *socket) write(op byte, payload []byte) error { return w.writeRaw(0x80|op, payload) }

// writeRaw writes a frame whose first byte is given.
func (w *socket) writeRaw(head byte, payload []byte) error {
	b := []byte{head}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	var key [4]byte
	rand.Read(key[:])
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i&3])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.conn.Write(b)
	return err
}

// read reads one frame. The server is never to fragment or mask.
func (w *socket) read() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return 0, nil, err
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		return 0, nil, fmt.Errorf("a frame that begins with %x", head)
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(w.in, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(w.in, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return 0, nil, err
	}
	if n > 64<<20 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(w.in, payload)
	return head[0] & 0x0f, payload, err
}

// dialWS makes the handshake.
func (c *Client) dialWS(no int, first bool) (*stream, *Answer) {
	u, err := url.Parse(c.base())
	if err != nil {
		return nil, &Answer{Err: err}
	}
	q := c.query()
	if resume := c.resume(first); resume != "" {
		q.Set("resume", resume)
	}
	before := c.linkCount()
	conn, err := c.dial(c.ctx, "tcp", u.Host)
	if err != nil {
		return nil, &Answer{Err: err}
	}
	l := c.linkAt(before)
	if u.Scheme == "https" {
		config := c.s.tls.Clone()
		config.NextProtos = []string{"http/1.1"}
		config.ServerName = u.Hostname()
		conn = tls.Client(conn, config)
	}
	var key [16]byte
	rand.Read(key[:])
	req, _ := http.NewRequest("GET", u.Scheme+"://"+u.Host+"/v1/ws?"+q.Encode(), nil)
	req.Header = c.header()
	protocols := "rollcall.v1"
	if c.o.TokenBy == "subprotocol" {
		protocols += ", bearer." + c.o.Token
	}
	for k, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": base64.StdEncoding.EncodeToString(key[:]), "Sec-WebSocket-Protocol": protocols,
	} {
		req.Header.Set(k, v)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := req.Write(conn); err != nil {
		conn.Close()
		return nil, &Answer{Err: err}
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		conn.Close()
		return nil, &Answer{Err: err}
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		body, err := io.ReadAll(res.Body)
		conn.Close()
		return nil, &Answer{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
	}
	conn.SetDeadline(time.Time{})
	return &stream{no: no, link: l, res: res, ws: &socket{conn: conn, in: in}, over: make(chan struct{})}, nil
}

func (c *Client) resume(first bool) string {
	if first {
		return c.o.Resume
	}
	return c.Ready().Resume
}

// greet says who the client is, if that is to be said, and enters its rooms.
func (c *Client) greet(st *stream, first bool) {
	if c.o.Quiet {
		return
	}
	if c.o.TokenBy == "message" {
		c.Send(fmt.Sprintf(`{"type":"auth","token":%q}`, c.o.Token))
	}
	var joins []string
	for _, room := range c.o.Rooms {
		j := map[string]any{"type": "join", "room": room}
		if c.o.Observe {
			j["observe"] = true
		}
		if first && c.o.Status != "" {
			j["status"] = c.o.Status
		}
		if first && c.o.Data != "" {
			j["data"] = json.RawMessage(c.o.Data)
		}
		epoch, version, ok := strings.Cut(c.o.Since, ".")
		if l := c.List(room); !first && l != nil {
			j["since"] = map[string]any{"epoch": l.Epoch, "version": l.Version}
		} else if n, err := strconv.ParseInt(version, 10, 64); first && ok && err == nil {
			j["since"] = map[string]any{"epoch": epoch, "version": n}
		}
		joins = append(joins, jsonOf(j))
	}
	if len(joins) > 0 {
		st.ws.write(opText, []byte("["+strings.Join(joins, ",")+"]"))
	}
}

func jsonOf(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// readWS reads frames until the WebSocket ends.
func (c *Client) readWS(st *stream) {
	defer st.link.Close()
	var end End
	for {
		op, payload, err := st.ws.read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				end.Err = err
			}
			c.finished(st, end)
			return
		}
		switch op {
		case opText:
			c.text(st, payload)
		case opPing:
			c.mu.Lock()
			silent := c.silent
			c.mu.Unlock()
			if !silent {
				st.ws.write(opPong, payload)
			}
			c.record(st, "(ping)", nil)
		case opPong:
			c.record(st, "(pong)", payload)
		case opClose:
			if len(payload) >= 2 {
				end.Code, end.Reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
			} else {
				end.Code = 1005
			}
			st.ws.write(opClose, payload)
		default:
			c.mu.Lock()
			c.lists.faults = append(c.lists.faults, fmt.Sprintf("a frame of opcode %d", op))
			c.mu.Unlock()
		}
	}
}

// text takes a text frame: one object or an array of them.
func (c *Client) text(st *stream, payload []byte) {
	list := []json.RawMessage{payload}
	if len(payload) > 0 && payload[0] == '[' {
		list = nil
		json.Unmarshal(payload, &list)
	}
	for _, raw := range list {
		var m struct{ Type string }
		if err := json.Unmarshal(raw, &m); err != nil || m.Type == "" {
			c.mu.Lock()
			c.lists.faults = append(c.lists.faults, fmt.Sprintf("a message that is none: %q", payload))
			c.mu.Unlock()
			return
		}
		c.record(st, m.Type, raw)
	}
}

// Send sends a text frame as it is.
func (c *Client) Send(text string) {
	var m struct{ Type, Room string }
	if json.Unmarshal([]byte(text), &m) == nil {
		c.mu.Lock()
		c.lists.ask(m.Type, m.Room)
		c.mu.Unlock()
	}
	c.SendFrame(opText, []byte(text))
}

// SendFrame sends a whole frame of an opcode.
func (c *Client) SendFrame(op byte, payload []byte) { c.current().ws.write(op, payload) }

// SendBytes sends bytes that need not be a frame.
func (c *Client) SendBytes(b []byte) {
	ws := c.current().ws
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.conn.Write(b)
}

// Pong sends an unsolicited pong.
func (c *Client) Pong(payload []byte) { c.SendFrame(opPong, payload) }

// Ping sends a ping.
func (c *Client) Ping(payload []byte) { c.SendFrame(opPing, payload) }
