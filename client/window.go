package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rollcall"
	"rollcall/wire"
)

// Page is a page of the members of a room, as last told.
type Page struct {
	Members    []*rollcall.Member // newest join first
	NextCursor string             // where the next page begins; "" on the last one
	Count      int                // members of the room
}

// windows is what we look at of a room besides the roster: pages by name, and
// contacts. Guarded by the mu of the client.
type windows struct {
	pages    map[string]*window
	contacts *window  // nil for none
	closing  []string // pages that the server has yet to hear we closed
}

// window is a page or contacts. There is no queue: what is newest is said, and said
// again on a new stream.
type window struct {
	message   wire.Message
	rev       uint64
	unsaid    bool // on this stream
	notBefore time.Time
	refusals  int
	waiting   []waiter

	page Page
	here map[rollcall.UserID]*rollcall.Member
}

// OpenPage opens a page of the members of the room under a name of ours, in place of
// one of the same name, and returns it once the server has told it: limit members (1
// to 200; 0: as many as the server likes) from cursor on, which is "" for the first
// page and then the NextCursor of the page before. From then on it is kept up to
// date: [KindPage] tells of changes, at most once a second, and [Room.Page] is what it
// shows. It works for rooms of any size. It is opened again after a lost connection.
func (r *Room) OpenPage(ctx context.Context, name, cursor string, limit int) (Page, error) {
	m := wire.Message{Type: wire.MessagePage, Room: r.id, Page: strings.Clone(name), Cursor: cursor, Limit: limit}
	if !rollcall.ValidID(name) {
		return Page{}, rollcall.Errorf(rollcall.CodeBadRequest, "the name of a page is 1 to %d bytes of UTF-8, neither . nor ..", wire.MaxPageName)
	}
	w, err := r.look(ctx, m)
	if err != nil {
		return Page{}, fmt.Errorf("open page %q of room %q: %w", name, r.id, err)
	}
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return w.copyPage(), nil
}

// Page is an open page as it was last told; false if there is none of the name.
func (r *Room) Page(name string) (Page, bool) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	w := r.windows.pages[name]
	if w == nil {
		return Page{}, false
	}
	return w.copyPage(), true
}

// ClosePage closes a page; one that is not open is closed already.
func (r *Room) ClosePage(name string) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if r.windows.pages[name] != nil {
		r.forgetPage(name)
		r.windows.closing = append(r.windows.closing, name)
		r.client.wakeUp()
	}
}

// SetContacts names the users of whom we want to know whether they are here, in place
// of those before, and returns those who are. From then on [KindContacts] tells of
// changes, at most once a second. It takes the capability contacts. They are named
// again after a lost connection.
func (r *Room) SetContacts(ctx context.Context, users ...rollcall.UserID) ([]*rollcall.Member, error) {
	for _, user := range users {
		if err := checkUser(user); err != nil {
			return nil, err
		}
	}
	named := append([]rollcall.UserID{}, users...)
	if _, err := r.look(ctx, wire.Message{Type: wire.MessageContacts, Room: r.id, Users: named}); err != nil {
		return nil, fmt.Errorf("name contacts in room %q: %w", r.id, err)
	}
	return r.Contacts(), nil
}

// Contacts are those of our contacts who are here, by user.
func (r *Room) Contacts() []*rollcall.Member {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	w := r.windows.contacts
	if w == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(w.here), func(a, b *rollcall.Member) int {
		return strings.Compare(string(a.User), string(b.User))
	})
}

