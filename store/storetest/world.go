package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"rollcall"
	"rollcall/store"
)

// Choices makes the random decisions of a [World].
type Choices interface {
	// Choose picks one of n, from 0.
	Choose(n int, what string) int
}

// Clock is the time in which a [World] lives.
type Clock interface {
	Now() time.Time
	// Pass lets time pass; a negative d is a clock that is set back, and may be
	// ignored.
	Pass(d time.Duration)
}

// World drives a store with random operations and compares it, after every
// step, with an [Oracle] and with what a [Watcher] of its feed has seen.
type World struct {
	Rooms []rollcall.RoomID
	// Trace, if not nil, is told every step.
	Trace func(format string, args ...any)

	options Options
	store   store.Store
	clock   Clock
	oracle  *Oracle
	watcher *Watcher
	choices Choices
	// slack is how far from every deadline the world is looked at, for a store
	// whose time is not exact; 0 for one whose time is.
	slack time.Duration

	leases []rollcall.Lease // every lease that was ever granted
	ticked bool             // nothing was done since the last tick
	walk   *walk
	late   *rollcall.Roster // a replica that is mended now and then
	lags   map[bareUpdate]lag
	bare   map[bareUpdate]time.Duration
}

// lag is a published number of connections that is wrong.
type lag struct {
	published int
	since     time.Duration
}

// walk is a reading of all pages of a room, one now and one later.
type walk struct {
	room   rollcall.RoomID
	cursor rollcall.Version
	seen   map[rollcall.UserID]int
	stays  []*stay // those that were here at the start
}

var (
	worldUsers       = []rollcall.UserID{"ana", "bo", "\u00e9ve|x", "d"}
	worldConnections = []rollcall.ConnectionID{"c1", "c2", "c3", "c4"}
	worldObjects     = []string{`{}`, `{"a":1,"a":2}`, `{"a":1}`, `{"b":"x,}\""}`, `{"a":null,"b":{"a":[1,2]}}`, `{"c":1234567890123456}`}
	worldInfos       = []string{`{"name":"Ana"}`, `{"name":"B"}`}
)

// WorldOptions are the settings of a store under a [World]: tight limits, so
// that a short run meets them.
func WorldOptions() Options {
	o := Options{Timing: rollcall.DefaultTiming(), Limits: rollcall.DefaultLimits()}
	o.Limits.ConnectionsPerUser, o.Limits.Info, o.Limits.Data = 3, 32, 56
	return o
}

// CrowdOptions is [WorldOptions] with rooms that tell a number above two members. It
// is for stores whose frames tell all of the members in either mode: the feed need
// not.
func CrowdOptions() Options {
	o := WorldOptions()
	o.Modes = rollcall.Modes{Above: 2, Below: 2, Every: time.Second}
	return o
}

// RoomsOf finds n names of rooms in one partition.
func RoomsOf(partition, n int) []rollcall.RoomID {
	var rooms []rollcall.RoomID
	for i := 0; len(rooms) < n; i++ {
		if room := rollcall.RoomID(fmt.Sprintf("doc/%d", i)); rollcall.PartitionOf(room) == partition {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

// NewWorld makes a world around an empty store.
func NewWorld(s store.Store, o Options, clock Clock, choices Choices, rooms []rollcall.RoomID) *World {
	w := &World{
		Rooms: rooms, options: o, store: s, clock: clock, choices: choices,
		oracle: NewOracle(o), watcher: NewWatcher(o),
		lags: make(map[bareUpdate]lag), bare: make(map[bareUpdate]time.Duration),
	}
	s.Feed(w.watcher.Frame)
	// A store begins to count lease time when it is made.
	for n := range rollcall.Partitions {
		w.oracle.observe(clock.Now(), n)
	}
	for _, room := range rooms {
		w.watcher.watch(room, w.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: room}))
	}
	w.late = rollcall.NewRoster(w.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: rooms[0]}))
	return w
}

type worldError struct{ err error }

// fail leaves the step at hand; [World.Step] returns err.
func (w *World) fail(err error) { panic(worldError{err}) }

func (w *World) try(err error, format string, args ...any) {
	if err != nil {
		w.fail(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

func (w *World) guard(step func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(worldError)
			if !ok {
				panic(r)
			}
			err = failed.err
		}
	}()
	step()
	return nil
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(format, args...)
	}
}

