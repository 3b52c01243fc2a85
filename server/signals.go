package server

import (
	"time"

	"rollcall"
	"rollcall/wire"
)

// roomSignals is the signals of a room. A stream keeps nothing of them but the
// tick that it has sent. All of it is guarded by the mu of the room.
type roomSignals struct {
	table    *rollcall.Signals
	notified rollcall.SignalTick // of the last fan-out: what came since waits for the next
	full     signalsBody         // all that live; empty if it has yet to be made
	live     int                 // how many those are
	fullAt   time.Time           // when it was made: it tells the time that is left
	bodies   []signalsBody       // from several ticks on; their arrays are used again
	buffer   []rollcall.Signal
	due      time.Time // when the desk looks at the room; zero: never

	// With other nodes:
	own      map[rollcall.ConnectionID]bool // whose signals come from here; nil if there is one node
	sent     rollcall.SignalTick            // what the others have been told
	ask      bool                           // the others are to be asked
	asked    bool                           // the others have asked
	faded    []rollcall.Signal              // connections that have come back here
	again    []rollcall.Signal              // what those have sent again, unchanged
	outgoing bool                           // in the list of the post
	stop     func()                         // ends the subscription
}

// signalsBody is the body of an event, shared by all streams that are due it.
type signalsBody struct {
	from, to rollcall.SignalTick
	body     []byte // empty: there is nothing to tell
}

func (r *room) signalsLocked() *roomSignals {
	if r.signals == nil {
		r.signals = &roomSignals{table: rollcall.NewSignals(&r.h.limits)}
	}
	return r.signals
}

