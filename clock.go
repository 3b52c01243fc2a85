package rollcall

import "time"

// LeaseClock counts lease time. It advances by at most Clamp between two
// observations and never goes back, so that a suspended process, a store that
// was away, or a clock that jumped costs at most that much lease time and cannot
// empty a room.
type LeaseClock struct {
	Clamp time.Duration // static; 0 is [ClockClamp]

	elapsed time.Duration
	last    time.Time
}

// Advance observes now and returns the lease time since the first observation.
// Go's monotonic reading is used where now has one.
func (c *LeaseClock) Advance(now time.Time) time.Duration {
	clamp := c.Clamp
	if clamp == 0 {
		clamp = ClockClamp
	}
	if !c.last.IsZero() {
		c.elapsed += min(max(now.Sub(c.last), 0), clamp)
	}
	c.last = now
	return c.elapsed
}

// Elapsed is the lease time at the last observation.
func (c *LeaseClock) Elapsed() time.Duration { return c.elapsed }
