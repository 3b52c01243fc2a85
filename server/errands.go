package server

import (
	"context"
	"sync"

	"github.com/cespare/xxhash/v2"

	"rollcall"
	"rollcall/server/auth"
)

// errands are calls of the store that somebody who holds a lock, or must not
// wait, has to leave to somebody else. A few runners carry them out: those of one
// connection, room or user in their order, by one of them. There is no bound on
// their number but what is connected.
type errands struct {
	h       *hub
	runners [errandRunners]runner
}

// errandRunners is how many errands are carried out at a time. They wait for the
// store, and do little else.
const errandRunners = 16

type runner struct {
	wake chan struct{} // capacity 1; never closed

	mu    sync.Mutex
	queue []func() // Guarded by mu.
}

func newErrands(h *hub) *errands {
	e := &errands{h: h}
	for i := range e.runners {
		e.runners[i].wake = make(chan struct{}, 1)
	}
	return e
}

// add has do done, after whatever else was added of the same name.
func (e *errands) add(name string, do func()) {
	r := &e.runners[xxhash.Sum64String(name)%errandRunners]
	r.mu.Lock()
	r.queue = append(r.queue, do)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// start starts the runners.
func (e *errands) start() {
	for i := range e.runners {
		e.h.wg.Go(func() { e.runners[i].run(e.h.ctx) })
	}
}

func (r *runner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for {
			r.mu.Lock()
			queue := r.queue
			r.queue = nil
			r.mu.Unlock()
			if len(queue) == 0 {
				break
			}
			for _, do := range queue {
				do()
			}
		}
	}
}

// of adds an errand of a connection.
func (e *errands) of(c *connection, do func()) { e.add(string(c.id), do) }

// ended tells a connection of this node that its lease has ended.
func (e *errands) ended(room rollcall.RoomID, ended rollcall.Ended) {
	if e.h.connections.get(ended.Connection) == nil {
		return
	}
	e.add(string(ended.Connection), func() { e.h.leaseEnded(room, ended) })
}

// mend reads a room again after a change was missed.
func (e *errands) mend(r *room) {
	e.add(string(r.id), func() {
		if err := r.mend(e.h.ctx); err != nil && e.h.ctx.Err() == nil {
			r.keeper().unread.add(r)
		}
	})
}

// lost grants a lease again that the store has forgotten, or that has been replaced:
// granted to the same connection on another node.
func (e *errands) lost(l rollcall.Lease, replaced bool) {
	e.add(string(l.Connection), func() {
		if c := e.h.connections.get(l.Connection); c != nil {
			c.op.Lock()
			defer c.op.Unlock()
			c.regrant(l.Room, l.Generation, replaced)
		}
	})
}

// set carries out the sets of a connection that waited.
func (e *errands) set(c *connection) { e.of(c, c.applySets) }

// tokenEnded ends the leases of a connection whose token has run out, unless it has
// come back with another one.
func (e *errands) tokenEnded(c *connection, token *auth.Identity) {
	e.of(c, func() {
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
