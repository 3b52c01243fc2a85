package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"rollcall"
)

// Watcher is a reader of the feed that believes nothing: it checks every frame
// against the one before it, and keeps for every room the naive copy that a
// client would keep. Safe for concurrent use, as frames of different partitions
// may come at once.
type Watcher struct {
	busy  [rollcall.Partitions]atomic.Bool
	modes func(rollcall.RoomID) rollcall.Modes // static; of each room

	mu      sync.Mutex
	seq     map[int]uint64           // Guarded by mu. Of each partition, the last.
	version map[int]rollcall.Version // Guarded by mu. Of each partition, the greatest.
	rooms   map[rollcall.RoomID]*view
	events  []Event
	ended   []rollcall.Ended
	bare    []bareUpdate
	faults  []error
	frames  int
	people  people // Guarded by mu.
}

// view is the copy of one room.
type view struct {
	version   rollcall.Version
	mode      rollcall.Mode
	forgotten bool // nobody is here, so that the next change may have no Prev
	members   map[rollcall.UserID]*rollcall.Member
	roster    *rollcall.Roster
	history   []moment
}

type moment struct {
	version rollcall.Version
	members map[rollcall.UserID]*rollcall.Member
}

// bareUpdate is an update that told nothing but a number of connections.
type bareUpdate struct {
	room rollcall.RoomID
	user rollcall.UserID
}

// historyKept is how many states of a room are remembered to try
// [rollcall.Roster.Since] from.
const historyKept = 48

// NewWatcher makes a watcher of a store with these settings; hand its Frame to
// Store.Feed.
func NewWatcher(o Options) *Watcher {
	base := rollcall.RoomSettings{Modes: o.Modes}
	if o.Modes == (rollcall.Modes{}) {
		base.Modes = rollcall.DefaultModes()
	}
	return &Watcher{
		modes: func(room rollcall.RoomID) rollcall.Modes { return o.Rules.Of(room, base).Modes },
		seq:   make(map[int]uint64), version: make(map[int]rollcall.Version), rooms: make(map[rollcall.RoomID]*view),
	}
}

// Frame takes one frame of the feed.
func (w *Watcher) Frame(f *rollcall.Frame) {
	if !w.busy[f.Partition].CompareAndSwap(false, true) {
		w.mu.Lock()
		w.fault("frames of partition %d were handed over at the same time", f.Partition)
		w.mu.Unlock()
		return
	}
	defer w.busy[f.Partition].Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frames++
	if last, ok := w.seq[f.Partition]; ok && f.Seq != last+1 {
		w.fault("frame %d of partition %d after %d", f.Seq, f.Partition, last)
	}
	w.seq[f.Partition] = f.Seq
	w.people.frame(f)
	if len(f.Changes)+len(f.Users)+len(f.Revoked) == 0 {
		w.fault("frame %d of partition %d tells nothing", f.Seq, f.Partition)
	}
	for i := range f.Changes {
		w.change(f, &f.Changes[i])
	}
}

// Watch starts to watch a room from a snapshot.
func (w *Watcher) watch(room rollcall.RoomID, a *rollcall.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &view{version: a.Version, mode: a.Mode, members: make(map[rollcall.UserID]*rollcall.Member), roster: rollcall.NewRoster(a)}
	for _, m := range a.Members {
		v.members[m.User] = m
	}
	v.forgotten = len(a.Members) == 0
	v.remember()
	w.rooms[room] = v
}

func (w *Watcher) fault(format string, args ...any) {
	if len(w.faults) < 10 {
		w.faults = append(w.faults, fmt.Errorf(format, args...))
	}
}

