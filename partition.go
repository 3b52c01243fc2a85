package rollcall

import "time"

// PartitionOptions are the settings of a [Partition]. The zero value of Timing
// or Limits means the defaults.
type PartitionOptions struct {
	Index  int
	Epoch  Epoch
	Timing Timing
	Limits Limits
	Modes  Modes
	Rules  RoomRules // of Modes, by room
	// Settling tells that the memory is fresh although clients may hold leases
	// from before: for one lease, members that are missing may be on their way
	// back.
	Settling bool
	// Version is the version to go on from, after a restart with saved state. Versions
	// begin near the time in any case, so that they rise over lost memory, also those of
	// rooms that nobody is in.
	Version Version
}

// Partition is the state machine that decides, for the rooms of one partition,
// who joined, who left, and in which order. Not safe for concurrent use.
type Partition struct {
	index   int
	epoch   Epoch
	timing  Timing
	limits  Limits
	modes   Modes
	rules   RoomRules
	clock   LeaseClock
	wall    int64 // Unix ms of the current call
	micros  int64 // Unix us of the current call
	version Version
	seq     uint64
	rooms   map[RoomID]*room
	names   roomNames // of rooms
	expiry  expiry
	// deferred are users with a change of their number of connections that
	// waits, oldest first.
	deferred []deferral
	settled  time.Duration // lease time at which settling ends
	leases   int

	bans    map[roomUser]time.Duration // until when, on the lease clock
	lifted  time.Duration              // when bans that are over were last forgotten
	revoked map[UserID]Revoked         // of the users of this partition
	kept    []keptRevocation           // the same, oldest first

	changes     []Change     // of the current call
	revocations []Revocation // of the current call
}

type deferral struct {
	user *user
	due  time.Duration
}

// NewPartition makes an empty partition whose lease clock starts at now.
func NewPartition(o PartitionOptions, now time.Time) *Partition {
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Modes == (Modes{}) {
		o.Modes = DefaultModes()
	}
	p := &Partition{
		modes: o.Modes, rules: o.Rules,
		index: o.Index, epoch: o.Epoch, timing: o.Timing, limits: o.Limits,
		version: max(o.Version, Version(now.UnixMicro())), rooms: make(map[RoomID]*room),
		bans: make(map[roomUser]time.Duration), revoked: make(map[UserID]Revoked),
	}
	p.clock.Clamp = o.Timing.ClockClamp()
	p.clock.Advance(now)
	if o.Settling {
		p.settled = o.Timing.Lease
	}
	return p
}

// modesOf are the modes of a room that is about to be.
func (p *Partition) modesOf(room RoomID) Modes {
	return p.rules.Of(room, RoomSettings{Modes: p.modes}).Modes
}

// Epoch is the epoch of the partition.
func (p *Partition) Epoch() Epoch { return p.epoch }

// Leases is the number of live leases.
func (p *Partition) Leases() int { return p.leases }

// Rooms is the number of rooms with members.
func (p *Partition) Rooms() int { return len(p.rooms) }

// Settling is how long members that are missing may still be on their way back,
// because the memory of the store was fresh; 0 when it has settled.
func (p *Partition) Settling() time.Duration { return max(p.settled-p.clock.Elapsed(), 0) }

// begin observes the time for one call.
func (p *Partition) begin(now time.Time) {
	p.clock.Advance(now)
	p.wall, p.micros = now.UnixMilli(), now.UnixMicro()
}

// nextVersion is greater than every version before, and near the time in
// microseconds, so that versions rise across the deletion of a room and across
// lost memory.
func (p *Partition) nextVersion() Version {
	p.version = max(p.version+1, Version(p.micros))
	return p.version
}

// frame is what the current call changed; nil if nothing.
func (p *Partition) frame() *Frame {
	if len(p.changes)+len(p.revocations) == 0 {
		return nil
	}
	p.seq++
	f := &Frame{Partition: p.index, Epoch: p.epoch, Seq: p.seq, Changes: p.changes, Revoked: p.revocations}
	p.changes, p.revocations = nil, nil
	return f
}

// Apply carries out ops in order and writes what each came to in results, which
// has their length. The frame tells what changed; nil if nothing did.
func (p *Partition) Apply(now time.Time, ops []Op, results []Result) *Frame {
	p.begin(now)
	for i := range ops {
		op, r := &ops[i], &results[i]
		*r = Result{Err: p.limits.Check(op), Epoch: p.epoch}
		if r.Err != nil {
			continue
		}
		switch op.Kind {
		case OpGrant:
			p.grant(op, r)
		case OpSet:
			p.set(op, r)
		case OpClose:
			p.close(op, r)
		case OpEnd:
			p.end(op, r)
		case OpEndUser:
			p.endUser(op, r)
		}
	}
	return p.frame()
}

// Renew carries out renewals: each lease then runs from the moment of its
// evidence, and never less far than before.
func (p *Partition) Renew(now time.Time, renewals []Renewal) {
	p.clock.Advance(now) // all of the time that a renewal needs
	for i := range renewals {
		p.renew(&renewals[i])
	}
}

// RenewOne is [Partition.Renew] for a single renewal.
func (p *Partition) RenewOne(now time.Time, r *Renewal) {
	p.clock.Advance(now)
	p.renew(r)
}

func (p *Partition) renew(r *Renewal) {
	l := r.Lease.slot
	if l == nil || l.generation != r.Lease.Generation {
		if l = p.current(r.Lease.Room, r.Lease.User, r.Lease.Connection); l == nil {
			r.Outcome = Lost
			return
		}
		if l.generation < r.Lease.Generation {
			r.Outcome = Lost // the store has lost the newer one
			return
		}
		if l.generation > r.Lease.Generation {
			r.Outcome = Replaced
			return
		}
	}
	switch l.state {
	case leaseLive:
		r.Outcome = Renewed
		l.deadline = max(l.deadline, p.clock.Elapsed()+l.ttl-r.Age)
	case leaseClosing:
		r.Outcome, r.Reason = Over, ReasonClosed
	case leaseReplaced:
		r.Outcome = Replaced
	case leaseEnded:
		r.Outcome, r.Reason = Over, l.reason
	}
}

// Tick ends the leases that are due and publishes what waited. It is to be
// called at least every 750 ms, and at the end of a grace.
func (p *Partition) Tick(now time.Time) *Frame {
	p.begin(now)
	elapsed := p.clock.Elapsed()
	p.expiry.sweep(elapsed, func(l *lease) {
		if l.again && l.state == leaseLive && elapsed < p.settled {
			// Whoever has newer evidence of the client may not have been heard yet.
			l.deadline = p.settled
			p.expiry.add(l)
			return
		}
		reason := ReasonExpired
		if l.state == leaseClosing {
			reason = ReasonClosed
		}
		p.drop(l, reason)
	})
	p.publishDeferred(elapsed)
	p.lift(elapsed)
	p.forgetRevocations(elapsed)
	return p.frame()
}

func (p *Partition) publishDeferred(elapsed time.Duration) {
	n := 0
	for n < len(p.deferred) && p.deferred[n].due <= elapsed {
		u := p.deferred[n].user
		u.deferred = false
		if len(u.leases) > 0 {
			// It waits again if another such change was published meanwhile.
			p.publish(u, u.member.Info)
		}
		n++
	}
	if n > 0 {
		rest := copy(p.deferred, p.deferred[n:])
		clear(p.deferred[rest:])
		p.deferred = p.deferred[:rest]
	}
}
