package server

import "rollcall"

// signalScope is whose signals a stream is told. The zero value is everybody's; a
// narrow one, in counts mode, is of those at whom it looks. Good while the room is
// locked.
type signalScope struct {
	narrow bool
	w      *windows
	o      *outlook // nil: it looks at nobody
}

func (r *room) scopeLocked(sub *sub) signalScope {
	if r.tally == nil || r.settings.Signals != rollcall.SignalsScoped {
		return signalScope{}
	}
	return signalScope{narrow: true, w: r.windows, o: sub.outlook}
}

func (s signalScope) nobody() bool { return s.narrow && s.o == nil }

// moved reports whether the stream looks at others than when it was last told: then
// it is told all of theirs that live.
func (s signalScope) moved() bool {
	if !s.narrow || s.o == nil {
		return s.narrow
	}
	moved := s.o.moved
	s.o.moved = false
	return moved
}

// sees tells whose signals those are; nil: everybody's.
func (s signalScope) sees() func(rollcall.UserID) bool {
	if !s.narrow {
		return nil
	}
	return func(user rollcall.UserID) bool { return s.o.sees(s.w, user) }
}

// filter keeps the signals of those, in place.
func (s signalScope) filter(signals []rollcall.Signal) []rollcall.Signal {
	if !s.narrow {
		return signals
	}
	kept := signals[:0]
	for i := range signals {
		if s.o.sees(s.w, signals[i].User) {
			kept = append(kept, signals[i])
		}
	}
	return kept
}

// scopedAt is what the bodies of a page's signals were made of.
type scopedAt struct {
	revision uint64
	tick     rollcall.SignalTick
}

// bodiesLocked are the bodies that the stream shares with others: with everybody, or
// with those who look at the same page and nothing else. They are empty if it shares
// none.
func (s signalScope) bodiesLocked(sg *roomSignals) *[]signalsBody {
	switch {
	case !s.narrow:
		return &sg.bodies
	case len(s.o.pages) != 1 || len(s.o.contacts) > 0:
		return new([]signalsBody)
	}
	p := s.o.pages[0].page
	if at := (scopedAt{p.revision, sg.table.Tick()}); p.scopedAt != at {
		p.scopedAt, p.scoped = at, p.scoped[:0]
	}
	return &p.scoped
}