func (w *Watcher) change(f *rollcall.Frame, c *rollcall.Change) {
	w.ended = append(w.ended, c.Ended...)
	if f.Partition != rollcall.PartitionOf(c.Room) {
		w.fault("room %q in a frame of partition %d", c.Room, f.Partition)
	}
	listed := len(c.Join) + len(c.Update) + len(c.Leave)
	v := w.rooms[c.Room]
	if v == nil {
		v = &view{members: make(map[rollcall.UserID]*rollcall.Member), forgotten: true}
		v.roster = rollcall.NewRoster(&rollcall.Answer{Epoch: f.Epoch})
		w.rooms[c.Room] = v
	}
	if c.Version == c.Prev {
		if listed > 0 || len(c.Ended) == 0 {
			w.fault("change of %q changes its roster and not its version %d", c.Room, c.Version)
		}
		if c.Count != len(v.members) {
			w.fault("count %d of %q, with %d members", c.Count, c.Room, len(v.members))
		}
		w.checkMode(v, c)
		return
	}
	if last := w.version[f.Partition]; c.Version <= last {
		w.fault("version %d of %q after version %d of its partition", c.Version, c.Room, last)
	}
	w.version[f.Partition] = c.Version
	switch {
	case c.Prev == 0 && v.forgotten:
	case c.Prev != v.version:
		w.fault("change of %q goes on from version %d, but the one before it led to %d", c.Room, c.Prev, v.version)
	}
	w.apply(v, c)
	if !v.roster.Apply(c) {
		w.fault("a roster of %q at %d refused the change from %d to %d", c.Room, v.version, c.Prev, c.Version)
	}
	v.version = c.Version
	v.forgotten = len(v.members) == 0
	w.checkMode(v, c)
	if c.Count != len(v.members) {
		w.fault("count %d of %q, with %d members", c.Count, c.Room, len(v.members))
	}
	v.remember()
}

// checkMode checks S7: a room changes its mode at its thresholds and nowhere else.
func (w *Watcher) checkMode(v *view, c *rollcall.Change) {
	m, want := w.modes(c.Room), v.mode
	switch {
	case want == rollcall.ModeFull && c.Count > m.Above:
		want = rollcall.ModeCounts
	case want == rollcall.ModeCounts && c.Count < m.Below:
		want = rollcall.ModeFull
	}
	if c.Mode != want || c.Switched != (want != v.mode) {
		w.fault("%q has mode %v (switched: %v) with %d members, after mode %v", c.Room, c.Mode, c.Switched, c.Count, v.mode)
	}
	v.mode = want
}

// apply makes a change in the naive copy.
func (w *Watcher) apply(v *view, c *rollcall.Change) {
	once := make(map[rollcall.UserID]bool)
	name := func(user rollcall.UserID) {
		if once[user] {
			w.fault("%q stands twice in one change of %q", user, c.Room)
		}
		once[user] = true
	}
	for _, m := range c.Join {
		name(m.User)
		if v.members[m.User] != nil {
			w.fault("%q joined %q twice", m.User, c.Room)
		}
		if m.Connections < 1 {
			w.fault("%q joined %q with %d connections", m.User, c.Room, m.Connections)
		}
		v.members[m.User] = m
		w.events = append(w.events, Event{Room: c.Room, User: m.User})
	}
	for _, m := range c.Update {
		name(m.User)
		before := v.members[m.User]
		if before == nil {
			w.fault("update of %q, who is not in %q", m.User, c.Room)
			continue
		}
		if before.Since != m.Since {
			w.fault("an update of %q in %q moved its join", m.User, c.Room)
		}
		if before.Status == m.Status && bytes.Equal(before.Info, m.Info) && bytes.Equal(before.Data, m.Data) {
			if before.Connections == m.Connections {
				w.fault("an update of %q in %q tells nothing", m.User, c.Room)
			}
			w.bare = append(w.bare, bareUpdate{c.Room, m.User})
		}
		v.members[m.User] = m
	}
	for _, l := range c.Leave {
		name(l.User)
		if v.members[l.User] == nil {
			w.fault("%q left %q without being there", l.User, c.Room)
		}
		if l.Reason == rollcall.ReasonNone {
			w.fault("%q left %q for no reason", l.User, c.Room)
		}
		delete(v.members, l.User)
		w.events = append(w.events, Event{Room: c.Room, User: l.User, Reason: l.Reason})
	}
}

func (v *view) remember() {
	v.history = append(v.history, moment{v.version, maps.Clone(v.members)})
	if len(v.history) > historyKept {
		// The oldest stays, so that the way back is tried over many departures too.
		v.history = append(v.history[:1], v.history[2:]...)
	}
}

