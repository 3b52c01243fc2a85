package server

import (
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall"
	"rollcall/store"
)

// keeper tells the store what is due: the evidence, what could not be told while
// the store was away, and the time. It is the only one that goes on trying a
// store that fails, so nobody else has to wait for it. A store that is parted has
// a keeper for each partition, and none waits for a partition but its own.
//
// Its locks are taken by those who hold a connection or a room, and no other lock
// is taken under them.
type keeper struct {
	h         *hub
	partition int           // static; -1: all of them
	bit       uint64        // static; in connection.renewing
	wake      chan struct{} // capacity 1; never closed
	health    health

	mu       sync.Mutex
	renewals []*connection             // Guarded by mu. With evidence that the store has not heard of.
	urgent   bool                      // Guarded by mu. One of them has little time left.
	renewed  instant                   // Guarded by mu. When the store was last told.
	recalls  []*connection             // Guarded by mu. To be renewed because the store has another memory.
	owed     map[leaseName]rollcall.Op // Guarded by mu. Ends and closes that could not be told.

	waiting  bag[*connection] // with grants or sets that could not be made
	unread   bag[*room]       // to be read once the store can be
	settling bag[*room]       // to be read again when the store has settled
}

// leaseName names a lease among those of a node.
type leaseName struct {
	room       rollcall.RoomID
	connection rollcall.ConnectionID
}

// newKeepers makes the keepers of a store.
func newKeepers(h *hub) []*keeper {
	if parted, ok := h.store.(store.Parted); !ok || !parted.Parted() {
		return []*keeper{newKeeper(h, -1)}
	}
	all := make([]*keeper, rollcall.Partitions)
	for i := range all {
		all[i] = newKeeper(h, i)
	}
	return all
}

func newKeeper(h *hub, partition int) *keeper {
	k := &keeper{
		h: h, partition: partition, bit: 1 << max(partition, 0), wake: make(chan struct{}, 1),
		owed: make(map[leaseName]rollcall.Op),
	}
	k.health.worked = time.Now()
	return k
}

// keeperOf is the keeper of a partition.
func (h *hub) keeperOf(partition int) *keeper {
	if len(h.keepers) == 1 {
		return h.keepers[0]
	}
	return h.keepers[partition]
}

func (s *sub) keeper() *keeper { return s.c.h.keeperOf(int(s.partition)) }

func (r *room) keeper() *keeper { return r.h.keeperOf(rollcall.PartitionOf(r.id)) }

// keeps reports whether a lease, or a view, is the keeper's affair.
func (k *keeper) keeps(s *sub) bool { return k.partition < 0 || k.partition == int(s.partition) }

// bag is a set that some put into and one takes out of. The zero value is empty.
type bag[T comparable] struct {
	mu  sync.Mutex
	set map[T]bool // Guarded by mu.
}

func (b *bag[T]) add(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = make(map[T]bool)
	}
	b.set[x] = true
}

func (b *bag[T]) remove(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.set, x)
}

// all is what is in the bag at this moment.
func (b *bag[T]) all() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.set))
}

// take empties the bag and returns what was in it.
func (b *bag[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Collect(maps.Keys(b.set))
	clear(b.set)
	return all
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

func (k *keeper) run() {
	h := k.h
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-k.wake:
		}
		k.sweep()
		k.tellHealth()
		if k.isDown() {
			continue
		}
		now := h.clock.now()
		k.flush(now) // first: leases run
		k.pay()
		k.grant()
		k.reread(now)
		k.recallSome(now)
	}
}

// sweep has the store end what is due, and finds out whether it is there.
func (k *keeper) sweep() {
	began := time.Now()
	k.health.ask(began)
	k.note(k.h.ctx, k.tick())
	k.health.ask(time.Time{})
	k.h.metrics.sweep.Observe(time.Since(began).Seconds())
}

func (k *keeper) tick() error {
	if k.partition < 0 {
		return k.h.store.Tick(k.h.ctx)
	}
	return k.h.store.(store.Parted).TickOne(k.h.ctx, k.partition)
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

const (
	// grantFor is how long the keeper makes grants before it looks at the rest again.
	grantFor = 300 * time.Millisecond
	// grantsAtOnce is the most connections of one call: a store that is slow to
	// answer is asked often enough for thousands in a few seconds.
	grantsAtOnce = 200
)

// grant makes the grants that could not be made, and the sets. It waits for no
// connection that asks the store for something else: that may be another part of
// it, which hangs.
func (k *keeper) grant() {
	began := time.Now()
	all := k.waiting.take()
	for len(all) > 0 && time.Since(began) <= grantFor {
		some := all[:min(len(all), grantsAtOnce)]
		all = all[len(some):]
		k.grantSome(some)
	}
	for _, c := range all {
		k.waiting.add(c)
	}
}

func (k *keeper) grantSome(connections []*connection) {
	var held []*connection
	defer func() {
		for _, c := range held {
			c.op.Unlock()
		}
	}()
	var subs []*sub
	var ops []rollcall.Op
	for _, c := range connections {
		if !c.op.TryLock() {
			k.waiting.add(c)
			continue
		}
		held = append(held, c)
		for _, s := range c.all() {
			if op, ok := c.waitingOp(s); ok && k.keeps(s) {
				subs, ops = append(subs, s), append(ops, op)
			}
		}
	}
	if len(ops) > 0 {
		results, err := k.h.applyOps(k.h.ctx, ops)
		for i, s := range subs {
			if err != nil {
				s.c.granted(s, rollcall.Result{}, k.h.unavailable(err))
			} else {
				s.c.granted(s, results[i], results[i].Err)
			}
		}
	}
	for _, c := range held {
		for _, s := range c.all() {
			if k.keeps(s) {
				c.applySet(k.h.ctx, s)
			}
		}
	}
}

// all are the subs of the connection at this moment.
func (c *connection) all() []*sub {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*sub(nil), c.subs...)
}

// reread reads the rooms that could not be read, and those whose store has
// settled by now.
func (k *keeper) reread(now instant) {
	unread := k.unread.take()
	for _, r := range k.settling.all() {
		if r.settlesAt() <= now {
			k.settling.remove(r)
			unread = append(unread, r)
		}
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
		c.renewing &^= k.bit
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
		waits := c.renewing&k.bit != 0
		c.renewing |= k.bit
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
			if age := now.sub(c.evidence); k.keeps(s) && s.lease.Generation != 0 && !s.waiting && age < h.leaseOf(s) {
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
	if err := k.note(h.ctx, h.store.Renew(h.ctx, renewals)); err != nil {
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
			h.errands.lost(*l, r.Outcome == rollcall.Replaced)
		case rollcall.Over:
			if r.Reason != rollcall.ReasonClosed {
				h.errands.ended(l.Room, rollcall.Ended{
					Connection: l.Connection, User: l.User, Generation: l.Generation, Reason: r.Reason,
				})
			}
		}
	}
}