// appendView appends what the client is due of one room: the roster, pages and
// contacts, and then the signals of those who are on them.
func (s *stream) appendView(b []byte, sub *sub, deliveries int) ([]byte, int) {
	r, v := sub.room, &sub.view
	if r == nil {
		return b, deliveries
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// What comes back may hold signals that have ended.
	holds := v.phase == viewNew && v.sent != 0
	before := len(b)
	b, deliveries = s.appendRoster(b, sub, deliveries)
	if v.phase != viewLive {
		return b, deliveries
	}
	v.holds = v.holds || holds
	b, deliveries = s.appendWindows(b, sub, deliveries)
	if sub.counts || r.tally != nil && r.settings.Signals == rollcall.SignalsNone {
		return b, deliveries
	}
	return s.appendSignals(b, sub, deliveries, len(b) > before)
}

// appendSignals appends what changed of the signals since the tick that the
// stream has sent, or all that live if it has yet to be told: as much of it as the
// link takes at once. moved tells that the stream has just been told of the roster:
// who left there is left here. Called with the room locked.
func (s *stream) appendSignals(b []byte, sub *sub, deliveries int, moved bool) ([]byte, int) {
	r, v, sg := sub.room, &sub.view, sub.room.signals
	scope := r.scopeLocked(sub)
	if scope.moved() {
		v.signalAnew()
	}
	switch {
	case sg == nil || scope.nobody():
		stale := v.holds && !v.signalled
		v.signalled, v.holds = true, v.holds && !stale
		if !stale {
			return b, deliveries
		}
		return s.append(b, wire.EventSignals, wire.AppendSignals(nil, r.id, nil, true)), deliveries + 1
	case v.signalled && v.part == 0 && v.signals >= sg.notified && (!moved || v.signals >= sg.table.Tick()):
		return b, deliveries
	}
	most := s.pace.allows(r.h.clock.now(), len(b))
	body, ok := sg.changedLocked(r, v, scope, most)
	if !ok {
		body, ok = sg.allLocked(r, v, scope, most)
	}
	if !ok || v.part != 0 || v.signals < sg.notified {
		s.holdLocked()
	}
	if v.signalled && moved && (!ok || v.part != 0) {
		b, deliveries = s.appendEnds(b, r, v, deliveries)
	}
	if len(body) == 0 {
		return b, deliveries
	}
	return s.append(b, wire.EventSignals, body), deliveries + 1
}

// changedLocked is what changed since what the stream was told, or a part of it. It
// is false if nothing can be told of it: because the stream takes nothing, or has to
// be told all, which it then has not been.
func (sg *roomSignals) changedLocked(r *room, v *view, scope signalScope, most int) (body []byte, ok bool) {
	if !v.signalled || v.filling || most == 0 {
		return nil, false
	}
	e, ok := sg.sinceLocked(r, scope, v.signals)
	if ok && len(e.body) <= most {
		v.signals, v.part = e.to, 0
		v.holds = v.holds || len(e.body) > 0
		return e.body, true
	}
	if ok {
		body, ok = sg.partLocked(r, v, scope, most)
	}
	v.holds = true
	if !ok {
		v.signalAnew()
	}
	return body, ok
}

// allLocked is all that lives, or a part of it; false if the stream takes nothing
// now. What the first part does not tell has ended for the client until it is told.
func (sg *roomSignals) allLocked(r *room, v *view, scope signalScope, most int) (body []byte, ok bool) {
	if v.signalled && most == 0 {
		return nil, false
	}
	body, live := sg.fullLocked(r, scope, v.holds || v.filling)
	switch {
	case len(body) <= most:
		v.signalAnew()
		v.signalled, v.signals, v.holds = true, sg.table.Tick(), live > 0
		return body, true
	case most == 0:
		return nil, false
	}
	first := !v.filling
	if first {
		v.signals, v.part = sg.table.Tick(), 0
	}
	part, place := sg.table.LivePart(time.Now(), v.part, most, scope.sees(), sg.buffer[:0])
	sg.buffer = part
	defer clear(part)
	v.signalled, v.holds, v.filling, v.part = true, true, place != 0, place
	if len(part) == 0 && !first {
		return nil, true
	}
	return wire.AppendSignals(nil, r.id, part, first), true
}

// fullLocked is the body that tells all that live, and how many they are; good until
// mu is released. It is nil if that is nothing and need not be told.
func (sg *roomSignals) fullLocked(r *room, scope signalScope, always bool) (body []byte, live int) {
	now := time.Now()
	if scope.narrow || sg.full.to != sg.table.Tick() || len(sg.full.body) == 0 || now.Sub(sg.fullAt) > tickEvery {
		sg.buffer = sg.table.Live(now, sg.buffer[:0])
		all := scope.filter(sg.buffer)
		sg.full.to, sg.fullAt, sg.live = sg.table.Tick(), now, len(all)
		sg.full.body = wire.AppendSignals(sg.full.body[:0], r.id, all, true)
		clear(sg.buffer)
	}
	body, live = sg.full.body, sg.live
	if scope.narrow {
		sg.full.body = sg.full.body[:0] // nobody else's
	}
	if live == 0 && !always {
		return nil, 0
	}
	return body, live
}

// sinceLocked is the body of what changed after a tick, made once for all streams
// that are due it, and good until mu is released; false if that is not known.
func (sg *roomSignals) sinceLocked(r *room, scope signalScope, from rollcall.SignalTick) (*signalsBody, bool) {
	bodies := scope.bodiesLocked(sg)
	for i := range *bodies {
		if (*bodies)[i].from == from {
			return &(*bodies)[i], true
		}
	}
	changed, ok := sg.table.Since(time.Now(), from, sg.buffer[:0])
	sg.buffer = changed
	defer clear(changed)
	if !ok {
		return nil, false
	}
	n := len(*bodies)
	if n < cap(*bodies) {
		*bodies = (*bodies)[:n+1]
	} else {
		*bodies = append(*bodies, signalsBody{})
	}
	e := &(*bodies)[n]
	e.from, e.to, e.body = from, sg.table.Tick(), e.body[:0]
	if seen := scope.filter(changed); len(seen) > 0 {
		e.body = wire.AppendSignals(e.body, r.id, seen, false)
		r.h.metrics.signalFrames.Inc()
	}
	return e, true
}

// partLocked is a part of what changed since what the stream was told, of about
// so many bytes; false if the change is not known. It belongs to one stream.
func (sg *roomSignals) partLocked(r *room, v *view, scope signalScope, most int) ([]byte, bool) {
	if v.part == 0 {
		v.partTo = sg.table.Tick()
	}
	part, place, ok := sg.table.Part(time.Now(), v.signals, v.part, most, scope.sees(), sg.buffer[:0])
	sg.buffer = part
	defer clear(part)
	if !ok {
		return nil, false
	}
	if v.part = place; place == 0 {
		v.signals = v.partTo
	}
	if len(part) == 0 {
		return nil, true
	}
	return wire.AppendSignals(nil, r.id, part, false), true
}

// appendEnds appends the ends alone, to a stream that has just been told of the
// roster: nothing is shown of somebody who has left, however slow the link. Where no
// leave is told, none have to come with it.
func (s *stream) appendEnds(b []byte, r *room, v *view, deliveries int) ([]byte, int) {
	if r.tally != nil {
		return b, deliveries
	}
	ends := r.signals.table.Ends(time.Now(), v.signals, nil)
	if len(ends) == 0 {
		return b, deliveries
	}
	return s.append(b, wire.EventSignals, wire.AppendSignals(nil, r.id, ends, false)), deliveries + 1
}

// holdLocked has the stream written to again with the next tick.
func (s *stream) holdLocked() {
	if !s.held {
		s.held = true
		s.c.h.fanout.hold(s.c)
	}
}

// notifyLocked closes what the next fan-out tells.
func (sg *roomSignals) notifyLocked() {
	if sg == nil {
		return
	}
	sg.notified = sg.table.Tick()
	sg.forgetLocked()
}

// forgetLocked forgets what was encoded.
func (sg *roomSignals) forgetLocked() {
	sg.bodies = sg.bodies[:0]
	sg.full.body = sg.full.body[:0]
}

// dropEncodedLocked lets go of the arrays too.
func (sg *roomSignals) dropEncodedLocked() {
	if sg != nil {
		sg.bodies, sg.full.body, sg.buffer = nil, nil, nil
	}
}

// changeSignals changes the table, and has the change told: to the streams of
// this node with the next fan-out, and to the other nodes if it was made here.
func (r *room) changeSignals(here bool, change func(t *rollcall.Signals, now time.Time) *rollcall.Error) *rollcall.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sg := r.signalsLocked()
	before := sg.table.Tick()
	err := change(sg.table, time.Now())
	if sg.table.Tick() != before {
		r.tellSignalsLocked(here)
	}
	if at, ok := sg.table.Next(); ok && (sg.due.IsZero() || at.Before(sg.due)) {
		sg.due = at
		r.h.signals.look(r, at)
	}
	return err
}

