package server

import (
	"sync"
	"time"
)

// lookout reads again what streams look at of rooms: pages and contacts that have
// changed, each room at most once a second, whatever the number of streams.
type lookout struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	// mu is taken with a room locked, and nothing is taken under it.
	mu    sync.Mutex
	rooms map[*room]instant // Guarded by mu. When each is due.
}

func newLookout(h *hub) *lookout {
	return &lookout{h: h, wake: make(chan struct{}, 1), rooms: make(map[*room]instant)}
}

// look has a room looked at, at the time or before.
func (l *lookout) look(r *room, at instant) {
	l.mu.Lock()
	due, waits := l.rooms[r]
	if !waits || at < due {
		l.rooms[r] = at
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lookout) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.h.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		due, wait := l.due(l.h.clock.now())
		for _, r := range due {
			r.lookAgain()
		}
		timer.Reset(wait)
	}
}

// due takes the rooms whose time has come, and tells how long to wait for the next.
func (l *lookout) due(now instant) (due []*room, wait time.Duration) {
	wait = time.Hour
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, at := range l.rooms {
		if left := at.sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, r)
		delete(l.rooms, r)
	}
	if len(due) > 0 {
		wait = 0 // it may have become later meanwhile
	}
	return due, wait
}

// lookAgain reads what is old, and has it told.
func (r *room) lookAgain() {
	r.mu.Lock()
	w, now := r.windows, r.h.clock.now()
	if w.settles != 0 && w.settles <= now {
		w.settles = 0
		r.loseWindowsLocked()
	}
	if w.looked.add(windowEvery) > now {
		r.lookLaterLocked()
		r.mu.Unlock()
		return
	}
	w.looked = now
	pages, users := w.stalePages, w.staleSeen
	w.stalePages, w.staleSeen = nil, nil
	for _, p := range pages {
		p.queued = false
	}
	for _, u := range users {
		u.queued = false
	}
	r.mu.Unlock()
	for _, p := range pages {
		r.readPage(r.h.ctx, p)
	}
	r.lookUp(r.h.ctx, users)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pages {
		if p.stale() { // also if the store could not be asked
			r.queuePageLocked(p)
		}
	}
	for _, u := range users {
		if u.stale() {
			r.queueSeenLocked(u)
		}
	}
	r.lookLaterLocked()
	r.tellSoonLocked()
}

// lookLaterLocked has the lookout come again for what is left.
func (r *room) lookLaterLocked() {
	w := r.windows
	if len(w.stalePages)+len(w.staleSeen) > 0 {
		r.h.lookout.look(r, r.lookAtLocked())
	}
	if w.settles != 0 {
		r.h.lookout.look(r, w.settles)
	}
}
