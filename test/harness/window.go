package harness

import (
	"encoding/json"
	"slices"
)

// OpenPage opens a page of a room for the client's stream, by PUT, or by a message
// over a WebSocket. body is an object such as {"limit":50}.
func (c *Client) OpenPage(room, name, body string) *Reply {
	c.t.Helper()
	if c.Over == WS {
		rest := ""
		if body != "{}" {
			rest = "," + body[1:len(body)-1]
		}
		return c.Ask(`{"type":"page","room":` + jsonOf(room) + `,"page":` + jsonOf(name) + rest + `}`)
	}
	return c.Call("PUT", room, "/pages/"+name, body)
}

// Contacts names the contacts of the client in a room.
func (c *Client) Contacts(room string, users ...string) *Reply {
	c.t.Helper()
	if users == nil {
		users = []string{}
	}
	if c.Over == WS {
		return c.Ask(`{"type":"contacts","room":` + jsonOf(room) + `,"users":` + jsonOf(users) + `}`)
	}
	return c.Call("PUT", room, "/contacts", `{"users":`+jsonOf(users)+`}`)
}

// Page is what a client has been told of a page, by user; nil before its start.
type Page struct {
	Users      []string // in no order
	NextCursor *string
	Count      int
	Left       map[string]string // who went off it, and the reason of their leave of the room
}

// Page follows the events of a page of the newest stream.
func (c *Client) Page(room, name string) (p *Page) {
	c.t.Helper()
	stream := c.Streams()
	for _, e := range c.Events("page") {
		var d struct {
			Room, Page            string
			Members, Join, Update []Member
			Leave                 []struct{ User, Reason string }
			NextCursor            *string
			Count                 int
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			c.t.Fatalf("%s: %v", e.Data, err)
		}
		if e.Stream != stream || d.Room != room || d.Page != name {
			continue
		}
		if d.Members != nil {
			p = &Page{Left: make(map[string]string)}
		}
		if p == nil {
			c.t.Fatalf("page %s changes before it begins: %s", name, e.Data)
		}
		for _, l := range d.Leave {
			i := slices.Index(p.Users, l.User)
			if i < 0 {
				c.t.Fatalf("%s goes off page %s and was not on it", l.User, name)
			}
			p.Users = slices.Delete(p.Users, i, i+1)
			p.Left[l.User] = l.Reason
		}
		for _, m := range slices.Concat(d.Members, d.Join) {
			if slices.Contains(p.Users, m.User) {
				c.t.Fatalf("%s comes to page %s and is on it", m.User, name)
			}
			p.Users = append(p.Users, m.User)
		}
		for _, m := range d.Update {
			if !slices.Contains(p.Users, m.User) {
				c.t.Fatalf("%s changes on page %s and is not on it", m.User, name)
			}
		}
		p.NextCursor, p.Count = d.NextCursor, d.Count
	}
	return p
}

// ContactsTold is what the newest stream was told of contacts by events: who came
// and who went, by user.
func (c *Client) ContactsTold(room string) map[string]bool {
	c.t.Helper()
	told := make(map[string]bool)
	stream := c.Streams()
	for _, e := range c.Events("contacts") {
		var d struct {
			Room    string
			Present []Member
			Absent  []string
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			c.t.Fatalf("%s: %v", e.Data, err)
		}
		if e.Stream != stream || d.Room != room {
			continue
		}
		for _, m := range d.Present {
			told[m.User] = true
		}
		for _, user := range d.Absent {
			told[user] = false
		}
	}
	return told
}