// checkSince tries Roster.Since from every state that is remembered: what it
// tells, applied by a client that knows nothing, is the present.
func (w *Watcher) checkSince(room rollcall.RoomID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.rooms[room]
	if v == nil {
		return nil
	}
	if err := sameMembers(v.roster.Members(), v.members); err != nil {
		return fmt.Errorf("the roster of %q: %w", room, err)
	}
	if v.roster.Count() != len(v.members) || v.roster.Version() != v.version {
		return fmt.Errorf("the roster of %q: count %d at version %d, want %d at %d", room, v.roster.Count(), v.roster.Version(), len(v.members), v.version)
	}
	if _, ok := v.roster.Since(v.version + 1); ok {
		return fmt.Errorf("the roster of %q knows what follows a version that does not exist", room)
	}
	for i, then := range v.history {
		d, ok := v.roster.Since(then.version)
		if !ok {
			if i > 0 && len(v.history) < 16 {
				return fmt.Errorf("the roster of %q forgot version %d, %d changes ago", room, then.version, len(v.history)-i)
			}
			continue
		}
		if err := checkDiff(&d, then, v); err != nil {
			return fmt.Errorf("since version %d of %q (%+v): %w", then.version, room, d, err)
		}
	}
	return nil
}

func checkDiff(d *rollcall.Diff, then moment, now *view) error {
	if d.Prev != then.version || d.Version != now.version || d.Count != len(now.members) {
		return fmt.Errorf("from %d to %d, count %d; want from %d to %d, count %d", d.Prev, d.Version, d.Count, then.version, now.version, len(now.members))
	}
	members := maps.Clone(then.members)
	once := make(map[rollcall.UserID]bool)
	for _, l := range d.Leave {
		if once[l.User] || members[l.User] == nil {
			return fmt.Errorf("%q leaves twice, or without being there", l.User)
		}
		once[l.User] = true
		delete(members, l.User)
	}
	for _, m := range d.Join {
		if once[m.User] || members[m.User] != nil {
			return fmt.Errorf("%q joins twice, or while there", m.User)
		}
		once[m.User] = true
		members[m.User] = m
	}
	for _, m := range d.Update {
		if once[m.User] || members[m.User] == nil {
			return fmt.Errorf("%q is updated twice, or without being there", m.User)
		}
		once[m.User] = true
		members[m.User] = m
	}
	var list []*rollcall.Member
	for _, m := range members {
		list = append(list, m)
	}
	if d.Empty() != (len(once) == 0) {
		return fmt.Errorf("Empty is %v with %d in the lists", d.Empty(), len(once))
	}
	return sameMembers(list, now.members)
}

// sameMembers compares a list with a map.
func sameMembers(list []*rollcall.Member, want map[rollcall.UserID]*rollcall.Member) error {
	once := make(map[rollcall.UserID]bool)
	for _, m := range list {
		if once[m.User] {
			return fmt.Errorf("%q is listed twice", m.User)
		}
		once[m.User] = true
		if want[m.User] == nil {
			return fmt.Errorf("%q is listed and ought not to be here", m.User)
		}
		if err := differ(m, want[m.User]); err != nil {
			return err
		}
	}
	for user := range want {
		if !once[user] {
			return fmt.Errorf("%q is here and not listed", user)
		}
	}
	return nil
}

// fault is the first thing that was wrong so far.
func (w *Watcher) firstFault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) > 0 {
		return w.faults[0]
	}
	return nil
}

// Version is the version of the copy of a room.
func (w *Watcher) versionOf(room rollcall.RoomID) (version rollcall.Version, members map[rollcall.UserID]*rollcall.Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.rooms[room]; v != nil {
		return v.version, maps.Clone(v.members)
	}
	return 0, nil
}

// pending is how many events and ends wait to be taken.
func (w *Watcher) pending() (events, ended int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.events), len(w.ended)
}

// take hands over what happened since the last call.
func (w *Watcher) take() (events []Event, ended []rollcall.Ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, ended = w.events, w.ended
	w.events, w.ended = nil, nil
	return events, ended
}

// takeBare hands over the bare updates since the last call.
func (w *Watcher) takeBare() []bareUpdate {
	w.mu.Lock()
	defer w.mu.Unlock()
	bare := w.bare
	w.bare = nil
	return bare
}
