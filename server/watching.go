package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// watching is the users that streams of this node watch, wherever they are. Like
// a room it keeps what is true now, and of each stream what that was told.
type watching struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	// mu is taken with the lock of a connection or of a partition held, and
	// nothing is taken under it.
	mu      sync.Mutex
	users   map[rollcall.UserID]*watchedUser // Guarded by mu.
	streams map[*stream]*watchlist           // Guarded by mu.
	dirty   map[*stream]bool                 // Guarded by mu. To be told something.
	doubts  map[rollcall.UserID]instant      // Guarded by mu. To be asked about again, from then on.

	pruned instant // Owned by run. When streams that have ended were last let go of.
}

type watchedUser struct {
	status   rollcall.Status
	version  rollcall.Version
	watchers map[*stream]bool
}

type watchlist struct {
	shown map[rollcall.UserID]rollcall.Status // of each user, as told
	told  instant                             // when
}

const (
	usersEvery  = time.Second // least time between two events to a stream
	usersRetry  = time.Second // after a store that could not be asked
	usersAtOnce = 500         // users of one question
)

func newWatching(h *hub) *watching {
	return &watching{
		h: h, wake: make(chan struct{}, 1),
		users: make(map[rollcall.UserID]*watchedUser), streams: make(map[*stream]*watchlist),
		dirty: make(map[*stream]bool), doubts: make(map[rollcall.UserID]instant),
	}
}

func (w *watching) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watch has a stream told of users from now on, and returns those who are
// somewhere. It listens before it asks, so nothing falls in between.
func (w *watching) watch(ctx context.Context, st *stream, users []rollcall.UserID) ([]wire.UserStatus, error) {
	before := make(map[rollcall.UserID]rollcall.Version, len(users))
	l := &watchlist{shown: make(map[rollcall.UserID]rollcall.Status, len(users))}
	w.mu.Lock()
	w.dropLocked(st)
	w.streams[st] = l
	for _, id := range users {
		u := w.users[id]
		if u == nil {
			u = &watchedUser{watchers: make(map[*stream]bool)}
			w.users[id] = u
		}
		u.watchers[st] = true
		l.shown[id] = rollcall.StatusUnset
		before[id] = u.version
	}
	w.mu.Unlock()
	if len(users) == 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams[st] == l {
			delete(w.streams, st)
		}
		return nil, nil
	}
	a, err := w.h.whereabouts(ctx, users)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.streams[st] == l {
			w.dropLocked(st)
		}
		return nil, err
	}
	w.learnLocked(&a, before)
	var present []wire.UserStatus
	for _, id := range users {
		u := w.users[id]
		if u == nil {
			continue // another watch has taken the place of this one
		}
		l.shown[id] = u.status
		if u.status != rollcall.StatusUnset {
			present = append(present, wire.UserStatus{User: id, Status: u.status})
		}
	}
	l.told = w.h.clock.now()
	w.rouse() // so that an end of the stream is noticed
	return present, nil
}

// learnLocked takes an answer of the store, but of users of whom a change was
// heard since the question. While the store settles nobody is taken to be gone.
func (w *watching) learnLocked(a *rollcall.UsersAnswer, before map[rollcall.UserID]rollcall.Version) {
	for i := range a.Users {
		at := &a.Users[i]
		u := w.users[at.User]
		if u == nil || u.version != before[at.User] && at.Version <= u.version {
			continue
		}
		if at.Status == rollcall.StatusUnset && a.Settling > 0 {
			w.doubts[at.User] = w.h.clock.now().add(a.Settling + usersRetry)
			if u.status != rollcall.StatusUnset {
				continue
			}
		}
		u.version = max(u.version, at.Version)
		w.setLocked(u, at.Status)
	}
}

func (w *watching) setLocked(u *watchedUser, status rollcall.Status) {
	if u.status == status {
		return
	}
	u.status = status
	for st := range u.watchers {
		w.dirty[st] = true
	}
}

// dropLocked ends the watch of a stream.
func (w *watching) dropLocked(st *stream) {
	l := w.streams[st]
	if l == nil {
		return
	}
	delete(w.streams, st)
	delete(w.dirty, st)
	for id := range l.shown {
		if u := w.users[id]; u != nil {
			if delete(u.watchers, st); len(u.watchers) == 0 {
				delete(w.users, id)
				delete(w.doubts, id)
			}
		}
	}
}

