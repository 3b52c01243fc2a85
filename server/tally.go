package server

import (
	"time"

	"rollcall"
	"rollcall/wire"
)

// tally is what a node knows of a room in counts mode: a number, and a sample.
type tally struct {
	epoch   rollcall.Epoch
	version rollcall.Version
	count   int
	// estimate tells that the room names nobody; standardError is that of count.
	estimate      bool
	standardError float64
	// least is what the number was before the store lost its memory: it does not
	// fall while the store settles.
	least  int
	sample []*rollcall.Member // the longest present first
	// sampled counts the samples, so that a viewer is told a new one once.
	sampled int
}

// apply makes a change. It reports false if the change does not follow, or if the
// sample has to be read again.
func (t *tally) apply(ch *rollcall.Change) bool {
	if ch.Version <= t.version {
		return true
	}
	if ch.Prev != t.version {
		return false
	}
	for i := range ch.Leave {
		if t.samples(ch.Leave[i].User) {
			return false // the number waits for the sample
		}
	}
	t.version, t.count = ch.Version, ch.Count
	return true
}

func (t *tally) samples(user rollcall.UserID) bool {
	for _, m := range t.sample {
		if m.User == user {
			return true
		}
	}
	return false
}

// shownCountLocked is the number that viewers are told.
func (r *room) shownCountLocked() int {
	if r.tally == nil {
		return r.roster.Count()
	}
	if r.settlingLocked() > 0 {
		return max(r.tally.count, r.tally.least)
	}
	return r.tally.count
}

// loadedLocked reports whether anything is known of the room.
func (r *room) loadedLocked() bool { return r.roster != nil || r.tally != nil }

func (r *room) modeLocked() rollcall.Mode {
	if r.tally != nil {
		return rollcall.ModeCounts
	}
	return rollcall.ModeFull
}

// positionLocked is the epoch and the version of what is known.
func (r *room) positionLocked() (rollcall.Epoch, rollcall.Version) {
	if r.tally != nil {
		return r.epochLocked(), r.tally.version
	}
	return r.epochLocked(), r.roster.Version()
}

// epochLocked is the epoch that viewers are told. While members are unconfirmed,
// or counted though they are not, each node may show others of them: what is seen here
// then cannot be gone on from elsewhere, nor from when the store has settled.
func (r *room) epochLocked() rollcall.Epoch {
	var epoch rollcall.Epoch
	var unconfirmed bool
	if t := r.tally; t != nil {
		epoch, unconfirmed = t.epoch, r.shownCountLocked() != t.count
	} else {
		epoch, unconfirmed = r.roster.Epoch(), r.roster.Unconfirmed() > 0
	}
	if unconfirmed {
		epoch += rollcall.Epoch("-" + r.h.node)
	}
	return epoch
}

// switchLocked takes a change that leads to another mode. To counts, the replica
// gives the sample and is let go of; to full, the room is read.
func (r *room) switchLocked(ch *rollcall.Change) {
	if ch.Mode == rollcall.ModeFull || r.roster == nil || !r.roster.Apply(ch) {
		r.breakLocked(ch)
		return
	}
	members := r.roster.Members()
	t := &tally{epoch: r.roster.Epoch(), version: ch.Version, count: ch.Count, sampled: r.samples + 1}
	for i := len(members) - 1; i >= 0 && len(t.sample) < rollcall.SampleSize; i-- {
		t.sample = append(t.sample, members[i])
	}
	if r.roster.Unconfirmed() > 0 {
		t.least = len(members)
	}
	r.samples++
	r.tally, r.roster = t, nil
	r.forgetLocked()
	r.queueLocked()
}

// breakLocked has the room read again, and holds the change until then.
func (r *room) breakLocked(ch *rollcall.Change) {
	r.broken = true
	r.holdLocked(ch)
	r.h.errands.mend(r)
}

// installTallyLocked takes a snapshot of a room in counts mode, or of one that was
// until the store lost its memory: that keeps its sample.
func (r *room) installTallyLocked(a *rollcall.Answer) {
	t := &tally{
		epoch: a.Epoch, version: a.Version, count: a.Count, estimate: a.Estimate, standardError: a.StandardError,
	}
	if r.loadedLocked() && a.Settling > 0 {
		t.least = r.shownCountLocked()
		r.keeper().settling.add(r)
	}
	if a.Mode == rollcall.ModeCounts {
		r.samples++
		t.sample, t.sampled = a.Members, r.samples
	} else {
		t.sample, t.sampled = r.tally.sample, r.tally.sampled
	}
	r.tally, r.roster = t, nil
}

