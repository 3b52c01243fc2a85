package server

import (
	"context"
	"slices"
	"sync"

	"rollcall"
	"rollcall/wire"
)

// page is a page of the members of a room that streams of this node look at: one
// for all that ask for the same. Guarded by the mu of the room, but reading.
type page struct {
	pageKey
	reading sync.Mutex // held by whoever reads it

	holders int // who looks at it
	pageState
	past []pageState                         // before, the newest last
	gone map[rollcall.UserID]rollcall.Reason // members who have left the room since it was read
	freshness
	queued bool

	bodies   []pageBody // from several revisions to the present one
	scoped   []signalsBody
	scopedAt scopedAt
}

// pageKey names a page: limit members who joined before cursor.
type pageKey struct {
	cursor rollcall.Version
	limit  int
}

// pageState is what was on a page.
type pageState struct {
	revision uint64 // rises with each change; 0: not read yet
	members  []*rollcall.Member
	next     rollcall.Version
	count    int
	left     map[rollcall.UserID]rollcall.Reason // who was there before, and left the room
}

// pageBody is what leads from a revision to the present one, encoded for all
// viewers who are there; from 0 all of the page.
type pageBody struct {
	from uint64
	body []byte
}

// openPage is a page that a stream looks at.
type openPage struct {
	name string
	page *page
	sent uint64  // revision that the client holds; 0: none
	told instant // when it was sent
}

// pagesKept is how many states of a page a viewer may be behind before it is sent
// all of it.
const pagesKept = 3

// holdPage returns a page, read if it had to be. The caller releases it.
func (r *room) holdPage(ctx context.Context, key pageKey) (*page, error) {
	r.mu.Lock()
	w := r.windowsLocked()
	p := w.pages[key]
	if p == nil {
		p = &page{pageKey: key}
		p.forget()
		w.pages[key] = p
		if key.cursor == 0 {
			w.first = append(w.first, p)
		}
	}
	p.holders++
	r.mu.Unlock()
	if err := r.readPage(ctx, p); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.releasePageLocked(p)
		return nil, err
	}
	return p, nil
}

func (r *room) releasePageLocked(p *page) {
	if p.holders--; p.holders > 0 {
		return
	}
	w := r.windows
	delete(w.pages, p.pageKey)
	w.first = slices.DeleteFunc(w.first, func(other *page) bool { return other == p })
	r.showOnLocked(p, nil)
}

// readPage reads a page if it is old.
func (r *room) readPage(ctx context.Context, p *page) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	r.mu.Lock()
	w := r.windows
	if !p.stale() {
		r.mu.Unlock()
		return nil
	}
	losses := r.losses
	w.reads++
	r.mu.Unlock()
	a, err := r.h.query(ctx, rollcall.Query{Want: rollcall.WantPage, Room: r.id, Cursor: p.cursor, Limit: p.limit})
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if w.reads--; w.reads == 0 {
			w.during = nil
		}
	}()
	if err != nil {
		return err
	}
	r.installPageLocked(p, &a)
	p.version, p.lost = a.Version, r.losses != losses
	for _, m := range p.members {
		p.changed = max(p.changed, w.during[m.User])
	}
	if p.cursor == 0 {
		p.changed = max(p.changed, w.joined)
	}
	if p.stale() {
		r.queuePageLocked(p) // of a change that the answer did not know yet
	}
	return nil
}

// installPageLocked takes what was read.
func (r *room) installPageLocked(p *page, a *rollcall.Answer) {
	if p.holders == 0 {
		return // nobody looks any more
	}
	now := pageState{revision: p.revision + 1, members: a.Members, next: a.Next, count: a.Count}
	if a.Settling > 0 {
		r.settleWindowsLocked(a.Settling)
		now.members = p.settling(a.Members)
		if r.loadedLocked() {
			now.count = max(now.count, r.shownCountLocked())
		}
	}
	if now.members == nil {
		now.members = []*rollcall.Member{}
	}
	if p.revision > 0 && p.next == now.next && slices.EqualFunc(p.members, now.members, (*rollcall.Member).Equal) {
		p.count = now.count // told with the next change
		return
	}
	if p.revision > 0 {
		if len(p.past) == pagesKept {
			p.past = append(p.past[:0], p.past[1:]...)
		}
		p.past = append(p.past, p.pageState)
	}
	r.showOnLocked(p, now.members)
	for user, reason := range p.gone {
		if !slices.ContainsFunc(now.members, func(m *rollcall.Member) bool { return m.User == user }) {
			if now.left == nil {
				now.left = make(map[rollcall.UserID]rollcall.Reason)
			}
			now.left[user] = reason
			delete(p.gone, user)
		}
	}
	p.pageState = now
	p.bodies = p.bodies[:0]
}