// frame takes the changes of users of a frame. After a gap those are in doubt who
// are kept in the partition. It is called with a partition of the store locked.
func (w *watching) frame(f *rollcall.Frame) {
	if len(f.Users) == 0 && !f.Gap {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range f.Users {
		if u := w.users[c.User]; u != nil && c.Version > u.version {
			u.version = c.Version
			w.setLocked(u, c.Status)
		}
	}
	if f.Gap {
		now := w.h.clock.now()
		for id := range w.users {
			if rollcall.PartitionOfUser(id) == f.Partition {
				w.doubts[id] = now
			}
		}
	}
	if len(w.dirty)+len(w.doubts) > 0 {
		w.rouse()
	}
}

func (w *watching) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.h.ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		wait := min(w.reread(), w.tell())
		w.prune()
		timer.Reset(wait)
	}
}

// reread asks again about those in doubt, and returns when the next ones are due.
func (w *watching) reread() (wait time.Duration) {
	wait = w.h.timing.Lease
	now := w.h.clock.now()
	var users []rollcall.UserID
	before := make(map[rollcall.UserID]rollcall.Version)
	w.mu.Lock()
	for id, due := range w.doubts {
		switch left := due.sub(now); {
		case left > 0:
			wait = min(wait, left)
		case len(users) == usersAtOnce:
			wait = 0
		default:
			users = append(users, id)
			before[id] = w.users[id].version
			delete(w.doubts, id)
		}
	}
	w.mu.Unlock()
	if len(users) == 0 {
		return wait
	}
	var all sync.WaitGroup
	for _, some := range w.h.usersByKeeper(users) {
		all.Go(func() { w.ask(some, before) })
	}
	all.Wait()
	return min(wait, usersRetry)
}

// ask asks about some of those in doubt, again later if the store cannot be asked.
func (w *watching) ask(users []rollcall.UserID, before map[rollcall.UserID]rollcall.Version) {
	a, err := w.h.whereabouts(w.h.ctx, users)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.learnLocked(&a, before)
		return
	}
	for _, id := range users {
		if w.users[id] != nil {
			w.doubts[id] = w.h.clock.now().add(usersRetry)
		}
	}
}

// tell tells the streams that are due something, and returns when the next one may
// be told.
func (w *watching) tell() (wait time.Duration) {
	wait = w.h.timing.Lease
	w.mu.Lock()
	due := make([]*stream, 0, len(w.dirty))
	for st := range w.dirty {
		due = append(due, st)
	}
	w.mu.Unlock()
	for _, st := range due {
		if left := w.tellOne(st); left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

func (w *watching) tellOne(st *stream) (wait time.Duration) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	now := w.h.clock.now()
	w.mu.Lock()
	l := w.streams[st]
	if l == nil || !w.dirty[st] {
		w.mu.Unlock()
		return 0
	}
	if left := usersEvery - now.sub(l.told); left > 0 && l.told != 0 || st.busy {
		w.mu.Unlock()
		return max(left, usersEvery/4) // a slow reader gets what is newest then
	}
	delete(w.dirty, st)
	changes := &wire.UserChanges{}
	for id, shown := range l.shown {
		status := w.users[id].status
		if status == shown {
			continue
		}
		l.shown[id] = status
		if status == rollcall.StatusUnset {
			changes.Absent = append(changes.Absent, id)
		} else {
			changes.Present = append(changes.Present, wire.UserStatus{User: id, Status: status})
		}
	}
	if len(changes.Present)+len(changes.Absent) == 0 || c.stream != st || st.told || st.over {
		w.mu.Unlock()
		return 0
	}
	l.told = now
	w.mu.Unlock()
	slices.Sort(changes.Absent)
	slices.SortFunc(changes.Present, func(a, b wire.UserStatus) int { return strings.Compare(string(a.User), string(b.User)) })
	st.event(wire.EventUsers, wire.AppendUserChanges(nil, changes))
	st.pumpLocked(nil)
	return 0
}

// prune lets go of streams that have ended, now and then.
func (w *watching) prune() {
	now := w.h.clock.now()
	if now.sub(w.pruned) < w.h.timing.Lease/2 {
		return
	}
	w.pruned = now
	w.mu.Lock()
	streams := make([]*stream, 0, len(w.streams))
	for st := range w.streams {
		streams = append(streams, st)
	}
	w.mu.Unlock()
	for _, st := range streams {
		st.c.mu.Lock()
		ended := st.c.stream != st
		st.c.mu.Unlock()
		if ended {
			w.mu.Lock()
			w.dropLocked(st)
			w.mu.Unlock()
		}
	}
}
