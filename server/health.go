package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// degradedAfter is how long the store must have failed before viewers are told
// that what they see may be old.
const degradedAfter = 6 * time.Second

// unanswered is how long a sweep may take before the store is taken to hang.
const unanswered = time.Second

// health is what a keeper knows of its part of the store. While that fails nobody
// is removed and nobody is turned away: what is asked for waits.
type health struct {
	mu       sync.Mutex
	worked   time.Time // Guarded by mu. The last call that worked.
	asked    time.Time // Guarded by mu. When the sweep began that is on its way; zero if none is.
	down     bool      // Guarded by mu. The last call failed: further ones fail at once, but the keeper's.
	degraded bool      // Guarded by mu. Viewers have been told.
}

// errDown is the error of a call that was not made.
var errDown = errors.New("the store failed a moment ago")

func (s *health) ask(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = at
}

// note takes the result of a call of the store for what it says of its health.
func (k *keeper) note(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err // the caller went away
	}
	s := &k.health
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.worked, s.down = time.Now(), false
		return nil
	}
	if !s.down && k.h.ctx.Err() == nil {
		k.h.log.Warn("store fails", "partition", k.partition, "error", err)
	}
	s.down = true
	return err
}

// isDown reports whether calls of this part of the store are not to be made: the
// last one failed, or it has not answered the keeper for a while. The keeper goes
// on trying.
func (k *keeper) isDown() bool {
	s := &k.health
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down || !s.asked.IsZero() && time.Since(s.asked) > unanswered
}

// anyDown reports whether calls of the whole store are not to be made.
func (h *hub) anyDown() bool {
	return slices.ContainsFunc(h.keepers, (*keeper).isDown)
}

// applyOps calls the store, unless it has just failed. In a parted store the
// operations are of one partition.
func (h *hub) applyOps(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	k := h.keeperOf(rollcall.PartitionOf(ops[0].Room))
	if k.isDown() {
		return nil, errDown
	}
	results, err := h.store.Apply(ctx, ops)
	return results, k.note(ctx, err)
}

// applyAll carries out operations now, or when the store can be reached again.
func (h *hub) applyAll(ops []rollcall.Op) {
	parts := h.byKeeper(ops)
	var all sync.WaitGroup
	for k, some := range parts {
		apply := func() {
			if _, err := h.applyOps(h.ctx, some); err != nil {
				k.owe(some)
			}
		}
		if len(parts) == 1 {
			apply()
		} else {
			all.Go(apply)
		}
	}
	all.Wait()
}

// byKeeper are operations by whose affair they are, in their order.
func (h *hub) byKeeper(ops []rollcall.Op) map[*keeper][]rollcall.Op {
	parts := make(map[*keeper][]rollcall.Op, 1)
	for _, op := range ops {
		k := h.keeperOf(rollcall.PartitionOf(op.Room))
		parts[k] = append(parts[k], op)
	}
	return parts
}

// usersByKeeper are users by whose affair their own partitions are.
func (h *hub) usersByKeeper(users []rollcall.UserID) map[*keeper][]rollcall.UserID {
	parts := make(map[*keeper][]rollcall.UserID, 1)
	for _, user := range users {
		k := h.keeperOf(rollcall.PartitionOfUser(user))
		parts[k] = append(parts[k], user)
	}
	return parts
}

// query asks the store, unless it has just failed.
func (h *hub) query(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if h.isEstimate(q.Room) {
		return h.estimates.query(ctx, &q), nil
	}
	k := h.keeperOf(rollcall.PartitionOf(q.Room))
	if k.isDown() {
		return rollcall.Answer{}, errDown
	}
	a, err := h.store.Read(ctx, q)
	return a, k.note(ctx, err)
}

// stale is how old what viewers see may be; degraded whether they are told.
func (k *keeper) stale() (age time.Duration, degraded bool) {
	s := &k.health
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.worked), s.degraded
}

// tellHealth tells the streams concerned when the store has failed for a while, and
// when it works again.
func (k *keeper) tellHealth() {
	h, s := k.h, &k.health
	s.mu.Lock()
	age := time.Since(s.worked)
	degraded := s.down && age > min(degradedAfter, h.timing.Lease/2)
	changed := degraded != s.degraded
	s.degraded = degraded
	s.mu.Unlock()
	if !changed {
		return
	}
	h.log.Warn("store", "degraded", degraded, "partition", k.partition)
	h.connections.each(func(c *connection) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stream != nil && c.stream.healthLocked() {
			c.stream.pumpLocked(nil)
		}
	})
}

// healthLocked tells the stream whether what it sees may be old, if that has
// changed: in any of its rooms, or, if it has none, in the whole store.
func (s *stream) healthLocked() bool {
	var age time.Duration
	degraded := false
	for _, sub := range s.c.subs {
		if a, bad := sub.keeper().stale(); bad {
			age, degraded = max(age, a), true
		}
	}
	if len(s.c.subs) == 0 {
		degraded = true
		for _, k := range s.c.h.keepers {
			a, bad := k.stale()
			age, degraded = max(age, a), degraded && bad
		}
	}
	if s.told || degraded == s.degraded {
		return false
	}
	if s.degraded = degraded; !degraded {
		age = 0
	}
	s.event(wire.EventHealth, wire.AppendHealth(nil, degraded, age))
	return true
}
