package server

import (
	"context"
	"sync"
	"time"

	"rollcall"
	"rollcall/store"
)

// estimates counts who is in the rooms that are declared `estimate`. These hold no
// leases, and the store knows no members of them: a connection is there for as
// long as its stream is. Each node knows its own users exactly, and the others by
// their sketches.
type estimates struct {
	h     *hub
	store store.Estimates // static; nil: there is no other node

	// asking is held while the store is asked.
	asking sync.Mutex

	// mu is taken with a connection locked, and nothing but the list of rooms is
	// looked at under it.
	mu      sync.Mutex
	rooms   map[rollcall.RoomID]*estimate // Guarded by mu.
	failing bool                          // Owned by run.
}

// estimate is one such room. Guarded by the mu of estimates.
type estimate struct {
	users   map[uint64]int     // connections of this node, by the hash of the user
	leaving map[uint64]instant // users whose last stream ended unannounced, and until when they count
	others  *rollcall.Sketch   // of the other nodes
	sum     *rollcall.Sketch   // of all; nil if it has to be made again
	changed bool               // since the other nodes were told
	told    instant            // when they were
	asked   instant            // when others was learned
	wanted  instant            // when anybody last wanted to know
}

// errEstimate refuses what takes a lease or a roster.
var errEstimate = rollcall.Errorf(rollcall.CodeConflict,
	"the room is declared `estimate`: it holds no leases, names nobody and has no signals; open a stream to be counted")

// estimateEvery is how often nodes exchange what they have.
const estimateEvery = time.Second

func newEstimates(h *hub) *estimates {
	e := &estimates{h: h, rooms: make(map[rollcall.RoomID]*estimate)}
	if h.shared {
		e.store, _ = h.store.(store.Estimates)
	}
	return e
}

// isEstimate reports whether a room is declared `estimate`.
func (h *hub) isEstimate(room rollcall.RoomID) bool { return h.settingsOf(room).Estimate }

// linger is how long a user counts whose stream has ended unannounced, so that a
// proxy that reloads shows nobody leaving.
func (h *hub) linger() time.Duration { return h.timing.Lease / 3 }

func (e *estimates) roomLocked(id rollcall.RoomID) *estimate {
	r := e.rooms[id]
	if r == nil {
		r = &estimate{users: make(map[uint64]int), leaving: make(map[uint64]instant), others: &rollcall.Sketch{}}
		e.rooms[id] = r
	}
	return r
}

// enterLocked counts a connection in. Called with c.mu held.
func (s *sub) enterLocked() {
	if s.estimated {
		return
	}
	s.estimated = true
	e, hash := s.c.h.estimates, s.c.h.witness.hash(s.c.user)
	s.c.h.witness.saw(s.id, s.c.user)
	e.mu.Lock()
	r := e.roomLocked(s.id)
	if _, lingers := r.leaving[hash]; r.users[hash] == 0 && !lingers {
		r.changed = true
		if r.sum != nil {
			r.sum.Add(hash, 1)
		}
	}
	delete(r.leaving, hash)
	r.users[hash]++
	e.mu.Unlock()
	e.show(s.id)
}

// exitLocked counts a connection out. Called with c.mu held.
func (s *sub) exitLocked() {
	if !s.estimated {
		return
	}
	s.estimated = false
	c := s.c
	e, hash := c.h.estimates, c.h.witness.hash(c.user)
	c.h.witness.saw(s.id, c.user)
	e.mu.Lock()
	r := e.roomLocked(s.id)
	if r.users[hash]--; r.users[hash] <= 0 {
		delete(r.users, hash)
		if c.stream == nil && !c.announced {
			r.leaving[hash] = c.h.clock.now().add(c.h.linger())
		} else {
			r.sum, r.changed = nil, true
		}
	}
	e.mu.Unlock()
	e.show(s.id)
}

// size is how many there are, and the standard error of that as a part of it.
func (r *estimate) size() (int, float64) {
	if r.others.Empty() {
		return len(r.users) + len(r.leaving), 0
	}
	if r.sum == nil {
		r.sum = r.own()
		r.sum.Merge(r.others)
	}
	return r.sum.Since(0)
}

