package server

import (
	"time"

	"rollcall"
	"rollcall/wire"
)

// scopedAt is what the bodies of a page's signals were made of.
type scopedAt struct {
	revision uint64
	tick     rollcall.SignalTick
}

// appendScoped appends what changed of the signals of those at whom the stream
// looks, in counts mode. When it looks at others than before it is told all of
// theirs that live. holds is as in [stream.appendView]. Called with the room
// locked.
func (s *stream) appendScoped(b []byte, sub *sub, deliveries int, holds, moved bool) ([]byte, int) {
	r, v, o := sub.room, &sub.view, sub.outlook
	v.scoped = v.scoped || holds && !v.signalled
	if o == nil && !v.scoped {
		v.signalled = true
		return b, deliveries
	}
	sg := r.signals
	if !v.signalled || o == nil || o.moved {
		v.signalled = true
		if o != nil {
			o.moved = false
		}
		return s.appendScopeLocked(b, sub, deliveries)
	}
	if sg == nil || v.signals >= sg.notified && (!moved || v.signals >= sg.table.Tick()) {
		return b, deliveries
	}
	body, ok := sg.scopedLocked(r, o, v.signals)
	if !ok {
		return s.appendScopeLocked(b, sub, deliveries)
	}
	v.signals = sg.table.Tick()
	if len(body) == 0 {
		return b, deliveries
	}
	v.scoped = true
	return s.append(b, wire.EventSignals, body), deliveries + 1
}

// appendScopeLocked appends all that live of those at whom the stream looks; nothing
// if there are none and the client holds none.
func (s *stream) appendScopeLocked(b []byte, sub *sub, deliveries int) ([]byte, int) {
	r, v := sub.room, &sub.view
	var live []rollcall.Signal
	if sg := r.signals; sg != nil {
		sg.buffer = sg.table.Live(time.Now(), sg.buffer[:0])
		live = sub.outlook.filter(r.windows, sg.buffer)
		v.signals = sg.table.Tick()
		defer clear(sg.buffer)
	}
	if len(live) == 0 && !v.scoped {
		return b, deliveries
	}
	v.scoped = len(live) > 0
	return s.append(b, wire.EventSignals, wire.AppendSignals(nil, r.id, live, true)), deliveries + 1
}

// filter keeps the signals of those that are looked at, in place.
func (o *outlook) filter(w *windows, signals []rollcall.Signal) []rollcall.Signal {
	kept := signals[:0]
	for i := range signals {
		if o.sees(w, signals[i].User) {
			kept = append(kept, signals[i])
		}
	}
	return kept
}

// scopedLocked is the body of what changed after a tick of those that are looked at;
// ok is false if that is not known. Those who look at one page and nothing else
// share it.
func (sg *roomSignals) scopedLocked(r *room, o *outlook, from rollcall.SignalTick) (body []byte, ok bool) {
	var shared *page
	if len(o.pages) == 1 && len(o.contacts) == 0 {
		shared = o.pages[0].page
		if at := (scopedAt{shared.revision, sg.table.Tick()}); shared.scopedAt != at {
			shared.scopedAt, shared.scoped = at, shared.scoped[:0]
		}
		for i := range shared.scoped {
			if shared.scoped[i].from == from {
				return shared.scoped[i].body, true
			}
		}
	}
	changed, ok := sg.table.Since(time.Now(), from, sg.buffer[:0])
	sg.buffer = changed
	defer clear(changed)
	if !ok {
		return nil, false
	}
	if seen := o.filter(r.windows, changed); len(seen) > 0 {
		body = wire.AppendSignals(nil, r.id, seen, false)
		r.h.metrics.signalFrames.Inc()
	}
	if shared != nil {
		shared.scoped = append(shared.scoped, signalsBody{from: from, to: sg.table.Tick(), body: body})
	}
	return body, true
}
