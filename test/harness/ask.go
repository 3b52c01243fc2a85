package harness

import (
	"encoding/json"
	"net/url"
	"time"
)

// Reply is what came of something that a client asked for, over either transport.
type Reply struct {
	OK     bool            `json:"-"`
	Raw    json.RawMessage `json:"-"`
	ID     *int
	Code   string
	Limit  int
	Retry  bool
	Member *Member
}

// Ask sends a message over a WebSocket and waits for the answer. The message is
// an object without its id.
func (c *Client) Ask(message string) *Reply {
	c.t.Helper()
	c.mu.Lock()
	c.asked++
	n := c.asked
	c.mu.Unlock()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(message), &fields); err != nil {
		c.t.Fatalf("%s: %v", message, err)
	}
	// The message goes as it was written: what is in it is the matter of tests.
	rest := message[1:]
	if len(fields) > 0 {
		rest = "," + rest
	}
	c.Send(`{"id":` + jsonOf(n) + rest)
	var r *Reply
	c.Until(8*time.Second, "an answer to "+message, func() bool {
		r = c.answer(n)
		return r != nil
	})
	return r
}

// Set sets status or data of the client in a room: with `set` or with PATCH.
// body is an object such as {"data":{"n":1}}.
func (c *Client) Set(room, body string) *Reply {
	c.t.Helper()
	if c.Over == WS {
		return c.Ask(`{"type":"set","room":` + jsonOf(room) + `,` + body[1:])
	}
	return c.Call("PATCH", room, "", body)
}

// Call asks for something of the client's own connection by HTTP. rest follows
// the path of the connection in the room, or of the connection itself if room is
// "".
func (c *Client) Call(method, room, rest, body string) *Reply {
	c.t.Helper()
	ready := c.Ready()
	path := "/v1/connections/" + url.PathEscape(ready.Connection)
	if room != "" {
		path = ConnectionPath(room, ready.Connection)
	}
	a := c.other().Do(Call{Base: c.o.URL, Method: method, Path: path + rest, Body: body, Resume: ready.Resume})
	if a.Err != nil {
		c.t.Fatalf("%s %s: %v", method, path+rest, a.Err)
	}
	return a.reply()
}

func (a *Answer) reply() *Reply {
	r := &Reply{OK: a.Status/100 == 2, Raw: a.Body}
	if len(a.Body) > 0 {
		json.Unmarshal(a.Body, r)
	}
	r.OK, r.Raw = a.Status/100 == 2, a.Body
	r.Retry = a.Status == 429 || a.Status == 503
	return r
}

// Leave leaves a room.
func (c *Client) Leave(room string) *Reply {
	c.t.Helper()
	if c.Over == WS {
		return c.Ask(`{"type":"leave","room":` + jsonOf(room) + `}`)
	}
	return c.Call("DELETE", room, "", "")
}

// Release ends all leases of the client; closing says that it was a tab that
// closed.
func (c *Client) Release(closing bool) *Reply {
	c.t.Helper()
	return c.Call("POST", "", "/release", jsonOf(map[string]bool{"closing": closing}))
}
