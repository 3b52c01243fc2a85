package server

import (
	"time"

	"rollcall"
	"rollcall/server/transport"
	"rollcall/wire"
)

// departure is a stream that has ended, and the leases that its connection held
// then: whoever returns meanwhile has newer ones.
type departure struct {
	c      *connection
	leases []rollcall.Lease
}

// attach makes s the stream of c. An older stream that is still open is replaced.
func (c *connection) attachLocked(s *stream, now instant) {
	if old := c.stream; old != nil {
		c.h.connections.streams[old.proto].Add(-1)
		old.byeLocked(wire.ByeReplaced, c.h.retry())
		for _, sub := range c.subs {
			sub.unviewLocked()
		}
	}
	c.streams++
	c.announced = false
	s.no = c.streams
	s.answered = now
	c.stream = s
	c.h.connections.streams[s.proto].Add(1)
	if c.h.closed.Load() {
		s.conn.Close() // the hub has ended those that were there before
	}
	c.h.metrics.opened.WithLabelValues(protocolNames[s.proto]).Inc()
	c.proveLocked(now)
}

// ended is called by the reader of a stream when that has ended, and decides
// which of the three ways of going it was.
func (s *stream) ended(end transport.End) {
	c := s.c
	c.mu.Lock()
	sentAway := s.told // what the client did since was to answer
	if end.Kind == transport.Closed || end.Kind == transport.Violation {
		s.answerCloseLocked(end)
	}
	if !s.told {
		s.over = true
		s.conn.Close()
	}
	if c.stream != s {
		c.mu.Unlock()
		return // replaced
	}
	d := &departure{c: c}
	for _, sub := range c.subs {
		if sub.leased() && !sub.ttl {
			d.leases = append(d.leases, sub.lease)
		}
	}
	open := int(c.h.connections.streams[s.proto].Add(-1)) + 1
	c.stream = nil
	for _, sub := range c.subs {
		sub.unviewLocked()
	}
	announced := s.left
	c.h.watchToken(c)
	c.announced = announced
	c.settleLocked()
	c.mu.Unlock()
	if len(d.leases) == 0 || announced || sentAway || end.Kind != transport.Closed {
		return // nothing held, it was announced, or it was cut
	}
	if s.proto == protocolWS {
		c.shut(d, c.h.timing.CloseGrace)
		return
	}
	c.h.pulse.hold(d, open)
}

// answerCloseLocked sends the close frame that a WebSocket is owed when its
// client closed or broke the protocol.
func (s *stream) answerCloseLocked(end transport.End) {
	if s.proto != protocolWS {
		return
	}
	code := wire.CloseCode(end.Code)
	if end.Kind == transport.Closed && (code == 1005 || code == 0) {
		code = wire.CloseNormal
	}
	s.closeLocked(code, end.Reason)
}

// hold keeps the unannounced end of an SSE stream until it can be judged.
func (p *pulse) hold(d *departure, open int) {
	p.crowdMu.Lock()
	p.crowd.End(time.Now(), open, *d)
	p.crowdMu.Unlock()
	p.rouse()
}

// judge closes those who went by themselves. The leases of a crowd run on.
func (p *pulse) judge(now time.Time) {
	p.crowdMu.Lock()
	closed, cut := p.crowd.Judge(now)
	grace := p.h.timing.CloseGrace - p.crowd.Hold()
	p.crowdMu.Unlock()
	p.h.metrics.crowd.Add(float64(len(cut)))
	for i := range closed {
		d := &closed[i]
		p.h.errands.of(d.c, func() { d.c.shut(d, grace) })
	}
}
