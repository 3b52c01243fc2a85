package server

import (
	"slices"
	"strings"
	"time"

	"rollcall"
)

// windows is what streams of this node look at of a room besides its roster: open
// pages and contacts. Changes of the room mark what they touch; the lookout reads
// that again, once for everybody who looks. What it costs follows from what is
// looked at and not from the size of the room. All of it is guarded by the mu of
// the room.
type windows struct {
	pages map[pageKey]*page
	first []*page // those that begin with the newest join
	seen  map[rollcall.UserID]*seen

	stalePages []*page // to be read again; page.queued
	staleSeen  []*seen // to be looked up again; seen.queued
	settles    instant // when the store will have settled, and all is read again; 0: it has
	looked     instant // when the lookout was last here

	reads int // of pages, on their way
	// While there are: who changed, and the newest join.
	during map[rollcall.UserID]rollcall.Version
	joined rollcall.Version
}

// seen is a user who is on a page, or among somebody's contacts.
type seen struct {
	id       rollcall.UserID
	pages    []*page
	watchers []watcher
	holders  int // who is about to be a watcher

	// For the watchers:
	member   *rollcall.Member // nil: not here
	known    bool             // member is what the store said
	revision uint32           // of member
	left     bool             // by the last change
	freshness
	queued bool
}

// watcher is a viewer whose contacts name a user: place is where.
type watcher struct {
	sub   *sub
	place int
}

// freshness tells whether what was read is old by now.
type freshness struct {
	version rollcall.Version // when it was read
	changed rollcall.Version // of the newest change since, as far as is known
	lost    bool             // changes may have been missed
}

func (f *freshness) stale() bool { return f.lost || f.changed > f.version }

// forget makes it old, whatever comes: after lost memory versions compare with none
// of before.
func (f *freshness) forget() { *f = freshness{lost: true} }

const (
	windowEvery = time.Second            // least time between two readings of a window, and two events of it
	windowLead  = 100 * time.Millisecond // a reading goes this much before the count that is due
)

func (r *room) windowsLocked() *windows {
	if r.windows == nil {
		r.windows = &windows{pages: make(map[pageKey]*page), seen: make(map[rollcall.UserID]*seen)}
	}
	return r.windows
}

// markLocked notes what a change makes old.
func (r *room) markLocked(ch *rollcall.Change) {
	w := r.windows
	if w == nil {
		return
	}
	if ch.Switched {
		r.loseWindowsLocked()
	}
	if len(ch.Join) > 0 {
		w.joined = max(w.joined, ch.Version)
		for _, p := range w.first {
			r.agePageLocked(p, ch.Version)
		}
	}
	for _, list := range [...][]*rollcall.Member{ch.Join, ch.Update} {
		for _, m := range list {
			r.touchLocked(m.User, ch.Version, rollcall.ReasonNone)
		}
	}
	for _, l := range ch.Leave {
		r.touchLocked(l.User, ch.Version, l.Reason)
	}
}

// touchLocked notes that a user has changed; a reason tells that the user left.
func (r *room) touchLocked(user rollcall.UserID, version rollcall.Version, left rollcall.Reason) {
	w := r.windows
	if w.reads > 0 {
		if w.during == nil {
			w.during = make(map[rollcall.UserID]rollcall.Version)
		}
		// The caller's string may be a piece of a whole frame; it is kept for as
		// long as a reading takes.
		w.during[user] = max(w.during[user], version)
	}
	u := w.seen[user]
	if u == nil {
		return
	}
	u.left = left != rollcall.ReasonNone
	for _, p := range u.pages {
		p.leftLocked(u.id, left)
		r.agePageLocked(p, version)
	}
	if version > u.version {
		u.changed = max(u.changed, version)
		r.queueSeenLocked(u)
	}
}

// loseWindowsLocked has everything read again, since changes may have been missed.
func (r *room) loseWindowsLocked() {
	w := r.windows
	if w == nil {
		return
	}
	w.joined = 0
	clear(w.during)
	for _, p := range w.pages {
		p.forget()
		r.queuePageLocked(p)
	}
	for _, u := range w.seen {
		u.forget()
		r.queueSeenLocked(u)
	}
}