func choose[T any](w *World, what string, from ...T) T {
	return from[w.choices.Choose(len(from), what)]
}

func (w *World) room() rollcall.RoomID { return choose(w, "room", w.Rooms...) }

func (w *World) read(q rollcall.Query) *rollcall.Answer {
	a, err := w.store.Read(context.Background(), q)
	w.try(err, "read")
	w.oracle.observeRoom(w.clock.Now(), q.Room)
	return &a
}

// Step makes one random step and checks everything.
func (w *World) Step() error {
	return w.guard(func() {
		w.ticked = false
		switch w.choices.Choose(12, "step") {
		case 0, 1, 2:
			w.apply(w.grantOp())
		case 3, 4:
			w.apply(w.otherOp())
		case 5:
			var ops []rollcall.Op
			for range 1 + w.choices.Choose(4, "ops") {
				if w.choices.Choose(2, "grant") == 0 {
					ops = append(ops, w.grantOp())
				} else {
					ops = append(ops, w.otherOp())
				}
			}
			w.apply(ops...)
		case 6, 7:
			w.renew()
		case 8:
			w.page()
		case 9, 10:
			w.pass()
		case 11:
			w.mend()
		}
		w.check()
	})
}

func (w *World) grantOp() rollcall.Op {
	l := w.options.Timing.Lease
	op := rollcall.Op{
		Kind: rollcall.OpGrant, Room: w.room(),
		User:       choose(w, "user", worldUsers...),
		Connection: choose(w, "connection", worldConnections...),
		Status:     rollcall.Status(max(w.choices.Choose(6, "status")-2, 0)),
		TTL:        choose(w, "ttl", 0, 0, 0, 0, l/6, l*7/3),
		Age:        choose(w, "age", 0, 0, 0, l/30, l/2),
		ResumeOnly: w.choices.Choose(4, "resume only") == 0,
	}
	if w.choices.Choose(3, "data?") == 0 {
		op.Data = w.object()
	}
	if n := w.choices.Choose(6, "info?"); n < len(worldInfos) {
		op.Info = json.RawMessage(worldInfos[n])
	}
	switch w.choices.Choose(24, "fault") {
	case 0:
		op.Info = json.RawMessage(`{"name":"` + strings.Repeat("x", w.options.Limits.Info) + `"}`)
	case 1:
		op.Data = json.RawMessage(`{"a":"` + strings.Repeat("x", w.options.Limits.Data) + `"}`)
	case 2:
		op.User = choose(w, "invalid user", "", ".", "..", "\xff", rollcall.UserID(strings.Repeat("u", rollcall.MaxID+1)))
	}
	return op
}

func (w *World) object() json.RawMessage {
	return json.RawMessage(choose(w, "object", worldObjects...))
}

func (w *World) otherOp() rollcall.Op {
	op := rollcall.Op{
		Room: w.room(), User: choose(w, "user", worldUsers...),
		Connection: choose(w, "connection", worldConnections...),
	}
	// Mostly about somebody who is there; the rest tries what must do nothing.
	if len(w.leases) > 0 && w.choices.Choose(8, "aim") > 0 {
		l := w.lease()
		op.Room, op.User, op.Connection = l.Room, l.User, l.Connection
		if w.choices.Choose(2, "by generation") == 0 {
			op.Generation = l.Generation
		}
	}
	reason := choose(w, "reason", rollcall.ReasonLeft, rollcall.ReasonKicked, rollcall.ReasonRevoked)
	switch w.choices.Choose(9, "kind") {
	case 0, 1, 2, 3:
		op.Kind = rollcall.OpSet
		op.Status = rollcall.Status(w.choices.Choose(4, "status"))
		if w.choices.Choose(3, "data?") > 0 {
			op.Data, op.Merge = w.object(), w.choices.Choose(2, "merge") == 0
		}
		if w.choices.Choose(16, "fault") == 0 {
			op.Data = json.RawMessage(`{"a":"` + strings.Repeat("x", w.options.Limits.Data) + `"}`)
		}
	case 4, 5, 6:
		op.Kind = rollcall.OpClose
		grace := w.options.Timing.CloseGrace
		op.Grace = choose(w, "grace", grace, grace, 0, w.options.Timing.Lease/6, w.options.Timing.Lease*2)
	case 7:
		op.Kind, op.Reason = rollcall.OpEnd, reason
	case 8:
		op.Kind, op.Reason = rollcall.OpEndUser, reason
		op.Ban = choose(w, "ban", 0, 0, w.options.Timing.CloseGrace, w.options.Timing.Lease/3)
	}
	return op
}

