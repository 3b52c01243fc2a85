package server

import (
	"math/rand/v2"
	"sync"
	"time"

	"rollcall"
	"rollcall/wire"
)

// pulse is the one timer of a node: at every pulse it sends the beats that are
// due, ends what is silent, and rouses the keeper, who tells the store. It waits
// for nobody.
type pulse struct {
	h     *hub
	every time.Duration

	wheel [][]*stream // Owned by run. By the number of the pulse, modulo its length.
	turn  int64       // Owned by run. The number of the next pulse.

	mu       sync.Mutex
	opened   []*stream     // Guarded by mu. New, not yet in the wheel.
	setters  []*connection // Guarded by mu. With sets that wait for their turn.
	counters []*connection // Guarded by mu. With a count that has to wait.
	graces   []instant     // Guarded by mu. Ends of close graces, to tick the store at.
	wake     chan struct{} // capacity 1; a grace ends before the next pulse

	crowdMu sync.Mutex
	crowd   *rollcall.Crowd[departure] // Guarded by crowdMu.
}

func newPulse(h *hub) *pulse {
	p := &pulse{h: h, every: pulseEvery(h.timing.Lease), wake: make(chan struct{}, 1)}
	longest := max(h.timing.Lease, h.timing.Beat*2)
	p.wheel = make([][]*stream, int(longest/p.every)+2)
	p.crowd = rollcall.NewCrowd[departure](h.timing.CloseGrace)
	return p
}

// open takes a new stream under watch.
func (p *pulse) open(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = append(p.opened, s)
}

// set has the sets of c carried out when it may set again.
func (p *pulse) set(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setters = append(p.setters, c)
}

// grace has the store ticked at the end of a close grace that begins now.
func (p *pulse) grace(d time.Duration) {
	p.mu.Lock()
	p.graces = append(p.graces, p.h.clock.now().add(d+time.Millisecond))
	p.mu.Unlock()
	p.rouse()
}

// again has a connection looked at with the next pulse.
func (p *pulse) again(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counters = append(p.counters, c)
}

// pumpAgain looks at the connections with a count that had to wait.
func (p *pulse) pumpAgain() {
	p.mu.Lock()
	counters := p.counters
	p.counters = nil
	p.mu.Unlock()
	for _, c := range counters {
		c.mu.Lock()
		if c.stream != nil {
			c.stream.pumpLocked(nil)
		}
		c.mu.Unlock()
	}
}

func (p *pulse) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pulse) run() {
	h := p.h
	timer := time.NewTimer(p.every)
	defer timer.Stop()
	next := h.clock.now().add(p.every)
	var idled instant
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		now := h.clock.now()
		p.judge(time.Now())
		graceEnded := p.graceEnded(now)
		if now >= next || graceEnded {
			for _, k := range h.keepers {
				k.rouse()
			}
		}
		if now >= next {
			h.metrics.pulses.Inc()
			p.beat(now)
			h.forget(now)
			next = max(next.add(p.every), now)
			if now.sub(idled) > h.timing.Lease/4 {
				idled = now
				h.dropIdle(now)
			}
		}
		p.pumpAgain()
		p.flushSets(now)
		timer.Reset(p.until(next))
	}
}

// graceEnded reports whether a close grace has ended.
func (p *pulse) graceEnded(now instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.graces[:0]
	for _, g := range p.graces {
		if g > now {
			kept = append(kept, g)
		}
	}
	ended := len(kept) < len(p.graces)
	p.graces = kept
	return ended
}

// until is how long run may sleep.
func (p *pulse) until(next instant) time.Duration {
	p.mu.Lock()
	for _, g := range p.graces {
		next = min(next, g)
	}
	p.mu.Unlock()
	p.crowdMu.Lock()
	if at, ok := p.crowd.Next(); ok {
		next = min(next, p.h.clock.at(at).add(time.Millisecond))
	}
	p.crowdMu.Unlock()
	return max(next.sub(p.h.clock.now()), 0)
}

