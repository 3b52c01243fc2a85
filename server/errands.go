package server

import (
	"sync"

	"rollcall"
	"rollcall/server/auth"
)

// errands are calls of the store that somebody who holds a lock, or must not
// wait, has to leave to somebody else. They are done in order, by one goroutine,
// and without a bound on their number but what is connected.
type errands struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	mu    sync.Mutex
	queue []func() // Guarded by mu.
}

func newErrands(h *hub) *errands { return &errands{h: h, wake: make(chan struct{}, 1)} }

func (e *errands) add(do func()) {
	e.mu.Lock()
	e.queue = append(e.queue, do)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *errands) run() {
	for {
		select {
		case <-e.h.ctx.Done():
			return
		case <-e.wake:
		}
		for {
			e.mu.Lock()
			queue := e.queue
			e.queue = nil
			e.mu.Unlock()
			if len(queue) == 0 {
				break
			}
			for _, do := range queue {
				do()
			}
		}
	}
}

// ended tells a connection of this node that its lease has ended.
func (e *errands) ended(room rollcall.RoomID, ended rollcall.Ended) {
	if e.h.connections.get(ended.Connection) == nil {
		return
	}
	e.add(func() { e.h.leaseEnded(room, ended) })
}

// mend reads a room again after a change was missed.
func (e *errands) mend(r *room) {
	e.add(func() {
		if err := r.mend(e.h.ctx); err != nil && e.h.ctx.Err() == nil {
			r.keeper().unread.add(r)
		}
	})
}

// lost grants a lease again that the store has forgotten, or that has been granted
// to the same connection on another node: whose claim is the newer one keeps it.
func (e *errands) lost(l rollcall.Lease) {
	e.add(func() {
		if c := e.h.connections.get(l.Connection); c != nil {
			c.op.Lock()
			defer c.op.Unlock()
			c.regrant(l.Room, l.Generation)
		}
	})
}

// set carries out the sets of a connection that waited.
func (e *errands) set(c *connection) { e.add(c.applySets) }

// tokenEnded ends the leases of a connection whose token has run out, unless it has
// come back with another one.
func (e *errands) tokenEnded(c *connection, token *auth.Identity) {
	e.add(func() {
		c.op.Lock()
		defer c.op.Unlock()
		c.mu.Lock()
		renewed := c.identity != token
		c.mu.Unlock()
		if !renewed {
			c.endHolding(rollcall.ReasonRevoked)
		}
	})
}