// settling is what a page shows while the store knows some members again and others
// not yet: nobody goes who has not left.
func (p *page) settling(known []*rollcall.Member) []*rollcall.Member {
	again := make(map[rollcall.UserID]*rollcall.Member, len(known))
	for _, m := range known {
		again[m.User] = m
	}
	var kept []*rollcall.Member
	for _, m := range p.members {
		switch {
		case again[m.User] != nil:
			kept = append(kept, again[m.User])
			delete(again, m.User)
		case p.gone[m.User] == rollcall.ReasonNone:
			kept = append(kept, m)
		}
	}
	for _, m := range known {
		if again[m.User] != nil && len(kept) < p.limit {
			kept = append(kept, m)
		}
	}
	return kept
}

// leftLocked notes why a member of the page left the room; ReasonNone: it is here.
func (p *page) leftLocked(user rollcall.UserID, reason rollcall.Reason) {
	if reason == rollcall.ReasonNone {
		delete(p.gone, user)
		return
	}
	if p.gone == nil {
		p.gone = make(map[rollcall.UserID]rollcall.Reason)
	}
	p.gone[user] = reason
}

// showOnLocked puts other members on a page, so that their changes are noticed.
func (r *room) showOnLocked(p *page, members []*rollcall.Member) {
	w := r.windows
	stay := make(map[rollcall.UserID]bool, len(members))
	for _, m := range members {
		stay[m.User] = true
	}
	for _, m := range p.members {
		if stay[m.User] {
			delete(stay, m.User)
			continue
		}
		u := w.seen[m.User]
		u.pages = slices.DeleteFunc(u.pages, func(other *page) bool { return other == p })
		w.dropSeenLocked(u)
	}
	for user := range stay {
		u := w.holdSeenLocked(user)
		u.holders--
		u.pages = append(u.pages, p)
	}
}

// bodyLocked is what a viewer who holds a revision is sent, good until mu is
// released.
func (r *room) bodyLocked(p *page, from uint64) []byte {
	var before *pageState
	for i := range p.past {
		if p.past[i].revision == from {
			before = &p.past[i]
		}
	}
	if before == nil {
		from = 0
	}
	for i := range p.bodies {
		if p.bodies[i].from == from {
			return p.bodies[i].body
		}
	}
	state := wire.PageState{Count: p.count}
	if p.next != 0 {
		state.NextCursor = cursor(r.id, p.next)
	}
	if before == nil {
		state.Members = p.members
	} else {
		p.changesLocked(before, &state)
	}
	b := pageBody{from, wire.AppendPageState(nil, &state)}
	p.bodies = append(p.bodies, b)
	return b.body
}

// changesLocked is what leads from an earlier state of the page to the present one.
func (p *page) changesLocked(before *pageState, to *wire.PageState) {
	was := make(map[rollcall.UserID]*rollcall.Member, len(before.members))
	for _, m := range before.members {
		was[m.User] = m
	}
	for _, m := range p.members {
		old := was[m.User]
		delete(was, m.User)
		switch {
		case old == nil:
			to.Join = append(to.Join, m)
		case !old.Equal(m):
			to.Update = append(to.Update, m)
		}
	}
	for _, m := range before.members {
		if was[m.User] != nil {
			to.Leave = append(to.Leave, rollcall.Leave{User: m.User, Reason: p.whyLocked(m.User, before.revision)})
		}
	}
}

// whyLocked is why somebody left the room who was on the page at a revision;
// ReasonNone: others have come before.
func (p *page) whyLocked(user rollcall.UserID, since uint64) rollcall.Reason {
	reason := p.left[user]
	for i := range p.past {
		if p.past[i].revision > since && reason == rollcall.ReasonNone {
			reason = p.past[i].left[user]
		}
	}
	return reason
}

// appendPage appends what a stream is due of a page. Called with the room locked.
func (s *stream) appendPage(b []byte, sub *sub, o *openPage, now instant, deliveries int) ([]byte, int) {
	p := o.page
	if o.sent == p.revision || s.early(now, o.told) {
		return b, deliveries
	}
	body := wire.AppendPage(nil, sub.id, o.name, sub.room.bodyLocked(p, o.sent))
	o.sent, o.told = p.revision, now
	sub.outlook.moved = true
	return s.append(b, wire.EventPage, body), deliveries + 1
}
