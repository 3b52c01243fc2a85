package server

import (
	"context"
	"net/http"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// How a connection opens pages and names its contacts. What it opens belongs to its
// stream; without one there is only the answer.

// defaultPage is the members of a page that does not say how many.
const defaultPage = 50

// pageKeyOf is the page of a room that a client asks for.
func (h *hub) pageKeyOf(room rollcall.RoomID, text string, limit int) (key pageKey, refused *rollcall.Error) {
	key.limit = min(limit, h.limits.PageMembers)
	if limit == 0 {
		key.limit = min(defaultPage, h.limits.PageMembers)
	}
	if text == "" {
		return key, nil
	}
	v, ok := parseCursor(room, text)
	if !ok {
		return key, errCursor
	}
	key.cursor = v
	return key, nil
}

var errCursor = rollcall.Errorf(rollcall.CodeBadRequest, "the cursor is not one that this room gave")

// viewerOf is the room of a connection that looks at more of it, and needs a
// capability for that; r is nil if there is no stream to tell.
func (c *connection) viewerOf(id rollcall.RoomID, need auth.Capability) (s *sub, r *room, refused *rollcall.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.findLocked(id)
	if s == nil || c.gone {
		return nil, nil, rollcall.Errorf(rollcall.CodeGone, "the connection is not in this room")
	}
	if err := may(c.identity, id, need); err != nil {
		return nil, nil, asError(err)
	}
	if c.h.isEstimate(id) {
		return nil, nil, errEstimate
	}
	return s, s.room, nil
}

// openPage opens a page for the stream of a connection, in place of one of the same
// name, and returns the answer. Called with c.op held.
func (c *connection) openPage(ctx context.Context, id rollcall.RoomID, name string, key pageKey) ([]byte, *rollcall.Error) {
	s, r, refused := c.viewerOf(id, auth.Read)
	if refused != nil {
		return nil, refused
	}
	if refused := c.checkPages(s, name); refused != nil {
		return nil, refused
	}
	if r == nil {
		return c.h.pageAnswer(ctx, id, key)
	}
	p, err := r.holdPage(ctx, key)
	if err != nil {
		return nil, c.h.unavailable(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := wire.AppendPageAnswer(nil, r.bodyLocked(p, 0))
	if s.room != r {
		r.releasePageLocked(p) // the stream has ended meanwhile
		return answer, nil
	}
	o := s.outlookLocked()
	open := openPage{name: name, page: p}
	for i := range o.pages {
		if o.pages[i].name == name {
			r.releasePageLocked(o.pages[i].page)
			o.pages[i] = open
			return answer, nil
		}
	}
	o.pages = append(o.pages, open)
	return answer, nil
}

// checkPages refuses one page more than a connection may have.
func (c *connection) checkPages(s *sub, name string) *rollcall.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := 0
	for _, other := range c.subs {
		if other.outlook == nil {
			continue
		}
		for i := range other.outlook.pages {
			if other != s || other.outlook.pages[i].name != name {
				open++
			}
		}
	}
	if most := c.h.limits.Pages; open >= most {
		return rollcall.LimitError(rollcall.CodeRateLimited, most, "a connection may have %d pages open", most)
	}
	return nil
}

// closePage closes a page; one that is not open, too.
func (c *connection) closePage(id rollcall.RoomID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.findLocked(id)
	if s == nil || s.room == nil || s.outlook == nil {
		return
	}
	r, o := s.room, s.outlook
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range o.pages {
		if o.pages[i].name == name {
			r.releasePageLocked(o.pages[i].page)
			o.pages = append(o.pages[:i], o.pages[i+1:]...)
			o.moved = true
			break
		}
	}
	if len(o.pages)+len(o.contacts) == 0 {
		s.outlook = nil
	}
}

// pageAnswer is the answer about a page that nobody is told of further.
func (h *hub) pageAnswer(ctx context.Context, room rollcall.RoomID, key pageKey) ([]byte, *rollcall.Error) {
	a, err := h.query(ctx, rollcall.Query{Want: rollcall.WantPage, Room: room, Cursor: key.cursor, Limit: key.limit})
	if err != nil {
		return nil, h.unavailable(err)
	}
	state := wire.PageState{Members: a.Members, Count: a.Count}
	if state.Members == nil {
		state.Members = []*rollcall.Member{}
	}
	if a.Next != 0 {
		state.NextCursor = cursor(room, a.Next)
	}
	return wire.AppendPageAnswer(nil, wire.AppendPageState(nil, &state)), nil
}

// setContacts makes users the contacts of a connection in a room, in place of those
// before, and returns those who are there. Called with c.op held.
func (c *connection) setContacts(ctx context.Context, id rollcall.RoomID, users []rollcall.UserID) ([]*rollcall.Member, *rollcall.Error) {
	s, r, refused := c.viewerOf(id, auth.Contacts)
	if refused != nil {
		return nil, refused
	}
	if refused := c.checkContacts(s, len(users)); refused != nil {
		return nil, refused
	}
	if r == nil {
		a, err := c.h.query(ctx, rollcall.Query{Want: rollcall.WantUsers, Room: id, Users: users})
		if err != nil {
			return nil, c.h.unavailable(err)
		}
		return a.Members, nil
	}
	present, err := c.watchContacts(ctx, s, r, users)
	if err != nil {
		return nil, c.h.unavailable(err)
	}
	return present, nil
}

// checkContacts refuses more contacts than a connection may have.
func (c *connection) checkContacts(s *sub, asked int) *rollcall.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.subs {
		if other != s && other.outlook != nil {
			asked += len(other.outlook.contacts)
		}
	}
	if most := c.h.limits.Contacts; asked > most {
		return rollcall.LimitError(rollcall.CodeRateLimited, most, "a connection may have %d contacts", most)
	}
	return nil
}

// page carries out the message page.
func (st *stream) page(ctx context.Context, m *wire.Message) ([]byte, *rollcall.Error) {
	key, refused := st.c.h.pageKeyOf(m.Room, m.Cursor, m.Limit)
	if refused != nil {
		return nil, refused
	}
	return st.c.openPage(ctx, m.Room, m.Page, key)
}

// contacts carries out the message contacts. Who wants no answer is told by an
// event who is there.
func (st *stream) contacts(ctx context.Context, m *wire.Message) ([]byte, *rollcall.Error) {
	present, refused := st.c.setContacts(ctx, m.Room, m.Users)
	if refused != nil {
		return nil, refused
	}
	if m.ID == nil && len(present) > 0 {
		st.c.mu.Lock()
		st.event(wire.EventContacts, wire.AppendContacts(nil, &wire.Contacts{Room: m.Room, Present: present}))
		st.c.mu.Unlock()
	}
	return wire.AppendPresent(nil, present, nil), nil
}

// caller is the connection and the room of a proven call.
func (s *Server) caller(r *http.Request, resume string) (*connection, rollcall.RoomID, error) {
	room, err := roomOf(r)
	if err != nil {
		return nil, "", err
	}
	c, _, err := s.proven(r, resume)
	if err != nil {
		return nil, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearLocked(s.h.clock.now())
	return c, room, nil
}

// putPage is PUT /v1/rooms/{room}/connections/{connection}/pages/{page}.
func (s *Server) putPage(w http.ResponseWriter, r *http.Request) error {
	name, err := pathID(r, "page")
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	req, err := wire.DecodePage(raw)
	if err != nil {
		return err
	}
	c, room, err := s.caller(r, req.Resume)
	if err != nil {
		return err
	}
	key, refused := s.h.pageKeyOf(room, req.Cursor, req.Limit)
	if refused != nil {
		return refused
	}
	c.op.Lock()
	defer c.op.Unlock()
	answer, refused := c.openPage(r.Context(), room, name, key)
	if refused != nil {
		return refused
	}
	s.json(w, http.StatusOK, answer)
	c.pump()
	return nil
}

// deletePage is DELETE of the same.
func (s *Server) deletePage(w http.ResponseWriter, r *http.Request) error {
	name, err := pathID(r, "page")
	if err != nil {
		return err
	}
	c, room, err := s.caller(r, "")
	switch {
	case err == nil:
		c.closePage(room, name)
	case asError(err).Code != rollcall.CodeGone:
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// putContacts is PUT /v1/rooms/{room}/connections/{connection}/contacts.
func (s *Server) putContacts(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	req, err := wire.DecodeContacts(raw)
	if err != nil {
		return err
	}
	c, room, err := s.caller(r, req.Resume)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	present, refused := c.setContacts(r.Context(), room, req.Users)
	if refused != nil {
		return refused
	}
	s.json(w, http.StatusOK, wire.AppendPresent(nil, present, nil))
	return nil
}

// pump writes what the stream of the connection is due.
func (c *connection) pump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.pumpLocked(nil)
	}
}
