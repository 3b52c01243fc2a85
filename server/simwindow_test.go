package server

import (
	"maps"
	"slices"
	"testing"
	"time"

	"rollcall"
	"rollcall/wire"
)

// simWindow is what a client of the simulator looks at besides the roster, as told.
type simWindow struct {
	open, asks bool
	page       []string
	contacts   map[string]bool
	asked      []rollcall.UserID
	told       time.Time // of the page
}

// simPage is the page that clients of the simulator look at.
var simPage = pageKey{limit: 6}

// simReads is how long a client of the simulator takes to read.
const simReads = 200 * time.Millisecond

// lookAround has a client open a page, and name some users as contacts, unless its
// node is cut off.
func (s *simulation) lookAround(c *simClient) {
	conn := c.c.st.c
	conn.op.Lock()
	defer conn.op.Unlock()
	w := &c.window
	if _, err := conn.openPage(s.t.Context(), "lobby", "p", simPage); err == nil {
		w.open = true
		conn.pump()
	}
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if s.rand.IntN(3) > 0 {
			w.asked = append(w.asked, rollcall.UserID(name))
		}
	}
	w.asked = append(w.asked, "nobody")
	present, err := conn.setContacts(s.t.Context(), "lobby", w.asked)
	if err != nil {
		return
	}
	w.asks, w.contacts = true, make(map[string]bool)
	for _, m := range present {
		w.contacts[string(m.User)] = true
	}
}

// look follows an event of a window. Whoever lives is never said to have left.
func (c *simClient) look(t *testing.T, kind, data string) {
	w := &c.window
	if kind == "contacts" {
		v, err := wire.DecodeEvent(wire.EventContacts, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range v.(*wire.Contacts).Present {
			w.contacts[string(m.User)] = true
		}
		for _, user := range v.(*wire.Contacts).Absent {
			if !w.contacts[string(user)] {
				t.Errorf("%s was told that %s is absent, who was not here", c.name, user)
			}
			delete(w.contacts, string(user))
			c.story[string(user)] = append(c.story[string(user)], "absent")
		}
		return
	}
	v, err := wire.DecodeEvent(wire.EventPage, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	p := v.(*wire.Page)
	if p.Members != nil {
		w.page = nil
	} else if d := time.Since(w.told); d < windowEvery-2*tickEvery-simReads {
		t.Errorf("%s was told of a page again after %v", c.name, d)
	}
	w.told = time.Now()
	for _, l := range p.Leave {
		i := slices.Index(w.page, string(l.User))
		if i < 0 {
			t.Errorf("%s was told that %s went off a page, who was not there", c.name, l.User)
			continue
		}
		w.page = slices.Delete(w.page, i, i+1)
		if l.Reason != rollcall.ReasonNone {
			c.story[string(l.User)] = append(c.story[string(l.User)], "off the page: "+l.Reason.String())
		}
	}
	for _, m := range slices.Concat(p.Members, p.Join) {
		if slices.Contains(w.page, string(m.User)) {
			t.Errorf("%s was told that %s came to a page, who was there", c.name, m.User)
		}
		w.page = append(w.page, string(m.User))
	}
	for _, m := range p.Update {
		if !slices.Contains(w.page, string(m.User)) {
			t.Errorf("%s was told of %s, who is not on the page", c.name, m.User)
		}
	}
	if len(w.page) > simPage.limit {
		t.Errorf("%s sees %d members on a page of %d", c.name, len(w.page), simPage.limit)
	}
}

// checkWindow compares what a client sees with the truth.
func (s *simulation) checkWindow(c *simClient) {
	w := &c.window
	memory := s.store.memory.Load()
	if w.open {
		a, _ := memory.Read(s.t.Context(), rollcall.Query{Want: rollcall.WantPage, Room: "lobby", Limit: simPage.limit})
		var want []string
		for _, m := range a.Members {
			want = append(want, string(m.User))
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(w.page)); !slices.Equal(got, want) {
			s.t.Errorf("%s sees %v on the page, want %v", c.name, got, want)
		}
	}
	if w.asks {
		a, _ := memory.Read(s.t.Context(), rollcall.Query{Want: rollcall.WantUsers, Room: "lobby", Users: w.asked})
		want := make(map[string]bool)
		for _, m := range a.Members {
			want[string(m.User)] = true
		}
		if !maps.Equal(w.contacts, want) {
			s.t.Errorf("%s sees the contacts %v, want %v", c.name, w.contacts, want)
		}
	}
}
