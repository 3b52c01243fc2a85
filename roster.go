package rollcall

// Roster is a replica of one room in full mode: who is here, and what changed
// since any version that is not too long ago. A viewer is owed nothing but the
// version it was sent: [Roster.Since] gives the net difference from there.
type Roster struct {
	epoch   Epoch
	version Version
	// floor is the oldest version from which the difference is still known.
	floor   Version
	entries map[UserID]*entry
	order   joinOrder[*entry]
	recent  entry // ring of the entries, the most recently changed first
	left    []departure
	// common is the oldest version at which this replica is known to have been
	// what every other one was: a snapshot skips what was in between, and who was
	// unconfirmed here may have been missing there.
	common Version
	// gaps are the stretches of versions that a snapshot has skipped, oldest
	// first: what changed when within them is not known.
	gaps []versionGap
	// unconfirmed are members that the store has lost and may hear of again.
	unconfirmed map[UserID]bool
}

// entry is a member and the versions of its join and of its last change.
type entry struct {
	member     *Member
	joined     Version
	changed    Version
	place      int
	prev, next *entry
}

func (e *entry) setPlace(i int) { e.place = i }

// departure is a stay that has ended.
type departure struct {
	Leave
	joined, version Version
}

// versionGap is the versions between two that are known.
type versionGap struct{ from, to Version }

// gapsKept bounds the memory of gaps.
const gapsKept = 16

// departuresKept bounds the memory of departures: a viewer that is further
// behind takes a snapshot.
const departuresKept = 256

// NewRoster makes the replica of a snapshot.
func NewRoster(snapshot *Answer) *Roster {
	r := &Roster{}
	r.load(snapshot)
	return r
}

func (r *Roster) load(s *Answer) {
	// Versions that were told before say nothing of what is here now, also once
	// it has passed them.
	floor := s.Version
	if r.entries != nil && r.version >= s.Version {
		floor = r.version + 1
	}
	r.epoch, r.version, r.floor, r.common = s.Epoch, s.Version, floor, s.Version
	r.entries = make(map[UserID]*entry, len(s.Members))
	r.unconfirmed = nil
	r.order = joinOrder[*entry]{}
	r.left, r.gaps = nil, nil
	r.recent.prev, r.recent.next = &r.recent, &r.recent
	for i := len(s.Members) - 1; i >= 0; i-- {
		r.put(s.Members[i], 0, 0)
	}
}

// Epoch of the replica.
func (r *Roster) Epoch() Epoch { return r.epoch }

// Version of the replica.
func (r *Roster) Version() Version { return r.version }

// Count is the number of members.
func (r *Roster) Count() int { return len(r.entries) }

// Member is the member of a user; nil if not here.
func (r *Roster) Member(id UserID) *Member {
	if e := r.entries[id]; e != nil {
		return e.member
	}
	return nil
}

// Members lists everybody, newest join first.
func (r *Roster) Members() []*Member {
	all := make([]*Member, 0, len(r.entries))
	r.order.before(0, func(_ Version, e *entry) bool {
		all = append(all, e.member)
		return true
	})
	return all
}

// Apply makes the change. It reports false, and does nothing, if the change does
// not follow the state at hand: the replica then has to be mended by a snapshot.
// A change that is already part of the state is no fault.
func (r *Roster) Apply(c *Change) bool {
	if c.Version <= r.version {
		return true
	}
	reborn := c.Prev == 0 && (len(r.entries) == 0 || len(r.unconfirmed) > 0)
	if c.Prev != r.version && !reborn {
		return false
	}
	unconfirmed := len(r.unconfirmed)
	for _, l := range c.Leave {
		delete(r.unconfirmed, l.User)
		r.remove(l, c.Version)
	}
	for _, m := range c.Join {
		delete(r.unconfirmed, m.User)
		if e := r.entries[m.User]; e == nil || !sameMember(e.member, m) {
			r.put(m, c.Version, c.Version)
		}
	}
	for _, m := range c.Update {
		if e := r.entries[m.User]; e != nil {
			e.member = m
			r.touch(e, c.Version)
		}
	}
	r.version = c.Version
	if unconfirmed > 0 && len(r.unconfirmed) == 0 {
		r.common = c.Version
	}
	return true
}

