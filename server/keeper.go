package server

import (
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall"
)

// keeper tells the store what is due: the evidence, what could not be told while
// the store was away, and the time. It is the only one that goes on trying a
// store that fails, so nobody else has to wait for it.
//
// Its mu is taken by those who hold a connection or a room, and no other lock is
// taken under it.
type keeper struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	mu       sync.Mutex
	renewals []*connection             // Guarded by mu. With evidence that the store has not heard of.
	urgent   bool                      // Guarded by mu. One of them has little time left.
	renewed  instant                   // Guarded by mu. When the store was last told.
	recalls  []*connection             // Guarded by mu. To be renewed because the store has another memory.
	owed     map[leaseName]rollcall.Op // Guarded by mu. Ends and closes that could not be told.
	waiting  map[*connection]bool      // Guarded by mu. With grants or sets that could not be made.
	unread   map[*room]bool            // Guarded by mu. To be read once the store can be.
	settling map[*room]bool            // Guarded by mu. To be read again when the store has settled.
	unseen   map[*connection]bool      // Guarded by mu. Hidden, and without a stream: nothing else ends them.
}

// leaseName names a lease among those of a node.
type leaseName struct {
	room       rollcall.RoomID
	connection rollcall.ConnectionID
}

func newKeeper(h *hub) *keeper {
	return &keeper{
		h: h, wake: make(chan struct{}, 1), owed: make(map[leaseName]rollcall.Op),
		waiting: make(map[*connection]bool), unread: make(map[*room]bool),
		settling: make(map[*room]bool), unseen: make(map[*connection]bool),
	}
}

// rouse has the keeper look at once.
func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// renew has the leases of c renewed, soon if urgent.
func (k *keeper) renew(c *connection, urgent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewals = append(k.renewals, c)
	k.urgent = k.urgent || urgent
}

func (k *keeper) hurry() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.urgent = true
}

// recall has every lease renewed, spread over a second: those that the store has
// lost come to light.
func (k *keeper) recall() {
	var all []*connection
	k.h.connections.each(func(c *connection) { all = append(all, c) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recalls = all
}

// owe has operations carried out when the store can be reached again.
func (k *keeper) owe(ops []rollcall.Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, op := range ops {
		k.owed[leaseName{op.Room, op.Connection}] = op
	}
}

// wait has the grants of c made when the store can be reached again.
func (k *keeper) wait(c *connection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[c] = true
}

// read has a room read when the store can be reached again.
func (k *keeper) read(r *room) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unread[r] = true
}

// settle has a room read again when the store has settled.
func (k *keeper) settle(r *room) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settling[r] = true
}

// mind has a hidden connection without a stream forgotten when it goes silent.
func (k *keeper) mind(c *connection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unseen[c] = true
}

// forgetUnseen forgets the hidden connections that have been silent for their
// time.
func (k *keeper) forgetUnseen(now instant) {
	for _, c := range members(k, k.unseen) {
		c.mu.Lock()
		if now.sub(c.evidence) > c.unseenFor {
			c.settleLocked()
		}
		gone := c.gone
		c.mu.Unlock()
		if gone {
			k.mu.Lock()
			delete(k.unseen, c)
			k.mu.Unlock()
		}
	}
}

// members are the members of a set of the keeper at this moment, to be looked at
// without its lock.
func members[T comparable](k *keeper, set map[T]bool) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(set))
}

// taken empties a set of the keeper and returns what was in it.
func taken[T comparable](k *keeper, set map[T]bool) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := slices.Collect(maps.Keys(set))
	clear(set)
	return all
}

// forgetSilent forgets the leases of connections without a stream whose evidence
// is older than they run: they have ended, or go on on another node, and the news
// of that was lost.
func (k *keeper) forgetSilent(now instant) {
	k.h.connections.each(func(c *connection) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stream != nil || c.entering {
			return
		}
		for i := len(c.subs) - 1; i >= 0; i-- {
			if s := c.subs[i]; now.sub(c.evidence) > k.h.leaseOf(s)+k.h.timing.Lease {
				c.overLocked(s)
			}
		}
	})
}

func (k *keeper) run() {
	h := k.h
	var looked instant
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-k.wake:
		}
		k.sweep()
		h.tellHealth()
		k.forgetUnseen(h.clock.now())
		if h.isDown() {
			continue
		}
		now := h.clock.now()
		k.flush(now) // first: leases run
		k.pay()
		k.grant()
		k.reread(now)
		if h.shared && now.sub(looked) > h.timing.Lease {
			looked = now
			k.forgetSilent(now)
		}
		k.recallSome(now)
	}
}

// sweep has the store end what is due, and finds out whether it is there.
func (k *keeper) sweep() {
	began := time.Now()
	k.h.note(k.h.ctx, k.h.store.Tick(k.h.ctx))
	k.h.metrics.sweep.Observe(time.Since(began).Seconds())
}