// lease picks any lease that was ever granted, rather a late one.
func (w *World) lease() rollcall.Lease {
	n := len(w.leases)
	if n > 8 && w.choices.Choose(4, "old lease") > 0 {
		return w.leases[n-8+w.choices.Choose(8, "lease")]
	}
	return w.leases[w.choices.Choose(n, "lease")]
}

func (w *World) apply(ops ...rollcall.Op) {
	for i := range ops {
		w.trace("%s apply %s", w.clock.Now().Format("15:04:05.000"), showOp(&ops[i]))
	}
	results, err := w.store.Apply(context.Background(), ops)
	w.try(err, "apply")
	now := w.clock.Now()
	if len(results) != len(ops) {
		w.fail(fmt.Errorf("%d results of %d operations", len(results), len(ops)))
	}
	for i := range ops {
		op, got := &ops[i], &results[i]
		w.try(w.oracle.Apply(now, op, got), "operation %d (%s)", i, showOp(op))
		if op.Kind == rollcall.OpGrant && got.Err == nil {
			w.leases = append(w.leases, got.Lease)
		}
	}
	if r := results[len(ops)-1]; r.Err == nil && !r.Stale && r.Member != nil {
		if a := w.read(rollcall.Query{Want: rollcall.WantRoom, Room: ops[len(ops)-1].Room}); a.Version != r.Version {
			w.fail(fmt.Errorf("the result says version %d, the room %d", r.Version, a.Version))
		}
	}
}

func (w *World) renew() {
	if len(w.leases) == 0 {
		return
	}
	var renewals []rollcall.Renewal
	named := w.choices.Choose(3, "named") == 0
	l := w.options.Timing.Lease
	for range 1 + w.choices.Choose(4, "renewals") {
		lease := w.lease()
		if named {
			lease = rollcall.Lease{Room: lease.Room, User: lease.User, Connection: lease.Connection, Generation: lease.Generation, TTL: lease.TTL}
		}
		renewals = append(renewals, rollcall.Renewal{Lease: &lease, Age: choose(w, "age", 0, 0, l/30, l/3, l, l*2)})
		w.trace("%s renew %+v age %v", w.clock.Now().Format("15:04:05.000"), lease, renewals[len(renewals)-1].Age)
	}
	w.try(w.store.Renew(context.Background(), renewals), "renew")
	now := w.clock.Now()
	for i := range renewals {
		w.try(w.oracle.Renew(now, &renewals[i], named), "renewal of %+v", *renewals[i].Lease)
	}
}

// page reads one more page of a walk over a room.
func (w *World) page() {
	if w.walk == nil {
		w.walk = &walk{room: w.room(), seen: make(map[rollcall.UserID]int)}
		for _, s := range w.oracle.stays {
			if !s.gone && s.room == w.walk.room {
				w.walk.stays = append(w.walk.stays, s)
			}
		}
	}
	k := w.walk
	limit := 1 + w.choices.Choose(3, "limit")
	a := w.read(rollcall.Query{Want: rollcall.WantPage, Room: k.room, Cursor: k.cursor, Limit: limit})
	w.trace("page of %q, %d from %d: %d", k.room, limit, k.cursor, len(a.Members))
	if len(a.Members) > limit {
		w.fail(fmt.Errorf("%d members on a page of %d", len(a.Members), limit))
	}
	for _, m := range a.Members {
		w.try(differ(m, w.oracle.Member(k.room, m.User)), "page")
		k.seen[m.User]++
	}
	if k.cursor = a.Next; k.cursor != 0 {
		return
	}
	for _, s := range k.stays {
		if !s.gone && k.seen[s.user] != 1 {
			w.fail(fmt.Errorf("%q stayed in %q and was seen %d times over the pages", s.user, k.room, k.seen[s.user]))
		}
	}
	w.walk = nil
}

