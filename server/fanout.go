package server

import (
	"sync"
	"time"
)

// fanout brings changes to the streams, tick by tick: the first change after
// quiet goes at once, further ones together with the next tick, and a stream
// gets one write a tick however many of its rooms have changed.
type fanout struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	mu    sync.Mutex
	rooms []*room // Guarded by mu. With changes to fan out; room.queued.
}

func newFanout(h *hub) *fanout { return &fanout{h: h, wake: make(chan struct{}, 1)} }

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

func (f *fanout) take() []*room {
	f.mu.Lock()
	defer f.mu.Unlock()
	rooms := f.rooms
	f.rooms = nil
	return rooms
}

func (f *fanout) run() {
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
		last = time.Now()
		if wait := f.tick(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// tick fans out what is due and returns when the next room is; 0 if none waits.
func (f *fanout) tick() (wait time.Duration) {
	now := f.h.clock.now()
	var due []*connection
	var early []*room
	for _, r := range f.take() {
		var w time.Duration
		if due, w = r.tick(now, due); w > 0 {
			early = append(early, r)
			if wait == 0 || w < wait {
				wait = w
			}
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
