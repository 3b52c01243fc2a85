package harness

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Ready is the newest `ready`.
func (c *Client) Ready() Ready {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// LastEventID is what the client would send as Last-Event-ID.
func (c *Client) LastEventID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// Retry is the reconnection time that the server asked for last.
func (c *Client) Retry() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retry
}

// Events are the events of these names, or all.
func (c *Client) Events(names ...string) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(names) == 0 {
		return slices.Clone(c.events)
	}
	var list []Event
	for _, e := range c.events {
		if slices.Contains(names, e.Name) {
			list = append(list, e)
		}
	}
	return list
}

// Ends are the ends of its streams.
func (c *Client) Ends() []End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ends)
}

// Streams is how many streams the client has opened.
func (c *Client) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// Open reports whether the newest stream is open.
func (c *Client) Open() bool {
	st := c.current()
	if st == nil {
		return false
	}
	select {
	case <-st.over:
		return false
	default:
		return true
	}
}

// Changes are the changes of a user in a room, in order; "" is any.
func (c *Client) Changes(room, user string) []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Change
	for _, ch := range c.lists.changes {
		if (room == "" || ch.Room == room) && (user == "" || ch.User == user) {
			list = append(list, ch)
		}
	}
	return list
}

func (c *Client) kind(kind, room, user string) []Change {
	return slices.DeleteFunc(c.Changes(room, user), func(ch Change) bool { return ch.Kind != kind })
}

// Joins are the joins among the changes.
func (c *Client) Joins(room, user string) []Change { return c.kind("join", room, user) }

// Leaves are the leaves among the changes.
func (c *Client) Leaves(room, user string) []Change { return c.kind("leave", room, user) }

// Updates are the updates among the changes.
func (c *Client) Updates(room, user string) []Change { return c.kind("update", room, user) }

// List is a copy of what the client knows of a room; nil if nothing.
func (c *Client) List(room string) *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists.rooms[room]
	if l == nil {
		return nil
	}
	copied := *l
	copied.Members = maps.Clone(l.Members)
	return &copied
}

// Has reports whether a user is on the client's list of a room.
func (c *Client) Has(room, user string) bool {
	_, ok := c.Member(room, user)
	return ok
}

// Member is a member of the client's list of a room.
func (c *Client) Member(room, user string) (Member, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists.rooms[room]
	if l == nil {
		return Member{}, false
	}
	m, ok := l.Members[user]
	return m, ok
}

// Forget drops the record of events so far, but not what the client knows.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events, c.lists.changes = nil, nil
}

// answer is the answer to message n, if it has come.
func (c *Client) answer(n int) (a *Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.events) - 1; i >= 0; i-- {
		e := &c.events[i]
		if e.Name != "ok" && e.Name != "error" && e.Name != "pong" {
			continue
		}
		var r Reply
		if json.Unmarshal(e.Data, &r) == nil && r.ID != nil && *r.ID == n {
			r.OK, r.Raw = e.Name != "error", e.Data
			return &r
		}
	}
	return nil
}