// pay carries out what is owed.
func (k *keeper) pay() {
	k.mu.Lock()
	owed := k.owed
	if len(owed) == 0 {
		k.mu.Unlock()
		return
	}
	k.owed = make(map[leaseName]rollcall.Op)
	k.mu.Unlock()
	ops := make([]rollcall.Op, 0, len(owed))
	for _, op := range owed {
		ops = append(ops, op)
	}
	k.h.applyAll(ops)
}

// grantFor is how long the keeper makes grants before it looks at the rest again.
const grantFor = 300 * time.Millisecond

// grant makes the grants that could not be made.
func (k *keeper) grant() {
	began := time.Now()
	for _, c := range taken(k, k.waiting) {
		if time.Since(began) > grantFor {
			k.wait(c)
			continue
		}
		c.op.Lock()
		c.mu.Lock()
		subs := append([]*sub(nil), c.subs...)
		c.mu.Unlock()
		for _, s := range subs {
			c.grantWaiting(s)
		}
		c.op.Unlock()
		c.applySets()
	}
}

// reread reads the rooms that could not be read, and those whose store has
// settled by now.
func (k *keeper) reread(now instant) {
	unread := taken(k, k.unread)
	for _, r := range members(k, k.settling) {
		if r.settlesAt() > now {
			continue
		}
		k.mu.Lock()
		delete(k.settling, r)
		k.mu.Unlock()
		unread = append(unread, r)
	}
	for _, r := range unread {
		r.lose()
	}
}

// recallSome renews a part of the connections that are to be recalled.
func (k *keeper) recallSome(now instant) {
	k.mu.Lock()
	n := min(len(k.recalls), 50+len(k.recalls)/4)
	some := k.recalls[:n]
	k.recalls = k.recalls[n:]
	k.mu.Unlock()
	if n > 0 {
		k.tell(some, now)
	}
}

// flush tells the store of new evidence: every second, with a lease of 30 s, or
// at once where little time is left.
func (k *keeper) flush(now instant) {
	k.mu.Lock()
	if len(k.renewals) == 0 || !k.urgent && now.sub(k.renewed) < k.h.timing.Lease/30 {
		k.mu.Unlock()
		return
	}
	connections := k.renewals
	// The room of the list is kept: a connection that has to make room for
	// itself does so on the small stack of its reader.
	k.renewals = make([]*connection, 0, cap(connections))
	k.urgent, k.renewed = false, now
	k.mu.Unlock()
	for _, c := range connections {
		c.mu.Lock()
		c.renewing = false
		c.mu.Unlock()
	}
	k.tell(connections, now)
}

// unheard are the connections of renewals that a part of the store did not answer.
func (h *hub) unheard(renewals []rollcall.Renewal) []*connection {
	var some []*connection
	for i := range renewals {
		if r := &renewals[i]; r.Outcome == rollcall.Unheard {
			if c := h.connections.get(r.Lease.Connection); c != nil {
				some = append(some, c)
			}
		}
	}
	return some
}

// renewLater has the leases of connections renewed with one of the next calls.
func (k *keeper) renewLater(connections []*connection, urgent bool) {
	for _, c := range connections {
		c.mu.Lock()
		waits := c.renewing
		c.renewing = true
		c.mu.Unlock()
		if !waits {
			k.renew(c, urgent)
		}
	}
}

// tell renews the leases of connections by their evidence.
func (k *keeper) tell(connections []*connection, now instant) {
	h := k.h
	leases := make([]rollcall.Lease, 0, len(connections))
	ages := make([]time.Duration, 0, len(connections))
	for _, c := range connections {
		c.mu.Lock()
		for _, s := range c.subs {
			// What is too old to renew anything must not bring anything back.
			if age := now.sub(c.evidence); s.lease.Generation != 0 && !s.waiting && age < h.leaseOf(s) {
				leases = append(leases, s.lease)
				ages = append(ages, age)
			}
		}
		c.mu.Unlock()
	}
	if len(leases) == 0 {
		return
	}
	renewals := make([]rollcall.Renewal, len(leases))
	for i := range leases {
		renewals[i] = rollcall.Renewal{Lease: &leases[i], Age: max(ages[i], 0)}
	}
	if err := h.note(h.ctx, h.store.Renew(h.ctx, renewals)); err != nil {
		if unheard := h.unheard(renewals); len(unheard) > 0 {
			k.renewLater(unheard, false) // the rest was renewed
		} else {
			k.renewLater(connections, true)
			return
		}
	}
	h.metrics.renewals.Add(float64(len(renewals)))
	for i := range renewals {
		r := &renewals[i]
		switch l := r.Lease; r.Outcome {
		case rollcall.Lost, rollcall.Replaced:
			h.errands.lost(*l)
		case rollcall.Over:
			if r.Reason != rollcall.ReasonClosed {
				h.errands.ended(l.Room, rollcall.Ended{
					Connection: l.Connection, User: l.User, Generation: l.Generation, Reason: r.Reason,
				})
			}
		}
	}
}
