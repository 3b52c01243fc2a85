package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// room is a room that somebody on this node watches, or did a moment ago: a
// replica, and the streams that are shown it.
type room struct {
	h        *hub
	id       rollcall.RoomID
	settings rollcall.RoomSettings // static

	holders int     // Guarded by the shard's mu. Who keeps the room from being dropped.
	idle    instant // Guarded by the shard's mu. When the last holder went.

	loading sync.Mutex // held by whoever reads the snapshot

	mu       sync.Mutex
	roster   *rollcall.Roster  // Guarded by mu. nil until loaded, and in counts mode.
	tally    *tally            // Guarded by mu. nil but in counts mode.
	samples  int               // Guarded by mu. How many samples there were.
	counts   [2]encoded        // Guarded by mu. The last count, without and with the sample.
	held     []rollcall.Change // Guarded by mu. Changes that came while the snapshot was being read.
	broken   bool              // Guarded by mu. A change was missed; a snapshot is on its way.
	losses   int               // Guarded by mu. How often changes may have been missed.
	settled  instant           // Guarded by mu. Until then members may be on their way back.
	viewers  []*sub            // Guarded by mu. sub.place is the index.
	queued   bool              // Guarded by mu. In the fan-out's list.
	since    time.Time         // Guarded by mu. The oldest change that is not yet fanned out.
	notified rollcall.Version  // Guarded by mu. The version of the last fan-out.
	ticked   instant           // Guarded by mu. When that was.
	counted  instant           // Guarded by mu. Counts mode: when the number was last fanned out.
	lively   bool              // Guarded by mu. Counts mode: there is more to tell than the number.
	windows  *windows          // Guarded by mu. nil before the first.
	signals  *roomSignals      // Guarded by mu. nil before the first.
	snapshot encoded           // Guarded by mu. An empty body has yet to be made; its array is used again.
	diffs    []encoded         // Guarded by mu. From several versions to the present one.
}

// encoded is the body of an event, shared by all streams that are due it.
type encoded struct {
	from, to rollcall.Version
	body     []byte // nil: there is nothing to tell
}

// watch returns the room with its replica loaded, or, while the store is away, one
// that is loaded once it can be. The caller must release it.
func (h *hub) watch(ctx context.Context, id rollcall.RoomID) *room {
	shard := &h.rooms[rollcall.PartitionOf(id)]
	shard.mu.Lock()
	r := shard.rooms[id]
	if r == nil {
		// The caller's string may be a piece of a whole request.
		r = &room{h: h, id: rollcall.RoomID(strings.Clone(string(id))), settings: h.settingsOf(id)}
		shard.rooms[r.id] = r
		h.metrics.watched.Inc()
	}
	r.holders++
	shard.mu.Unlock()
	if h.post != nil {
		h.post.subscribe(r)
	}
	if r.load(ctx) != nil {
		r.keeper().unread.add(r)
	}
	return r
}

// settingsOf are the settings of a room.
func (h *hub) settingsOf(id rollcall.RoomID) rollcall.RoomSettings {
	return h.rules.Of(id, rollcall.RoomSettings{Modes: h.modes})
}

// release lets go of a room. It stays for a lease, so that a stream that returns
// gets a difference.
func (r *room) release() {
	shard := &r.h.rooms[rollcall.PartitionOf(r.id)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	r.holders--
	r.idle = r.h.clock.now()
}

// dropIdle forgets the rooms that nobody has watched for a lease, and of the
// others what they keep encoded: a quiet room would keep it for good.
func (h *hub) dropIdle(now instant) {
	for i := range h.rooms {
		shard := &h.rooms[i]
		shard.mu.Lock()
		for id, r := range shard.rooms {
			r.mu.Lock()
			if r.holders == 0 && now.sub(r.idle) > h.timing.Lease && !r.signallingLocked() {
				if sg := r.signals; sg != nil && sg.stop != nil {
					sg.stop()
				}
				r.mu.Unlock()
				delete(shard.rooms, id)
				h.metrics.watched.Dec()
				continue
			}
			r.signals.dropEncodedLocked()
			r.snapshot, r.diffs = encoded{}, nil
			r.mu.Unlock()
		}
		shard.mu.Unlock()
	}
}

// load reads the snapshot, once. The room is in the hub's map already, so a
// change that comes meanwhile is held and not lost.
func (r *room) load(ctx context.Context) error {
	r.mu.Lock()
	loaded := r.loadedLocked()
	r.mu.Unlock()
	if loaded {
		return nil
	}
	return r.read(ctx)
}

// mend reads a snapshot after a change was missed.
func (r *room) mend(ctx context.Context) error { return r.read(ctx) }

func (r *room) read(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	for {
		r.mu.Lock()
		done, losses := r.loadedLocked() && !r.broken, r.losses
		r.mu.Unlock()
		if done {
			return nil
		}
		a, err := r.h.query(ctx, rollcall.Query{Want: rollcall.WantSnapshot, Room: r.id})
		if err != nil {
			return fmt.Errorf("read room: %w", err)
		}
		r.install(&a, losses)
	}
}

// install takes a snapshot, which was asked for after so many losses: of a later one
// it need not know.
func (r *room) install(a *rollcall.Answer, losses int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Settling > 0 {
		r.settled = r.h.clock.now().add(a.Settling)
	}
	// Where a number was shown, it is until all have had the time to come back: names
	// would begin with nobody.
	if a.Mode == rollcall.ModeCounts || r.tally != nil && a.Settling > 0 {
		r.installTallyLocked(a)
	} else {
		r.installRosterLocked(a)
	}
	r.broken = r.losses != losses
	r.forgetLocked()
	r.queueLocked()
	held := r.held
	r.held = nil
	for i := range held {
		r.applyLocked(&held[i])
	}
}

func (r *room) installRosterLocked(a *rollcall.Answer) {
	r.tally = nil
	if r.roster == nil {
		r.roster = rollcall.NewRoster(a)
		r.notified = r.roster.Version()
	} else {
		r.roster.Mend(a)
	}
	if r.roster.Unconfirmed() > 0 {
		r.keeper().settling.add(r)
	}
}

// lose has the room read again, since what is known of it may be old.
func (r *room) lose() {
	r.mu.Lock()
	r.broken = r.loadedLocked()
	r.losses++
	r.loseWindowsLocked()
	r.mu.Unlock()
	r.h.errands.mend(r)
}

// settlesAt is when the store will have settled, as far as the room was told.
func (r *room) settlesAt() instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled
}

