package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// degradedAfter is how long the store must have failed before viewers are told
// that what they see may be old.
const degradedAfter = 6 * time.Second

// health is what the node knows of its store. While the store fails nobody is
// removed and nobody is turned away: what is asked for waits.
type health struct {
	mu       sync.Mutex
	worked   time.Time // Guarded by mu. The last call that worked.
	down     bool      // Guarded by mu. The last call failed: further ones fail at once, but the keeper's.
	degraded bool      // Guarded by mu. Viewers have been told.
}

// errDown is the error of a call that was not made.
var errDown = errors.New("the store failed a moment ago")

// note takes the result of a call of the store for what it says of its health.
func (h *hub) note(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err // the caller went away
	}
	s := &h.health
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.worked, s.down = time.Now(), false
		return nil
	}
	if !s.down && h.ctx.Err() == nil {
		h.log.Warn("store fails", "error", err)
	}
	s.down = true
	return err
}

func (h *hub) isDown() bool {
	h.health.mu.Lock()
	defer h.health.mu.Unlock()
	return h.health.down
}

// applyOps calls the store, unless it has just failed.
func (h *hub) applyOps(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	if h.isDown() {
		return nil, errDown
	}
	results, err := h.store.Apply(ctx, ops)
	return results, h.note(ctx, err)
}

// query asks the store, unless it has just failed.
func (h *hub) query(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if h.isDown() {
		return rollcall.Answer{}, errDown
	}
	a, err := h.store.Read(ctx, q)
	return a, h.note(ctx, err)
}

// stale is how old what viewers see may be; degraded whether they are told.
func (h *hub) stale() (age time.Duration, degraded bool) {
	s := &h.health
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.worked), s.degraded
}

// tellHealth tells every stream when the store has failed for a while, and when
// it works again.
func (h *hub) tellHealth() {
	s := &h.health
	s.mu.Lock()
	age := time.Since(s.worked)
	degraded := s.down && age > min(degradedAfter, h.timing.Lease/2)
	if !s.down {
		degraded, age = false, 0
	}
	changed := degraded != s.degraded
	s.degraded = degraded
	s.mu.Unlock()
	if !changed {
		return
	}
	h.log.Warn("store", "degraded", degraded)
	h.connections.each(func(c *connection) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stream != nil && !c.stream.told {
			c.stream.event(wire.EventHealth, wire.AppendHealth(nil, degraded, age))
			c.stream.pumpLocked(nil)
		}
	})
}
