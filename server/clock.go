package server

import (
	"sync/atomic"
	"time"
)

// instant is a time on the node's monotonic clock, in milliseconds since a
// moment before the hub began; 0 is never.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d/time.Millisecond) }
func (i instant) sub(earlier instant) time.Duration {
	return time.Duration(i-earlier) * time.Millisecond
}

// hubClock counts the node's time, and notices when the node itself was away:
// suspended, stopped, or starved. What a client did in such a gap is unknown, so
// its silence is not held against it, and only answers to what was sent since
// are evidence.
type hubClock struct {
	began time.Time     // static after start
	clamp time.Duration // static after start
	gaps  atomic.Pointer[gaps]
}

// gaps is what the pulses have seen. Static once stored.
type gaps struct {
	pulse   instant       // the last pulse
	end     instant       // the end of the last gap; 0 if none
	last    time.Duration // what the last gap was longer than the clamp
	skipped time.Duration // the sum of that over all gaps
}

// start starts the clock; a gap counts for at most clamp.
func (c *hubClock) start(now time.Time, clamp time.Duration) {
	c.clamp = clamp
	c.began = now.Add(-time.Second)
	c.gaps.Store(&gaps{pulse: c.at(now)})
}

func (c *hubClock) at(t time.Time) instant { return instant(t.Sub(c.began) / time.Millisecond) }

func (c *hubClock) now() instant { return c.at(time.Now()) }

// observe is called by every pulse, and only by it. It reports whether a gap has
// just ended.
func (c *hubClock) observe(now instant) bool {
	g := *c.gaps.Load()
	gap := now.sub(g.pulse)
	g.pulse = now
	ended := gap > c.clamp
	if ended {
		g.end, g.last = now, gap-c.clamp
		g.skipped += g.last
	}
	c.gaps.Store(&g)
	return ended
}

// clamped is the moment i on the clamped clock, on which a gap counts for no
// more than the clamp.
func (c *hubClock) clamped(i instant) instant {
	g := c.gaps.Load()
	skipped := g.skipped
	if i < g.end {
		skipped -= g.last
	}
	if beyond := i.sub(g.pulse) - c.clamp; beyond > 0 {
		skipped += beyond // in a gap that no pulse has noticed yet
	}
	return i.add(-skipped)
}

// fresh reports whether something that arrives now, on a stream that has
// answered what was sent at answered, can be taken for a sign of life of this
// moment.
func (c *hubClock) fresh(now, answered instant) bool {
	g := c.gaps.Load()
	return answered >= g.end && now.sub(g.pulse) <= c.clamp
}
