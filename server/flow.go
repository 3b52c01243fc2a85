package server

import (
	"sync/atomic"
	"time"

	"rollcall/wire"
)

// flow tells whether so many signals come that the ticks follow one upon the
// other: then nobody is the first after quiet, and nothing is late that is read
// just before each tick. See [transport.Rounds].
type flow struct {
	heard atomic.Int64 // signals since the last tick
	dense atomic.Bool
	each  float64 // Owned by the fan-out. Signals of a tick, on average over some dozen.
}

// Signals of a tick from which on the flow is dense, and below which it no longer is.
const (
	denseFrom  = 3
	denseBelow = 1.5
)

// turn begins a tick, so long after the last.
func (f *flow) turn(since time.Duration) {
	heard := float64(f.heard.Swap(0))
	if ticks := float64(since) / float64(tickEvery); ticks > 1 {
		heard /= ticks
	}
	f.each += (heard - f.each) / 12
	switch {
	case f.each >= denseFrom:
		f.dense.Store(true)
	case f.each < denseBelow:
		f.dense.Store(false)
	}
}

// A client that has sent so many signals in a row, none longer after the other, goes
// on doing so.
const (
	steadyFrom  = 4
	steadyPause = 500 * time.Millisecond
)

// steadiness is what one client adds to the flow. Owned by its reader.
type steadiness struct {
	row  uint8   // messages that were signals, in a row, up to steadyFrom
	last instant // when the last of them came
}

// take notes what the client has sent.
func (s *steadiness) take(messages []wire.Message, now instant, f *flow) {
	for i := range messages {
		if messages[i].Type != wire.MessageSignal {
			s.row = 0
			return
		}
	}
	if now.sub(s.last) > steadyPause {
		s.row = 0
	}
	s.row, s.last = min(s.row+1, steadyFrom), now
	f.heard.Add(int64(len(messages)))
}

// goesOn reports whether the client sends one signal after the other and nothing
// else.
func (s *steadiness) goesOn(now instant) bool {
	return s.row == steadyFrom && now.sub(s.last) <= steadyPause
}
