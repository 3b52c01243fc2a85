package client

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"rollcall"
	"rollcall/wire"
)

// roster is what a viewer knows of one room, and how an event changes it. It is
// pure: it takes now, and does nothing but change itself.
//
//	snapshot, mode  replace everything
//	diff            applies if its prev is our version; an old one is dropped; else it is a gap
//	update          changes a member, never makes one
//	count           of counts mode; for a room known by name it is a gap
//	resumed         confirms what we have, or is a gap
//
// A gap (the last result of each method) is mended by a snapshot. While the
// server settles, having just lost its memory, members that are missing from a
// snapshot stay, stale, until the settling is over.
type roster struct {
	known   bool // false until the first snapshot
	epoch   rollcall.Epoch
	version rollcall.Version
	mode    wire.Mode
	count   int
	members map[rollcall.UserID]*rollcall.Member
	stale   map[rollcall.UserID]bool // members that may be on their way back
	sample  []*rollcall.Member       // counts mode
	settled time.Time                // when stale members are given up; zero: none are
}

// replace takes a snapshot. asked tells that it was asked for to mend a gap, so
// that it is right whatever its version.
func (r *roster) replace(s *wire.Snapshot, asked bool, now time.Time) (changes []Change, gap bool) {
	if r.known && !asked && s.Epoch == r.epoch && s.Version < r.version {
		return nil, true // a replica that is behind for a moment
	}
	// Entering a room is not a crowd of joins, and a change of mode is not a
	// change of the people.
	comparable := r.known && r.mode == s.Mode && s.Mode == wire.ModeFull
	members := make(map[rollcall.UserID]*rollcall.Member, len(s.Members))
	for _, m := range s.Members {
		members[m.User] = m
	}
	stale := map[rollcall.UserID]bool{}
	if comparable {
		for id, old := range r.members {
			switch {
			case members[id] != nil:
			case s.Settling > 0:
				members[id], stale[id] = old, true
			default:
				changes = append(changes, Change{Kind: KindLeave, Member: old})
			}
		}
		for _, m := range slices.Backward(s.Members) {
			changes = appendArrival(changes, r.members[m.User], m)
		}
	}
	changed := r.known && s.Mode == wire.ModeCounts && r.mode == s.Mode && r.count != s.Count
	reset := !r.known || r.mode != s.Mode
	*r = roster{known: true, epoch: s.Epoch, version: s.Version, mode: s.Mode, count: s.Count,
		members: members, stale: stale, sample: s.Sample}
	if s.Settling > 0 {
		r.settled = now.Add(s.Settling)
	}
	switch {
	case reset:
		return []Change{{Kind: KindSnapshot, Members: r.list(), Count: r.size()}}, false
	case changed:
		changes = append(changes, Change{Kind: KindCount})
	}
	return r.counted(changes), false
}

// apply takes a diff.
func (r *roster) apply(d *rollcall.Diff) (changes []Change, gap bool) {
	if !r.known || r.mode != wire.ModeFull {
		return nil, true
	}
	if d.Version <= r.version {
		return nil, false
	}
	if d.Prev != r.version {
		return nil, true
	}
	for _, l := range d.Leave {
		if old := r.members[l.User]; old != nil {
			delete(r.members, l.User)
			delete(r.stale, l.User)
			changes = append(changes, Change{Kind: KindLeave, Member: old, Reason: l.Reason})
		}
	}
	for _, m := range d.Join {
		changes = r.put(changes, m)
	}
	for _, m := range d.Update {
		if r.members[m.User] != nil {
			changes = r.put(changes, m)
		}
	}
	r.version = d.Version
	return r.counted(changes), false
}

func (r *roster) put(changes []Change, m *rollcall.Member) []Change {
	changes = appendArrival(changes, r.members[m.User], m)
	r.members[m.User] = m
	delete(r.stale, m.User)
	return changes
}

// recount takes a count.
func (r *roster) recount(c *wire.Count) (changes []Change, gap bool) {
	switch {
	case !r.known:
		return nil, true
	case c.Version < r.version:
		return nil, false
	case r.mode != wire.ModeCounts:
		return nil, c.Version > r.version // a change of mode was missed
	}
	if c.Count != r.count {
		changes = []Change{{Kind: KindCount}}
	}
	r.version, r.count = c.Version, c.Count
	if c.Sample != nil {
		r.sample = c.Sample
	}
	return r.counted(changes), false
}

// confirm takes a resumed.
func (r *roster) confirm(e *wire.Resumed) (gap bool) {
	return !r.known || e.Epoch != r.epoch || e.Version != r.version
}

// settle gives up the members that did not come back in time, once the settling
// is over.
func (r *roster) settle(now time.Time) (changes []Change) {
	if r.settled.IsZero() || now.Before(r.settled) {
		return nil
	}
	r.settled = time.Time{}
	for id := range r.stale {
		changes = append(changes, Change{Kind: KindLeave, Member: r.members[id]})
		delete(r.members, id)
	}
	r.stale = nil
	return r.counted(changes)
}

// size is the number of members, those that may be on their way back too.
func (r *roster) size() int {
	if r.mode == wire.ModeCounts {
		return r.count
	}
	return len(r.members)
}

// list is everybody, newest join first; the sample in counts mode.
func (r *roster) list() []*rollcall.Member {
	if r.mode == wire.ModeCounts {
		return slices.Clone(r.sample)
	}
	list := make([]*rollcall.Member, 0, len(r.members))
	for _, m := range r.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *rollcall.Member) int {
		return cmp.Or(cmp.Compare(b.Since, a.Since), cmp.Compare(a.User, b.User))
	})
	return list
}

// counted fills in the count that each change leads to. Leaves stand before
// joins, so it is counted back from the end.
func (r *roster) counted(changes []Change) []Change {
	n := r.size()
	for i := range slices.Backward(changes) {
		changes[i].Count = n
		switch changes[i].Kind {
		case KindJoin:
			n--
		case KindLeave:
			n++
		}
	}
	return changes
}

// appendArrival tells how m changes the roster that had old.
func appendArrival(changes []Change, old, m *rollcall.Member) []Change {
	switch {
	case old == nil:
		return append(changes, Change{Kind: KindJoin, Member: m})
	case !sameMember(old, m):
		return append(changes, Change{Kind: KindUpdate, Member: m})
	}
	return changes
}

func sameMember(a, b *rollcall.Member) bool {
	return a.User == b.User && a.Status == b.Status && a.Connections == b.Connections && a.Since == b.Since &&
		bytes.Equal(a.Info, b.Info) && bytes.Equal(a.Data, b.Data)
}