// beat visits the streams whose turn it is. After a gap of the node every stream
// is sent a beat: only the answer to that says whether its client still lives.
func (p *pulse) beat(now instant) {
	everybody := p.h.clock.observe(now)
	b := newBeat(now)
	p.mu.Lock()
	opened := p.opened
	p.opened = nil
	p.mu.Unlock()
	for _, s := range opened {
		p.visit(s, now, b, false)
	}
	var due []*stream
	turns := 1
	if everybody {
		turns = len(p.wheel)
	}
	for range turns {
		i := p.turn % int64(len(p.wheel))
		due = append(due, p.wheel[i]...)
		p.wheel[i] = nil
		p.turn++
	}
	for _, s := range due {
		p.visit(s, now, b, everybody)
	}
}

// visit does what is due for one stream and puts it where it is to be visited
// next.
func (p *pulse) visit(s *stream, now instant, b *beatBytes, ask bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != s || s.over || s.told {
		return
	}
	next, ok := s.dueLocked(now)
	if !ok {
		return
	}
	if s.nextBeat == 0 {
		s.showLaterLocked()
	}
	if s.nextBeat <= now || ask {
		if s.nextBeat != 0 {
			s.beatLocked(now, b)
		}
		beat := p.h.timing.Beat
		s.nextBeat = now.add(beat*17/18 + rand.N(beat/9+1))
	}
	next = min(next, s.nextBeat)
	turns := int64(next.sub(now) / p.every) // the next pulse is turn 0
	turns = min(max(turns-1, 0), int64(len(p.wheel)-2))
	i := (p.turn + turns) % int64(len(p.wheel))
	p.wheel[i] = append(p.wheel[i], s)
}

// dueLocked ends the stream if it is silent, if its token has ended, or if it is
// time for a plain client to prove itself: ok is false then. Otherwise it
// returns when to look again.
func (s *stream) dueLocked(now instant) (next instant, ok bool) {
	h := s.c.h
	silent := h.clock.clamped(now).sub(h.clock.clamped(s.c.evidence))
	if silent >= h.timing.Lease { // as silentLocked
		h.metrics.expired.Inc()
		s.byeLocked(wire.ByeExpired, h.retry())
		return 0, false
	}
	next = now.add(h.timing.Lease - silent)
	if s.plain {
		if now >= s.rotateAt {
			s.byeLocked(wire.ByeRotate, h.retry())
			return 0, false
		}
		next = min(next, s.rotateAt)
	}
	expires := s.c.identity.Expires
	if expires.IsZero() {
		return next, true
	}
	left := time.Until(expires)
	if s.c.identity.ByRequest {
		if left <= 0 { // it comes back with headers of then
			s.byeLocked(wire.ByeRotate, h.retry())
			return 0, false
		}
		return min(next, now.add(left)), true
	}
	warn := s.warnBefore()
	switch {
	case left <= -tokenLinger:
		h.errands.tokenEnded(s.c, s.c.identity)
		s.byeLocked(wire.ByeToken, wire.DontReconnect)
		return 0, false
	case left <= warn && !s.warned:
		s.warned = true
		s.event(wire.EventExpiring, wire.AppendExpiring(nil, max(left, 0)))
		s.pumpLocked(nil)
	}
	if s.warned {
		return min(next, now.add(left+tokenLinger)), true
	}
	return min(next, now.add(left-warn)), true
}

// warnBefore is how long before its end a token is told to end: 60 s, or a
// quarter of its life.
func (s *stream) warnBefore() time.Duration {
	id := s.c.identity
	if id.IssuedAt.IsZero() {
		return time.Minute
	}
	return min(time.Minute, id.Expires.Sub(id.IssuedAt)/4)
}

// flushSets carries out the sets whose turn has come.
func (p *pulse) flushSets(now instant) {
	p.mu.Lock()
	setters := p.setters
	p.setters = nil
	p.mu.Unlock()
	for _, c := range setters {
		c.mu.Lock()
		c.sets.fill(now, p.h.limits.SetsPerSecond, p.h.limits.SetsPerSecond)
		ready := c.sets.tokens >= 1
		if ready {
			c.sets.tokens--
			c.setting = false
		}
		c.mu.Unlock()
		if ready {
			p.h.errands.set(c)
		} else {
			p.set(c)
		}
	}
}
