package server

import "time"

// forget forgets the connections that nothing else ends. It asks nobody.
func (h *hub) forget(now instant) {
	for _, c := range h.unseen.all() {
		if c.forgetUnseen(now) {
			h.unseen.remove(c)
		}
	}
	if now.sub(h.expired) >= time.Second {
		h.expired = now
		h.endOutlived()
	}
	if h.shared && now.sub(h.forgot) > h.timing.Lease {
		h.forgot = now
		h.connections.each(func(c *connection) { c.forgetSilent(now) })
	}
}

// endOutlived ends leases without a stream whose tokens have ended.
func (h *hub) endOutlived() {
	now := time.Now()
	for _, c := range h.streamless.take() {
		outlives, over := c.outlives(now)
		if outlives {
			c.mu.Lock()
			token := c.identity
			c.mu.Unlock()
			h.errands.tokenEnded(c, token)
		}
		if !over {
			h.streamless.add(c)
		}
	}
}

// forgetUnseen forgets a hidden connection without a stream that has been silent
// for its time, and reports whether it is forgotten.
func (c *connection) forgetUnseen(now instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.sub(c.evidence) > c.unseenFor {
		c.settleLocked()
	}
	return c.gone
}

// forgetSilent forgets the leases of a connection without a stream whose evidence
// is older than they run: they have ended, or go on on another node, and the news
// of that was lost. While the store is away nothing ends.
func (c *connection) forgetSilent(now instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil || c.entering {
		return
	}
	for i := len(c.subs) - 1; i >= 0; i-- {
		s := c.subs[i]
		if now.sub(c.evidence) > c.h.leaseOf(s)+c.h.timing.Lease && !s.keeper().isDown() {
			c.overLocked(s)
		}
	}
}
