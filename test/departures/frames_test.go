//go:build unix

package departures

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// dialWithin is the patience of clients with a server that does not answer.
const dialWithin = 10 * time.Second

// sse is an event stream over a socket of its own.
type sse struct {
	conn net.Conn
	body *bufio.Reader
}

// dialSSE opens a stream; lastID is sent if it is not "".
func dialSSE(base, pathAndQuery, lastID string) (*sse, error) {
	host := strings.TrimPrefix(base, "http://")
	conn, err := net.DialTimeout("tcp", host, dialWithin)
	if err != nil {
		return nil, err
	}
	head := "GET " + pathAndQuery + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: text/event-stream\r\n"
	if lastID != "" {
		head += "Last-Event-ID: " + lastID + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		conn.Close()
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if res.StatusCode != 200 {
		conn.Close()
		return nil, fmt.Errorf("GET %s: %s", pathAndQuery, res.Status)
	}
	return &sse{conn: conn, body: bufio.NewReaderSize(res.Body, 64<<10)}, nil
}

// event is one event of a stream. With Name "" it is an id or a retry alone.
type event struct {
	Name  string
	Data  []byte
	ID    string
	Retry time.Duration
}

// next reads until the next empty line.
func (s *sse) next() (e event, err error) {
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if e.Name == "" && e.ID == "" && e.Retry == 0 {
				continue // a comment
			}
			return e, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.Name = value
		case "data":
			e.Data = append(e.Data, value...)
		case "id":
			e.ID = value
		case "retry":
			if n, err := strconv.Atoi(value); err == nil {
				e.Retry = time.Duration(n) * time.Millisecond
			}
		}
	}
}

// socket is a WebSocket, frame by frame.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	out  sync.Mutex // held while a frame is written
}

func dialWS(base, query string) (*socket, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
	defer cancel()
	d := ws.Dialer{Protocols: []string{"rollcall.v1"}}
	conn, in, _, err := d.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+"/v1/ws?"+query)
	if err != nil {
		return nil, err
	}
	if in == nil {
		in = bufio.NewReader(conn)
	}
	return &socket{conn: conn, in: in}, nil
}

// next reads one frame and the messages in it, if it is a text.
func (s *socket) next() (f ws.Frame, events []event, err error) {
	if f, err = ws.ReadFrame(s.in); err != nil || f.Header.OpCode != ws.OpText {
		return f, nil, err
	}
	list := []json.RawMessage{f.Payload}
	if bytes.HasPrefix(f.Payload, []byte("[")) {
		if err := json.Unmarshal(f.Payload, &list); err != nil {
			return f, nil, fmt.Errorf("frame %s: %w", f.Payload, err)
		}
	}
	for _, raw := range list {
		var m struct{ Type string }
		if err := json.Unmarshal(raw, &m); err != nil {
			return f, nil, fmt.Errorf("message %s: %w", raw, err)
		}
		events = append(events, event{Name: m.Type, Data: raw})
	}
	return f, events, nil
}

func (s *socket) write(f ws.Frame) error {
	s.out.Lock()
	defer s.out.Unlock()
	return ws.WriteFrame(s.conn, ws.MaskFrameInPlace(f))
}

func (s *socket) send(message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return s.write(ws.NewTextFrame(raw))
}

func (s *socket) pong(payload []byte) error { return s.write(ws.NewPongFrame(payload)) }

func (s *socket) close(code ws.StatusCode) error {
	return s.write(ws.NewCloseFrame(ws.NewCloseFrameBody(code, "")))
}

// query builds a query from pairs; pairs with an empty value are left out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}