// appendTally appends what a viewer of a room in counts mode is due: the state at
// first and when the mode has changed, and then the number when it has. Called
// with the room locked.
func (s *stream) appendTally(b []byte, sub *sub, deliveries int) ([]byte, int) {
	r, v := sub.room, &sub.view
	t := r.tally
	count, epoch := r.shownCountLocked(), r.epochLocked()
	switch {
	case v.phase == viewNew && sub.aheadLocked(t.epoch, t.version):
		return b, deliveries // the feed is on its way
	case v.phase == viewNew && v.sent == t.version && v.epoch == epoch:
		b = s.append(b, wire.EventResumed, wire.AppendResumed(nil, r.id, epoch, t.version))
	case v.phase == viewNew:
		b = s.append(b, wire.EventSnapshot, r.snapshotLocked())
	case v.phase != viewLive:
		return b, deliveries
	case v.mode != rollcall.ModeCounts:
		b = s.append(b, wire.EventMode, r.snapshotLocked())
	case r.counted <= v.looked:
		return b, deliveries
	default:
		// What changes from now on waits for the next fan-out of the number, also
		// if there is nothing to tell of it now.
		v.looked = r.counted
		if count == v.count && t.sampled == v.sampled {
			return b, deliveries
		}
		if v.epoch != epoch { // a count does not tell it
			b = s.append(b, wire.EventSnapshot, r.snapshotLocked())
			break
		}
		b = s.append(b, wire.EventCount, r.countLocked(count, t.sampled != v.sampled))
		v.sent, v.count, v.sampled = t.version, count, t.sampled
		return b, deliveries + 1
	}
	*v = view{
		phase: viewLive, mode: rollcall.ModeCounts, epoch: epoch, sent: t.version, looked: r.counted, count: count, sampled: t.sampled,
	}
	return b, deliveries + 1
}

// countLocked is the body of a count, with the sample if that has changed; good
// until mu is released.
func (r *room) countLocked(count int, sample bool) []byte {
	i := 0
	if sample {
		i = 1
	}
	if e := &r.counts[i]; e.body == nil || e.to != r.tally.version || e.from != rollcall.Version(count) {
		var members []*rollcall.Member
		if sample {
			members = r.tally.sample
		}
		e.from, e.to = rollcall.Version(count), r.tally.version
		e.body = r.appendCountLocked(e.body[:0], count, members)
	}
	return r.counts[i].body
}

// appendCountLocked appends the body of a count of the present version.
func (r *room) appendCountLocked(b []byte, count int, sample []*rollcall.Member) []byte {
	if t := r.tally; t != nil && t.estimate {
		return wire.AppendEstimate(b, r.id, t.version, count, t.standardError)
	}
	_, version := r.positionLocked()
	return wire.AppendCount(b, r.id, version, count, sample)
}

// appendCountsLocked appends the body of a snapshot that names at most a sample.
func (r *room) appendCountsLocked(b []byte, count int, sample []*rollcall.Member) []byte {
	epoch, version := r.positionLocked()
	if t := r.tally; t != nil && t.estimate {
		return wire.AppendEstimates(b, r.id, epoch, version, count, t.standardError)
	}
	return wire.AppendCounts(b, r.id, epoch, version, count, sample, r.settlingLocked())
}

// tickLivelyLocked fans out signals and windows alone, while it is too early for the
// number. They concern few viewers, unless the room tells everybody of signals.
func (r *room) tickLivelyLocked(now instant, due []*connection) []*connection {
	if !r.lively {
		return due
	}
	r.lively, r.ticked = false, now
	r.signals.notifyLocked()
	for _, s := range r.viewers {
		if s.outlook == nil && r.settings.Signals != rollcall.SignalsAll {
			continue
		}
		if s.c.queued.CompareAndSwap(false, true) {
			due = append(due, s.c)
		}
	}
	return due
}

// tellSoonLocked has windows told: with the number, if that comes soon.
func (r *room) tellSoonLocked() {
	soon := r.tally != nil && r.queued && r.settings.Modes.Every-r.h.clock.now().sub(r.counted) < 2*windowLead
	if soon {
		return
	}
	r.enlivenLocked()
}

// enlivenLocked has more told than the number, which may have to wait longer.
func (r *room) enlivenLocked() {
	r.lively = true
	r.queueLocked()
	if r.tally != nil {
		r.h.fanout.signal() // it may be waiting for the number
	}
}

// paceLocked is the least time between two fan-outs. It grows with the crowd, since
// every one is a write to each viewer.
func (r *room) paceLocked() time.Duration {
	n := time.Duration(len(r.viewers))
	return min(tickEvery+max(n-200, 0)*time.Millisecond/4, tickLarge)
}