// pass lets time pass, with ticks on the way or without.
func (w *World) pass() {
	t := w.options.Timing
	d := choose(w, "pass", 0, 1, t.CloseGrace/10, t.CloseGrace/4, t.CloseGrace, t.CloseGrace*19/10,
		t.Lease/6, t.Lease, t.Lease*2, 10*time.Minute, -t.CloseGrace, -time.Hour)
	if w.slack > 0 {
		d = min(max(d, 0), t.Lease/2)
	}
	w.trace("%s pass %v", w.clock.Now().Format("15:04:05.000"), d)
	if w.slack == 0 && (d <= 0 || w.choices.Choose(3, "sleep through") == 0) {
		w.clock.Pass(d)
		if w.choices.Choose(2, "tick") == 0 {
			w.tick()
		}
		return
	}
	const step = 250 * time.Millisecond
	// Minutes of nothing but ticks prove no more than the first of them.
	for d = min(d, t.Lease*3); d > 0; d -= step {
		w.clock.Pass(min(d, step))
		w.tick()
	}
	w.settle()
}

func (w *World) tick() {
	w.try(w.store.Tick(context.Background()), "tick")
	w.oracle.Tick(w.clock.Now())
	w.ticked = true
	w.checkCadence()
}

// settle waits, for a store whose time is not exact, for a moment at which no
// lease is about to run out or has just done so.
func (w *World) settle() {
	if w.slack == 0 {
		return
	}
	for quiet := time.Duration(0); quiet < 2*w.slack; quiet += w.slack / 4 {
		for _, c := range w.oracle.claims {
			if left := c.deadline - w.oracle.Clock(c.lease.Room); c.live() && left < 2*w.slack {
				quiet = 0
			}
		}
		for at, until := range w.oracle.bans {
			if left := until - w.oracle.Clock(at.room); left > -w.slack && left < 2*w.slack {
				quiet = 0
			}
		}
		w.clock.Pass(w.slack / 4)
		w.tick()
	}
}

// mend brings the late replica to the present by a snapshot, whose members are
// copies as those of a store elsewhere would be.
func (w *World) mend() {
	room := w.Rooms[0]
	before, members := w.late.Version(), make(map[rollcall.UserID]*rollcall.Member)
	for _, m := range w.late.Members() {
		members[m.User] = m
	}
	a := w.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: room})
	if a.Mode == rollcall.ModeCounts {
		return // there is no replica of such a room
	}
	for i, m := range a.Members {
		c := *m
		a.Members[i] = &c
	}
	a.Settling = 0 // nobody is on the way back here
	w.late.Mend(a)
	v := &view{version: max(a.Version, before), members: make(map[rollcall.UserID]*rollcall.Member)}
	for _, m := range a.Members {
		v.members[m.User] = m
	}
	w.try(sameMembers(w.late.Members(), v.members), "the mended roster")
	d, ok := w.late.Since(before)
	if !ok {
		w.fail(fmt.Errorf("the mended roster forgot version %d", before))
	}
	w.try(checkDiff(&d, moment{before, members}, v), "the mended roster since %d (%+v)", before, d)
	for _, m := range d.Update {
		if differ(m, members[m.User]) == nil {
			w.fail(fmt.Errorf("the mended roster updates %q, who is as before", m.User))
		}
	}
}

// Finish lets everybody go: by themselves, as far as that is a matter of
// minutes, then by being ended. Afterwards nobody is anywhere.
func (w *World) Finish() error {
	return w.guard(func() {
		long := w.options.Timing.Lease * 3
		if w.slack > 0 {
			long = w.options.Timing.Lease
		}
		for d := time.Duration(0); d < long && w.oracle.live() > 0; d += 250 * time.Millisecond {
			w.clock.Pass(250 * time.Millisecond)
			w.tick()
		}
		w.settle()
		w.check()
		for _, room := range w.Rooms {
			for _, m := range w.oracle.Members(room) {
				w.apply(rollcall.Op{Kind: rollcall.OpEndUser, Room: room, User: m.User, Reason: rollcall.ReasonRevoked})
			}
		}
		w.check()
		if n := w.oracle.live(); n > 0 {
			w.fail(fmt.Errorf("%d leases are left", n))
		}
		for d := time.Duration(0); d <= 3*w.options.Timing.ConnectionUpdates; d += 500 * time.Millisecond {
			w.clock.Pass(500 * time.Millisecond)
			w.tick()
		}
		w.check()
	})
}
