package server

import (
	"context"
	"slices"
	"strings"

	"rollcall"
	"rollcall/wire"
)

// contact is one of the users of whom a stream is told whether they are here.
type contact struct {
	seen *seen
	sent uint32 // the revision of the user that the client holds
	here bool   // as the client was told
	at   int    // in the watchers of the user
}

// lookupAtOnce is the most users of one question to the store.
const lookupAtOnce = 500

// lookUp asks about users again, as far as what is known of them is old.
func (r *room) lookUp(ctx context.Context, users []*seen) error {
	for chunk := range slices.Chunk(users, lookupAtOnce) {
		r.mu.Lock()
		losses := r.losses
		var ids []rollcall.UserID
		var asked []*seen
		for _, u := range chunk {
			if u.stale() {
				ids, asked = append(ids, u.id), append(asked, u)
			}
		}
		r.mu.Unlock()
		if len(ids) == 0 {
			continue
		}
		a, err := r.h.query(ctx, rollcall.Query{Want: rollcall.WantUsers, Room: r.id, Users: ids})
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.learnLocked(asked, &a, r.losses != losses)
		r.mu.Unlock()
	}
	return nil
}

// learnLocked takes an answer. While the store settles nobody is taken to be gone
// who has not left.
func (r *room) learnLocked(asked []*seen, a *rollcall.Answer, lost bool) {
	r.settleWindowsLocked(a.Settling)
	here := make(map[rollcall.UserID]*rollcall.Member, len(a.Members))
	for _, m := range a.Members {
		here[m.User] = m
	}
	for _, u := range asked {
		if !u.lost && a.Version < u.version {
			continue // somebody has asked since
		}
		m := here[u.id]
		if m == nil && a.Settling > 0 && !u.left {
			m = u.member
		}
		if !u.known || (m == nil) != (u.member == nil) || m != nil && !m.Equal(u.member) {
			u.known, u.member = true, m
			u.revision++
			for _, watcher := range u.watchers {
				watcher.sub.outlook.dirty = true
			}
		}
		u.version, u.lost = a.Version, lost
		if u.stale() {
			r.queueSeenLocked(u) // of a change that the answer did not know yet
		}
	}
}

// watchContacts has a stream told of users from now on, in place of those before,
// and returns those who are here. Called with c.op held, which keeps the stream's
// rooms as they are.
func (c *connection) watchContacts(ctx context.Context, s *sub, r *room, users []rollcall.UserID) ([]*rollcall.Member, error) {
	users = slices.Clone(users)
	slices.SortFunc(users, func(a, b rollcall.UserID) int { return strings.Compare(string(a), string(b)) })
	r.mu.Lock()
	w := r.windowsLocked()
	held := make([]*seen, len(users))
	for i, id := range users {
		held[i] = w.holdSeenLocked(id)
	}
	r.mu.Unlock()
	err := r.lookUp(ctx, held)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		for _, u := range held {
			u.holders--
			w.dropSeenLocked(u)
		}
	}()
	if err != nil {
		return nil, err
	}
	var present []*rollcall.Member
	for _, u := range held {
		if u.member != nil {
			present = append(present, u.member)
		}
	}
	if s.room == r {
		s.setContactsLocked(held)
	}
	return present, nil
}

// setContactsLocked makes users the contacts of a stream, who has just been told of
// them. Called with the room locked.
func (s *sub) setContactsLocked(users []*seen) {
	o := s.outlookLocked()
	s.room.unwatchLocked(o)
	o.contacts, o.dirty, o.moved = nil, false, true
	o.told = s.c.h.clock.now()
	for i, u := range users {
		o.contacts = append(o.contacts, contact{seen: u, sent: u.revision, here: u.member != nil, at: len(u.watchers)})
		u.watchers = append(u.watchers, watcher{s, i})
		if u.stale() {
			s.room.queueSeenLocked(u)
		}
	}
}

// unwatchLocked ends the contacts of an outlook.
func (r *room) unwatchLocked(o *outlook) {
	for i := range o.contacts {
		u, at := o.contacts[i].seen, o.contacts[i].at
		last := len(u.watchers) - 1
		moved := u.watchers[last]
		u.watchers[at] = moved
		moved.sub.outlook.contacts[moved.place].at = at
		u.watchers[last] = watcher{}
		u.watchers = u.watchers[:last]
		r.windows.dropSeenLocked(u)
	}
}

// appendContacts appends what has changed of the contacts of a stream. Called with
// the room locked.
func (s *stream) appendContacts(b []byte, sub *sub, o *outlook, now instant, deliveries int) ([]byte, int) {
	if !o.dirty || s.early(now, o.told) {
		return b, deliveries
	}
	o.dirty = false
	changes := wire.Contacts{Room: sub.id}
	for i := range o.contacts {
		c := &o.contacts[i]
		u := c.seen
		if c.sent == u.revision {
			continue
		}
		c.sent = u.revision
		switch {
		case u.member != nil:
			changes.Present = append(changes.Present, u.member)
		case c.here:
			changes.Absent = append(changes.Absent, u.id)
		}
		c.here = u.member != nil
	}
	if len(changes.Present)+len(changes.Absent) == 0 {
		return b, deliveries // what changed has cancelled out
	}
	o.told = now
	return s.append(b, wire.EventContacts, wire.AppendContacts(nil, &changes)), deliveries + 1
}