func (r *room) tellSignalsLocked(here bool) {
	if r.loadedLocked() {
		r.enlivenLocked()
	}
	if here && r.signals.own != nil {
		r.postLocked()
	}
}

// endSignals ends the signals of the leases that ended in a change, before the
// change itself is known to any stream.
func (r *room) endSignals(ended []rollcall.Ended) {
	if r.quiet() {
		return
	}
	r.changeSignals(false, func(t *rollcall.Signals, now time.Time) *rollcall.Error {
		before := t.Tick()
		for i := range ended {
			t.End(now, ended[i].Connection, ended[i].Generation)
			delete(r.signals.own, ended[i].Connection) // the others hear of the end themselves
		}
		if t.Tick() != before {
			r.signals.forgetLocked() // nobody is told of them once the leave is
		}
		return nil
	})
}

// expireSignals ends what has run out, and returns when to look again; zero:
// never.
func (r *room) expireSignals(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	sg := r.signals
	before := sg.table.Tick()
	sg.table.Expire(now)
	if sg.table.Tick() != before {
		r.tellSignalsLocked(true)
	}
	sg.due, _ = sg.table.Next()
	if sg.table.Empty() {
		sg.dropEncodedLocked()
	}
	return sg.due
}

// signallingLocked reports whether the room has signals to keep. The memory of
// ends is none.
func (r *room) signallingLocked() bool {
	sg := r.signals
	if sg == nil || sg.table.Empty() {
		return false
	}
	sg.buffer = sg.table.Live(time.Now(), sg.buffer[:0])
	live := len(sg.buffer) > 0
	clear(sg.buffer)
	return live
}

// quiet reports whether nobody has ever sent signals here, as far as is known.
func (r *room) quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signals == nil
}