func (r *room) agePageLocked(p *page, version rollcall.Version) {
	if version > p.version {
		p.changed = max(p.changed, version)
		r.queuePageLocked(p)
	}
}

func (r *room) queuePageLocked(p *page) {
	if !p.queued && p.holders > 0 {
		p.queued = true
		r.windows.stalePages = append(r.windows.stalePages, p)
		r.h.lookout.look(r, r.lookAtLocked())
	}
}

func (r *room) queueSeenLocked(u *seen) {
	if !u.queued && len(u.watchers) > 0 {
		u.queued = true
		r.windows.staleSeen = append(r.windows.staleSeen, u)
		r.h.lookout.look(r, r.lookAtLocked())
	}
}

// lookAtLocked is when the lookout may come again. In counts mode it comes just
// before the number is told, so that a stream gets both in one write.
func (r *room) lookAtLocked() instant {
	at := max(r.h.clock.now(), r.windows.looked.add(windowEvery))
	if r.tally != nil {
		at = max(at, r.counted.add(r.settings.Modes.Every-windowLead))
	}
	return at
}

// settleWindowsLocked has everything read again when the store has settled.
func (r *room) settleWindowsLocked(settling time.Duration) {
	if settling > 0 {
		r.windows.settles = r.h.clock.now().add(settling + time.Millisecond)
		r.h.lookout.look(r, r.windows.settles)
	}
}

// holdSeenLocked is the entry of a user, which stays for as long as it is held.
func (w *windows) holdSeenLocked(id rollcall.UserID) *seen {
	u := w.seen[id]
	if u == nil {
		u = &seen{id: rollcall.UserID(strings.Clone(string(id)))}
		u.forget()
		w.seen[u.id] = u
	}
	u.holders++
	return u
}

// dropSeenLocked forgets a user at whom nobody looks.
func (w *windows) dropSeenLocked(u *seen) {
	if u.holders == 0 && len(u.watchers) == 0 && len(u.pages) == 0 {
		delete(w.seen, u.id)
	}
}

// outlook is what one stream looks at of a room besides its roster. It is changed
// with the mu of the connection and that of the room held, and read with either.
type outlook struct {
	pages    []openPage
	contacts []contact // by user
	dirty    bool      // one of the contacts has changed
	told     instant   // when contacts were last told
	moved    bool      // it looks at others than when it was last told signals
}

// outlookLocked is the outlook of a stream on a room. Called with the room locked.
func (s *sub) outlookLocked() *outlook {
	if s.outlook == nil {
		s.outlook = new(outlook)
	}
	return s.outlook
}

// closeWindowsLocked ends all that a stream looks at.
func (r *room) closeWindowsLocked(s *sub) {
	o := s.outlook
	if o == nil {
		return
	}
	for i := range o.pages {
		r.releasePageLocked(o.pages[i].page)
	}
	r.unwatchLocked(o)
	s.outlook = nil
}

// appendWindows appends what a stream is due of its pages and contacts. Called with
// the room locked.
func (s *stream) appendWindows(b []byte, sub *sub, deliveries int) ([]byte, int) {
	o := sub.outlook
	if o == nil {
		return b, deliveries
	}
	now := s.c.h.clock.now()
	for i := range o.pages {
		b, deliveries = s.appendPage(b, sub, &o.pages[i], now, deliveries)
	}
	return s.appendContacts(b, sub, o, now, deliveries)
}

// early reports whether an event of a window has to wait, and then has the stream
// looked at again. A tick more or less does not matter: it lets the events of a
// stream go together.
func (s *stream) early(now, told instant) bool {
	if told == 0 || now.sub(told) >= windowEvery-tickEvery {
		return false
	}
	s.c.h.pulse.again(s.c)
	return true
}

// sees reports whether the stream looks at a user. Called with the room locked.
func (o *outlook) sees(w *windows, user rollcall.UserID) bool {
	if o == nil || w == nil {
		return false
	}
	u := w.seen[user]
	if u == nil {
		return false
	}
	for _, p := range u.pages {
		for i := range o.pages {
			if o.pages[i].page == p {
				return true
			}
		}
	}
	_, found := slices.BinarySearchFunc(o.contacts, u.id, func(c contact, id rollcall.UserID) int {
		return strings.Compare(string(c.seen.id), string(id))
	})
	return found
}