// own is the sketch of the users of this node.
func (r *estimate) own() *rollcall.Sketch {
	s := &rollcall.Sketch{}
	for hash := range r.users {
		s.Add(hash, 1)
	}
	for hash := range r.leaving {
		s.Add(hash, 1)
	}
	return s
}

// show has the number told to those of this node who look at the room.
func (e *estimates) show(id rollcall.RoomID) {
	e.mu.Lock()
	n, standardError := e.roomLocked(id).size()
	e.mu.Unlock()
	r := e.h.known(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally
	if t == nil || t.count == n && t.standardError == standardError {
		return
	}
	t.count, t.standardError = n, standardError
	t.version = max(t.version+1, rollcall.Version(time.Now().UnixMicro()))
	r.forgetLocked()
	r.queueLocked()
}

// query answers for the store what is asked about such a room: the number, and
// nobody by name. Versions of nodes say nothing about each other, so each has an
// epoch of its own.
func (e *estimates) query(ctx context.Context, q *rollcall.Query) rollcall.Answer {
	now := e.h.clock.now()
	e.mu.Lock()
	r := e.roomLocked(q.Room)
	r.wanted = now
	ask := e.store != nil && now.sub(r.asked) > estimateEvery
	e.mu.Unlock()
	if ask {
		e.exchange(ctx, []rollcall.RoomID{q.Room}) // without an answer it is what is known
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := rollcall.Answer{
		Epoch: e.h.epoch() + rollcall.Epoch("~"+e.h.node), Version: rollcall.Version(time.Now().UnixMicro()),
		Mode: rollcall.ModeCounts, Estimate: true,
	}
	a.Count, a.StandardError = e.roomLocked(q.Room).size()
	a.Connections = a.Count
	return a
}

func (e *estimates) run() {
	for sleep(e.h.ctx, estimateEvery) == nil {
		rooms := e.due()
		if len(rooms) == 0 {
			continue
		}
		if e.store != nil && !e.h.anyDown() {
			err := e.exchange(e.h.ctx, rooms)
			if err != nil && !e.failing && e.h.ctx.Err() == nil {
				e.h.log.Warn("exchange estimates with the other nodes", "error", err)
			}
			e.failing = err != nil
		}
		for _, id := range rooms {
			e.show(id)
		}
	}
}

// due are the rooms to look at. It lets go of users who have left, and of rooms that
// nobody is in or wants to know of.
func (e *estimates) due() (rooms []rollcall.RoomID) {
	now := e.h.clock.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.rooms {
		for hash, until := range r.leaving {
			if until <= now {
				delete(r.leaving, hash)
				r.sum, r.changed = nil, true
			}
		}
		if len(r.users)+len(r.leaving) == 0 && !r.changed && now.sub(r.wanted) > e.h.timing.Lease && e.h.known(id) == nil {
			delete(e.rooms, id)
			continue
		}
		if e.store == nil {
			r.changed = false
		}
		rooms = append(rooms, id)
	}
	return rooms
}

// exchange tells the other nodes what has changed here, and what is about to be
// believed no more, and learns what they have.
func (e *estimates) exchange(ctx context.Context, rooms []rollcall.RoomID) error {
	e.asking.Lock()
	defer e.asking.Unlock()
	now := e.h.clock.now()
	own := make([]store.RoomSketch, 0, len(rooms))
	e.mu.Lock()
	for _, id := range rooms {
		r := e.roomLocked(id)
		s := store.RoomSketch{Room: id}
		if again := now.sub(r.told) > e.h.linger() && len(r.users)+len(r.leaving) > 0; r.changed || again {
			s.Sketch = r.own()
			r.changed, r.told = false, now
		}
		own = append(own, s)
	}
	e.mu.Unlock()
	others, err := e.store.Exchange(ctx, e.h.node, own)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range own {
		r := e.roomLocked(own[i].Room)
		if others == nil {
			r.changed = r.changed || own[i].Sketch != nil
			continue
		}
		r.others, r.sum, r.asked = others[i], nil, now
	}
	return err
}