// Mend brings the replica to a snapshot, as the difference from what it held:
// viewers are told what changed and nothing else. Who is missing is said to have
// expired; but while the store settles, they may be on their way back, and are
// kept until a later snapshot says the same.
func (r *Roster) Mend(s *Answer) {
	if s.Epoch == r.epoch && (s.Version < r.version || s.Version == r.version && len(r.unconfirmed) == 0) {
		return
	}
	if s.Epoch != r.epoch && s.Version <= r.version {
		r.load(s) // the clock of the new memory is behind: nothing compares
		return
	}
	// What changes has to have a version that nobody was sent yet.
	version := s.Version
	if version <= r.version {
		version = r.version + 1
	}
	here := make(map[UserID]bool, len(s.Members))
	for _, m := range s.Members {
		here[m.User] = true
	}
	clear(r.unconfirmed)
	changed := r.mendMissing(s, here, version)
	for i := len(s.Members) - 1; i >= 0; i-- {
		m := s.Members[i]
		e := r.entries[m.User]
		switch {
		case e == nil:
			r.put(m, version, version)
			changed = true
		case !sameMember(e.member, m):
			e.member = m
			r.touch(e, version)
			changed = true
		}
	}
	r.epoch = s.Epoch
	if changed || s.Version > r.version {
		r.skip(version)
		r.version = version
	}
	if r.common = r.version; r.version > s.Version {
		r.common++ // a version of our own
	}
}

// skip notes that nothing is known of the versions before to that are yet to
// come. Somebody who was told one of them elsewhere needs a snapshot.
func (r *Roster) skip(to Version) {
	if len(r.gaps) == gapsKept {
		r.floor = max(r.floor, r.gaps[0].to)
		r.gaps = append(r.gaps[:0], r.gaps[1:]...)
	}
	r.gaps = append(r.gaps, versionGap{r.version, to})
}

// mendMissing removes who is not in the snapshot, or keeps them while the store
// settles. It reports whether anybody was removed.
func (r *Roster) mendMissing(s *Answer, here map[UserID]bool, version Version) (changed bool) {
	for id := range r.entries {
		switch {
		case here[id]:
		case s.Settling > 0:
			if r.unconfirmed == nil {
				r.unconfirmed = make(map[UserID]bool)
			}
			r.unconfirmed[id] = true
		default:
			r.remove(Leave{User: id, Reason: ReasonExpired}, version)
			changed = true
		}
	}
	return changed
}

// Unconfirmed is the number of members that the store did not know when it last
// told of the room, because it had lost its memory.
func (r *Roster) Unconfirmed() int { return len(r.unconfirmed) }

// sameMember compares by value, as the members of a snapshot may be copies.
func sameMember(a, b *Member) bool {
	return a == b || a.Connections == b.Connections && a.Since == b.Since && sameButConnections(a, b)
}

// put adds or replaces a member.
func (r *Roster) put(m *Member, joined, changed Version) {
	e := r.entries[m.User]
	if e == nil {
		e = &entry{joined: joined}
		r.entries[m.User] = e
		r.order.push(max(joined, 1), e)
	}
	e.member = m
	r.touch(e, changed)
}

// touch moves e to the front of the recently changed.
func (r *Roster) touch(e *entry, changed Version) {
	e.changed = changed
	e.unlink()
	e.prev, e.next = &r.recent, r.recent.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry) unlink() {
	if e.prev != nil {
		e.prev.next, e.next.prev = e.next, e.prev
		e.prev, e.next = nil, nil
	}
}

func (r *Roster) remove(l Leave, version Version) {
	e := r.entries[l.User]
	if e == nil {
		return
	}
	delete(r.entries, l.User)
	r.order.remove(e.place)
	e.unlink()
	if len(r.left) >= departuresKept {
		half := len(r.left) / 2
		r.floor = r.left[half-1].version
		r.left = append(r.left[:0], r.left[half:]...)
	}
	r.left = append(r.left, departure{Leave: l, joined: e.joined, version: version})
}

// SinceElsewhere is [Roster.Since] for a version that may have been told by
// another replica of the room.
func (r *Roster) SinceElsewhere(v Version) (d Diff, ok bool) {
	if v < r.common {
		return Diff{}, false
	}
	return r.Since(v)
}

// Since is the net difference from version v to the present. It reports false if
// v is not a version from which that is known. Whoever came and went in between
// is not told; whoever went and came back is an update.
func (r *Roster) Since(v Version) (d Diff, ok bool) {
	if v < r.floor || v > r.version {
		return Diff{}, false
	}
	for _, g := range r.gaps {
		if v > g.from && v < g.to {
			return Diff{}, false
		}
	}
	d = Diff{Prev: v, Version: r.version, Count: len(r.entries)}
	var returned map[UserID]bool
	for i := len(r.left) - 1; i >= 0 && r.left[i].version > v; i-- {
		gone := &r.left[i]
		switch {
		case gone.joined > v: // came and went
		case r.entries[gone.User] != nil:
			if returned == nil {
				returned = make(map[UserID]bool)
			}
			returned[gone.User] = true
		default:
			d.Leave = append(d.Leave, gone.Leave)
		}
	}
	for e := r.recent.next; e != &r.recent && e.changed > v; e = e.next {
		if e.joined > v && !returned[e.member.User] {
			d.Join = append(d.Join, e.member)
		} else {
			d.Update = append(d.Update, e.member)
		}
	}
	return d, true
}
