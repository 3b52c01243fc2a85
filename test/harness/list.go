package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is one event of a stream.
type Event struct {
	At     time.Time
	Name   string
	Data   json.RawMessage
	Stream int // of the client: 1 for its first
}

// Change is one join, update or leave of a diff.
type Change struct {
	At         time.Time
	Kind       string // join, update, leave
	Room, User string
	Member     Member // of a join or an update
	Reason     string // of a leave
	Stream     int
}

// List is what a naive client knows of a room: it does as it is told, and
// believes nothing that does not fit.
type List struct {
	Room    string
	Epoch   string
	Version int64
	Mode    string
	Count   int
	Members map[string]Member // in full mode
	Sample  []Member          // in counts mode
	Stream  int               // that told last
}

// Users are the users on the list, sorted.
func (l *List) Users() []string {
	users := []string{}
	for u := range l.Members {
		users = append(users, u)
	}
	slices.Sort(users)
	return users
}

// absence is how a client is not in a room.
type absence int

const (
	present  absence = iota
	away             // it has asked to leave
	entering         // it has then asked to join again
)

// ask notes that the client asks to leave a room, or to join it again.
func (ls *lists) ask(what, room string) {
	switch {
	case what == "leave":
		delete(ls.rooms, room)
		ls.left[room] = away
	case what == "join" && ls.left[room] == away:
		ls.left[room] = entering
	}
}

// told is everything that an event of a room may carry.
type told struct {
	Room    string
	Epoch   string
	Version int64
	Prev    *int64
	Mode    string
	Count   *int
	Members []Member
	Sample  []Member
	Join    []Member
	Update  []Member
	Leave   []struct{ User, Reason string }
	Reason  string
}

// lists is what a client knows of its rooms. Owned by the client, which guards
// it.
type lists struct {
	rooms   map[string]*List
	left    map[string]absence // rooms that the client left by itself, until it is shown them again
	changes []Change
	named   map[[2]string]bool // room and user, of everybody who was named
	faults  []string
}

func newLists() lists {
	return lists{rooms: make(map[string]*List), left: make(map[string]absence), named: make(map[[2]string]bool)}
}

func (ls *lists) fault(e *Event, format string, args ...any) {
	ls.faults = append(ls.faults, fmt.Sprintf(format, args...)+": "+e.Name+" "+string(e.Data))
}

// apply takes one event of a room.
func (ls *lists) apply(e *Event, only string) {
	var d told
	if err := json.Unmarshal(e.Data, &d); err != nil {
		ls.fault(e, "cannot be read: %v", err)
		return
	}
	if d.Room == "" {
		d.Room = only
	}
	if d.Room == "" {
		ls.fault(e, "names no room")
		return
	}
	if a := ls.left[d.Room]; a == away || a == entering && e.Name != "snapshot" {
		return // was under way when the client left
	}
	delete(ls.left, d.Room)
	switch e.Name {
	case "snapshot", "mode":
		ls.snapshot(e, &d)
	case "resumed":
		l := ls.rooms[d.Room]
		if l == nil || l.Epoch != d.Epoch || l.Version != d.Version {
			ls.fault(e, "resumes what is not held (%+v)", l)
			return
		}
		l.Stream = e.Stream
	case "diff":
		ls.diff(e, &d)
	case "count":
		l := ls.rooms[d.Room]
		if l == nil || l.Mode != "counts" || l.Stream != e.Stream || d.Count == nil {
			ls.fault(e, "does not fit what is held (%+v)", l)
			return
		}
		l.Version, l.Count = d.Version, *d.Count
		if d.Sample != nil {
			l.Sample = d.Sample
		}
	case "ended":
		delete(ls.rooms, d.Room)
	}
}

func (ls *lists) snapshot(e *Event, d *told) {
	if d.Count == nil || d.Epoch == "" {
		ls.fault(e, "lacks its count or its epoch")
		return
	}
	l := &List{
		Room: d.Room, Epoch: d.Epoch, Version: d.Version, Mode: d.Mode, Count: *d.Count,
		Members: make(map[string]Member), Sample: d.Sample, Stream: e.Stream,
	}
	for _, m := range append(d.Members, d.Sample...) {
		ls.named[[2]string{d.Room, m.User}] = true
	}
	for _, m := range d.Members {
		if _, twice := l.Members[m.User]; twice {
			ls.fault(e, "%q is listed twice", m.User)
		}
		l.Members[m.User] = m
	}
	if d.Mode == "full" && len(l.Members) != *d.Count {
		ls.fault(e, "lists %d members and says %d", len(l.Members), *d.Count)
	}
	ls.rooms[d.Room] = l
}

func (ls *lists) diff(e *Event, d *told) {
	l := ls.rooms[d.Room]
	switch {
	case l == nil:
		ls.fault(e, "comes before any state")
		return
	case d.Prev == nil || d.Count == nil:
		ls.fault(e, "lacks its prev or its count")
		return
	case *d.Prev != l.Version:
		ls.fault(e, "does not follow version %d", l.Version)
		return
	case d.Version <= *d.Prev:
		ls.fault(e, "leads backwards")
		return
	}
	seen := make(map[string]bool)
	note := func(kind, user string, must bool, m Member, reason string) {
		ls.named[[2]string{d.Room, user}] = true
		ls.changes = append(ls.changes, Change{e.At, kind, d.Room, user, m, reason, e.Stream})
		if seen[user] {
			ls.fault(e, "%q is named twice", user)
		}
		seen[user] = true
		if _, there := l.Members[user]; there != must {
			ls.fault(e, "%s of %q, who is here: %v", kind, user, there)
		}
	}
	for _, m := range d.Join {
		note("join", m.User, false, m, "")
		l.Members[m.User] = m
	}
	for _, m := range d.Update {
		note("update", m.User, true, m, "")
		if _, there := l.Members[m.User]; there {
			l.Members[m.User] = m
		}
	}
	for _, x := range d.Leave {
		note("leave", x.User, true, Member{}, x.Reason)
		delete(l.Members, x.User)
	}
	l.Version, l.Count, l.Stream = d.Version, *d.Count, e.Stream
	if len(l.Members) != l.Count {
		ls.fault(e, "says %d, and the list has %s", l.Count, strings.Join(l.Users(), ", "))
	}
}
