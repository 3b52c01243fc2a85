package server

import (
	"sync"
	"time"

	"rollcall/server/transport"
)

// roundMost is how long a tick waits for those who are read in a round: for what
// they send to go with it, and not with the next.
const roundMost = 10 * time.Millisecond

// fanout brings changes to the streams, tick by tick: the first change after
// quiet goes at once, further ones together with the next tick, and a stream
// gets one write a tick however many of its rooms have changed.
type fanout struct {
	h      *hub
	wake   chan struct{} // capacity 1; never closed
	rounds *transport.Rounds
	flow   flow

	mu    sync.Mutex
	rooms []*room       // Guarded by mu. With changes to fan out; room.queued.
	held  []*connection // Guarded by mu. Whose streams could not take all signals; stream.held.
}

func newFanout(h *hub) *fanout {
	f := &fanout{h: h, wake: make(chan struct{}, 1)}
	f.rounds = transport.NewRounds(f.signal)
	return f
}

func (f *fanout) add(r *room) {
	f.mu.Lock()
	f.rooms = append(f.rooms, r)
	f.mu.Unlock()
	f.signal()
}

func (f *fanout) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// hold has the next tick write to a stream that could not take all it is due.
func (f *fanout) hold(c *connection) {
	f.mu.Lock()
	f.held = append(f.held, c)
	f.mu.Unlock()
	f.signal()
}

func (f *fanout) take() ([]*room, []*connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rooms, held := f.rooms, f.held
	f.rooms, f.held = nil, nil
	return rooms, held
}

func (f *fanout) run() {
	defer f.rounds.End()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-f.h.ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
		if wait := tickEvery - time.Since(last); wait > 0 {
			timer.Reset(wait)
			select {
			case <-f.h.ctx.Done():
				return
			case <-timer.C:
			}
		}
		now := time.Now()
		f.flow.turn(now.Sub(last))
		last = now
		f.rounds.Read(roundMost)
		wait := f.tick()
		if f.rounds.Members() > 0 && (wait == 0 || wait > tickEvery) {
			wait = tickEvery
		}
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

// tick fans out what is due and returns when the next room is; 0 if none waits.
func (f *fanout) tick() (wait time.Duration) {
	now := f.h.clock.now()
	var due []*connection
	var early []*room
	rooms, held := f.take()
	for _, r := range rooms {
		var w time.Duration
		if due, w = r.tick(now, due); w > 0 {
			early = append(early, r)
			if wait == 0 || w < wait {
				wait = w
			}
		}
	}
	for _, c := range held {
		if c.queued.CompareAndSwap(false, true) {
			due = append(due, c)
		}
	}
	for _, c := range due {
		c.queued.Store(false)
		c.mu.Lock()
		if c.stream != nil {
			c.stream.pumpLocked(nil)
		}
		c.mu.Unlock()
	}
	if len(early) > 0 {
		f.mu.Lock()
		f.rooms = append(f.rooms, early...)
		f.mu.Unlock()
	}
	return wait
}