// change takes one change from the feed.
func (r *room) change(ch *rollcall.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markLocked(ch)
	r.applyLocked(ch)
}

func (r *room) applyLocked(ch *rollcall.Change) {
	switch {
	case !r.loadedLocked() || r.broken:
		r.holdLocked(ch)
		return
	case ch.Switched:
		if _, version := r.positionLocked(); ch.Version > version {
			r.switchLocked(ch)
		}
		return
	case r.tally != nil && !r.tally.apply(ch), r.tally == nil && !r.roster.Apply(ch):
		r.breakLocked(ch)
		return
	}
	r.forgetLocked()
	r.queueLocked()
}

// heldMost is how many changes wait for a snapshot. With more of them, a newer
// snapshot is cheaper.
const heldMost = 1000

// holdLocked keeps a change until the room was read. What is not kept has to be in
// the snapshot: one that was asked for before does not do.
func (r *room) holdLocked(ch *rollcall.Change) {
	if len(r.held) >= heldMost {
		r.held = nil
		r.losses++
		return
	}
	r.held = append(r.held, *ch)
}

// forgetLocked forgets what was encoded of an older state.
func (r *room) forgetLocked() {
	r.snapshot.body = r.snapshot.body[:0]
	r.diffs = r.diffs[:0]
}

// queueLocked has the room fanned out with the next tick.
func (r *room) queueLocked() {
	if r.queued || len(r.viewers) == 0 {
		return
	}
	r.queued = true
	r.since = time.Now()
	r.h.fanout.add(r)
}

// tick begins a fan-out: it appends the connections that have to be shown
// something. It reports how long to wait if the room is not due yet.
func (r *room) tick(now instant, due []*connection) (_ []*connection, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loadedLocked() {
		r.queued = false
		return due, 0 // queued again once it is
	}
	if pace := r.paceLocked(); pace > tickEvery {
		if wait := pace - now.sub(r.ticked); wait > 0 {
			return due, wait
		}
	}
	if r.tally != nil {
		if wait := r.settings.Modes.Every - now.sub(r.counted); wait > 0 {
			return r.tickLivelyLocked(now, due), wait
		}
		r.counted = now
	}
	r.queued, r.lively = false, false
	r.ticked = now
	_, r.notified = r.positionLocked()
	r.signals.notifyLocked()
	for _, s := range r.viewers {
		if s.c.queued.CompareAndSwap(false, true) {
			due = append(due, s.c)
		}
	}
	r.h.metrics.lag.Observe(time.Since(r.since).Seconds())
	return due, 0
}

func (r *room) add(s *sub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.place = len(r.viewers)
	r.viewers = append(r.viewers, s)
}

func (r *room) remove(s *sub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeWindowsLocked(s)
	last := len(r.viewers) - 1
	r.viewers[s.place] = r.viewers[last]
	r.viewers[s.place].place = s.place
	r.viewers[last] = nil
	r.viewers = r.viewers[:last]
	if last == 0 {
		r.viewers = nil
	}
}

// settlingLocked is how long members may be on their way back.
func (r *room) settlingLocked() time.Duration {
	if r.settled == 0 {
		return 0
	}
	if d := r.settled.sub(r.h.clock.now()); d > 0 {
		return d
	}
	r.settled = 0
	return 0
}

// snapshotLocked is the body of a snapshot of the present state, good until mu is
// released.
func (r *room) snapshotLocked() []byte {
	settling := r.settlingLocked()
	if len(r.snapshot.body) == 0 || settling > 0 {
		if t := r.tally; t != nil {
			r.snapshot.body = r.appendCountsLocked(r.snapshot.body[:0], r.shownCountLocked(), t.sample)
			return r.snapshot.body
		}
		members := r.roster.Members()
		r.snapshot.body = wire.AppendSnapshot(r.snapshot.body[:0], r.id, r.epochLocked(), r.roster.Version(),
			len(members), members, settling)
	}
	return r.snapshot.body
}

// diffLocked is the body of the difference from version v to the present; ok is
// false if that is not known. A nil body says that nothing is to be told.
func (r *room) diffLocked(v rollcall.Version) (body []byte, ok bool) {
	to := r.roster.Version()
	for i := range r.diffs {
		if r.diffs[i].from == v {
			return r.diffs[i].body, true
		}
	}
	d, ok := r.roster.Since(v)
	if !ok {
		return nil, false
	}
	e := encoded{from: v, to: to}
	if !d.Empty() {
		e.body = wire.AppendDiff(nil, r.id, &d)
	}
	if len(r.diffs) < 16 {
		r.diffs = append(r.diffs, e)
	}
	return e.body, true
}