// look has a window opened, and waits until the server has done so.
func (r *Room) look(ctx context.Context, m wire.Message) (*window, error) {
	c := r.client
	c.mu.Lock()
	if r.state == StateOver {
		defer c.mu.Unlock()
		return nil, r.whyOver()
	}
	w := r.windows.open(&m)
	w.message, w.unsaid, w.notBefore = m, true, time.Time{}
	w.rev++
	waits := waiter{w.rev, make(chan error, 1)}
	w.waiting = append(w.waiting, waits)
	c.wakeUp()
	c.mu.Unlock()
	select {
	case err := <-waits.taken:
		return w, err
	case <-r.over:
		return nil, r.overError()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The methods below are called with client.mu held.

// open is the window that a message is about.
func (ws *windows) open(m *wire.Message) *window {
	if m.Type == wire.MessageContacts {
		if ws.contacts == nil {
			ws.contacts = &window{}
		}
		return ws.contacts
	}
	ws.closing = slices.DeleteFunc(ws.closing, func(name string) bool { return name == m.Page })
	if ws.pages == nil {
		ws.pages = make(map[string]*window)
	}
	if ws.pages[m.Page] == nil {
		ws.pages[m.Page] = &window{}
	}
	return ws.pages[m.Page]
}

func (w *window) copyPage() Page {
	p := w.page
	p.Members = slices.Clone(p.Members)
	return p
}

// reopen has everything said again on a new stream, which has none of it.
func (ws *windows) reopen() {
	ws.closing = nil
	for _, w := range ws.all() {
		w.unsaid, w.notBefore, w.refusals = true, time.Time{}, 0
	}
}

func (ws *windows) all() (all []*window) {
	for _, name := range slices.Sorted(maps.Keys(ws.pages)) {
		all = append(all, ws.pages[name])
	}
	if ws.contacts != nil {
		all = append(all, ws.contacts)
	}
	return all
}

// collect says what has yet to be said, and tells when there will be more.
func (ws *windows) collect(r *Room, now time.Time, say func(wire.Message, ask), soonest func(time.Time)) {
	for _, name := range ws.closing {
		say(wire.Message{Type: wire.MessageClosePage, Room: r.id, Page: name}, ask{room: r})
	}
	ws.closing = nil
	for _, w := range ws.all() {
		switch {
		case !w.unsaid:
		case now.Before(w.notBefore):
			soonest(w.notBefore)
		default:
			w.unsaid = false
			say(w.message, ask{room: r, rev: w.rev, window: w})
		}
	}
}

func (w *window) answered(rev uint64, err error) {
	w.waiting = slices.DeleteFunc(w.waiting, func(waits waiter) bool {
		if waits.rev <= rev {
			waits.taken <- err
			return true
		}
		return false
	})
}

// takenWindow takes the answer to the opening of a window.
func (r *Room) takenWindow(a ask, fields json.RawMessage) {
	w := a.window
	if w.rev != a.rev {
		return // a newer one is on its way
	}
	w.refusals = 0
	var err error
	if a.kind == wire.MessagePage {
		var state wire.PageState
		if state, err = wire.DecodePageAnswer(fields); err == nil {
			w.page = Page{Members: state.Members, NextCursor: state.NextCursor, Count: state.Count}
		}
	} else {
		var present []*rollcall.Member
		if present, err = wire.DecodePresent(fields); err == nil {
			w.here = make(map[rollcall.UserID]*rollcall.Member, len(present))
			for _, m := range present {
				w.here[m.User] = m
			}
			r.emit(Change{Kind: KindContacts, Count: r.roster.size()})
		}
	}
	w.answered(a.rev, err)
}

// refusedWindow tries again what was refused for the moment, and forgets the rest.
func (r *Room) refusedWindow(a ask, err *rollcall.Error, retry bool, now time.Time) {
	w := a.window
	if w.rev != a.rev {
		return
	}
	if retry && err.Code != rollcall.CodeRateLimited {
		w.unsaid, w.notBefore = true, now.Add(backoff(w.refusals+1, &ending{}, r.client.random))
		w.refusals++
		return
	}
	w.answered(a.rev, err)
	if w == r.windows.contacts {
		r.windows.contacts = nil
	} else if r.windows.pages[w.message.Page] == w {
		r.forgetPage(w.message.Page)
	}
}

func (r *Room) forgetPage(name string) {
	w := r.windows.pages[name]
	delete(r.windows.pages, name)
	w.answered(w.rev, rollcall.Errorf(rollcall.CodeGone, "the page was closed"))
}

// toldPage takes what changed of a page.
func (r *Room) toldPage(e *wire.Page) {
	w := r.windows.pages[e.Name]
	if w == nil {
		return // closed meanwhile
	}
	if e.Members != nil {
		w.page.Members = e.Members
	}
	gone := make(map[rollcall.UserID]bool)
	for _, l := range e.Leave {
		gone[l.User] = true
	}
	newer := make(map[rollcall.UserID]*rollcall.Member)
	for _, m := range slices.Concat(e.Update, e.Join) {
		newer[m.User] = m
	}
	var members []*rollcall.Member
	for _, m := range w.page.Members {
		if n := newer[m.User]; n != nil {
			m = n
			delete(newer, m.User)
		} else if gone[m.User] {
			continue
		}
		members = append(members, m)
	}
	for _, m := range e.Join {
		if newer[m.User] != nil {
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(a, b *rollcall.Member) int { return int(min(max(b.Since-a.Since, -1), 1)) })
	w.page = Page{Members: members, NextCursor: e.NextCursor, Count: e.Count}
	r.emit(Change{Kind: KindPage, Page: e.Name, Count: r.roster.size()})
}

// toldContacts takes who of our contacts came, changed or went.
func (r *Room) toldContacts(e *wire.Contacts) {
	w := r.windows.contacts
	if w == nil || w.here == nil {
		return
	}
	for _, m := range e.Present {
		w.here[m.User] = m
	}
	for _, user := range e.Absent {
		delete(w.here, user)
	}
	r.emit(Change{Kind: KindContacts, Count: r.roster.size()})
}
