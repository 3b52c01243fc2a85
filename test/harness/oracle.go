package harness

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rest checks that everything is as it has to be while nothing happens: every
// list that a client has built from events is the roster, and every count is its
// length. The end of every test does the same.
func (s *Server) Rest() {
	s.t.Helper()
	for _, c := range s.all() {
		if !c.watching() {
			continue
		}
		for _, room := range c.rooms() {
			why := ""
			if !c.holds(3*time.Second, func() bool { why = c.differs(room); return why == "" }) {
				s.t.Errorf("at rest the list of room %q is not the truth: %s\n%s", room, why, c.dump())
			}
		}
	}
}

func (s *Server) all() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients)
}

// watching reports whether the client sees what happens.
func (c *Client) watching() bool {
	st := c.current()
	return c.Open() && st.link.passes()
}

func (c *Client) rooms() (rooms []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.lists.rooms {
		rooms = append(rooms, r)
	}
	slices.Sort(rooms)
	return rooms
}

// differs tells how the client's list of a room is not the truth; "" if it is.
func (c *Client) differs(room string) string {
	s := c.node()
	if s.away(room) {
		return "the node cannot read"
	}
	roster := s.Roster(room)
	info := s.Room(room)
	count := s.Count(room)
	l := c.List(room)
	switch {
	case l == nil:
		return ""
	case count != len(roster) || info.Count != len(roster):
		return fmt.Sprintf("the roster has %d members, the room says %d, and counts %d", len(roster), info.Count, count)
	case l.Count != len(roster):
		return fmt.Sprintf("the client counts %d of %d", l.Count, len(roster))
	case l.Mode != "full":
		return ""
	case len(l.Members) != len(roster):
		return fmt.Sprintf("the client has %q of %d members", l.Users(), len(roster))
	}
	connections := 0
	for _, m := range roster {
		connections += m.Connections
		have, ok := l.Members[m.User]
		if !ok {
			return fmt.Sprintf("the client lacks %q", m.User)
		}
		if !have.Same(m) {
			return fmt.Sprintf("%+v is %+v at the client", m, have)
		}
	}
	if connections != info.Connections {
		return fmt.Sprintf("the members have %d connections, and the room says %d", connections, info.Connections)
	}
	return ""
}

// away reports whether the node cannot read from its store right now.
func (s *Server) away(room string) bool {
	return s.nodes != nil && s.Do(Call{Path: RoomPath(room, "")}).Status == 503
}

// finish is the end of every test.
func (s *Server) finish() {
	if s.nodes != nil {
		return // together with the other nodes
	}
	if !s.t.Failed() {
		s.Rest()
	}
	clients := s.all()
	for _, c := range clients {
		s.checkRecord(c)
	}
	s.empty(clients)
	s.mu.Lock()
	proxies, extras := s.proxies, s.extras
	s.mu.Unlock()
	for _, check := range extras {
		check()
	}
	for _, p := range proxies {
		p.close()
	}
	s.stop()
	if s.t.Failed() {
		for i, c := range clients {
			if i < 6 {
				s.t.Log(c.dump())
			}
		}
	}
}

// checkRecord checks what a client has seen.
func (s *Server) checkRecord(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.lists.faults {
		if i < 5 {
			s.t.Errorf("%v of %q: %s", c.Over, c.ready.User, f)
		}
	}
	var strangers []string
	for named := range c.lists.named {
		if !s.known.has(named[0], named[1]) {
			strangers = append(strangers, fmt.Sprintf("%q in %q", named[1], named[0]))
		}
	}
	if len(strangers) > 0 {
		s.t.Errorf("%v of %q was told of users who were never there: %s", c.Over, c.ready.User, strings.Join(strangers, ", "))
	}
}

// end ends all clients, who say so.
func (s *Server) end(clients []*Client) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, c := range clients {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if r := c.Ready(); r.Resume != "" {
				c.other().Do(Call{
					Base: c.o.URL, Method: "POST", Path: "/v1/connections/" + url.PathEscape(r.Connection) + "/release", Resume: r.Resume, Body: "{}",
				})
			}
			c.quit()
		})
	}
	wg.Wait()
}

// empty ends all clients and checks that nobody and nothing is left of them.
func (s *Server) empty(clients []*Client) {
	s.end(clients)
	if s.down() {
		return
	}
	left := ""
	if !holds(s.Lease+4*time.Second, func() bool { left = s.left(); return left == "" }) {
		s.t.Errorf("left at the end: %s", left)
	}
}

// down reports whether the server has ended before the test did.
func (s *Server) down() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.proc.exited:
		return true
	default:
		return false
	}
}

// left tells what is left on the server.
func (s *Server) left() string {
	var left []string
	names := []string{"rollcall_connections", "rollcall_members", "rollcall_rooms"}
	if s.far != nil {
		for _, c := range s.all() {
			for _, room := range c.o.Rooms {
				if users := s.Users(room); len(users) > 0 {
					return fmt.Sprintf("%q in room %q", users, room)
				}
			}
		}
	}
	for _, name := range names {
		if n := s.Metric(name); n != 0 {
			left = append(left, fmt.Sprintf("%s %g", name, n))
		}
	}
	return strings.Join(left, ", ")
}
