package server

import (
	"net/http"
	"sync"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// fadeAfter is how long the signals of a connection that comes back wait for the
// client to send them again.
const fadeAfter = 2 * time.Second

// sending is what a connection has sent of signals. Guarded by the mu of the
// connection.
type sending struct {
	rate    bucket
	waiting []waitingSignal // above the rate: the newest of each kind, in turn
	queued  bool            // in the list of the desk
}

type waitingSignal struct {
	sub    *sub
	signal rollcall.Signal
}

// signal takes the newest value of a kind from the client. Above the rate it
// waits for its turn, and the newest wins. s is kept.
func (c *connection) signal(id rollcall.RoomID, s *rollcall.Signal) *rollcall.Error {
	h := c.h
	if err := h.limits.CheckSignal(s); err != nil {
		return err
	}
	c.mu.Lock()
	sub, err := c.signallerLocked(id)
	if err != nil || sub == nil {
		c.mu.Unlock()
		return err
	}
	r := sub.room
	if r != nil {
		defer c.mu.Unlock()
		return c.sendLocked(sub, r, s)
	}
	c.mu.Unlock()
	// Without a stream nothing of the connection holds the room.
	r = h.watch(h.ctx, id)
	defer r.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if sub, err = c.signallerLocked(id); err != nil || sub == nil {
		return err
	}
	return c.sendLocked(sub, r, s)
}

// signallerLocked is the room that the connection may send signals to; nil if what
// it sends is dropped.
func (c *connection) signallerLocked(id rollcall.RoomID) (*sub, *rollcall.Error) {
	s := c.findLocked(id)
	if s == nil || c.stream != nil && c.stream.left {
		return nil, rollcall.Errorf(rollcall.CodeGone, "the connection is not in this room")
	}
	if err := may(c.identity, id, auth.Signal); err != nil {
		return nil, asError(err)
	}
	switch {
	case s.leased():
		return s, nil
	case c.leaseless && !c.identity.Server():
		return nil, nil // hidden: accepted, and seen by nobody
	}
	if s.estimated {
		return nil, errEstimate
	}
	return nil, rollcall.Errorf(rollcall.CodeForbidden, "an observer sends no signals")
}

func (c *connection) sendLocked(sub *sub, r *room, s *rollcall.Signal) *rollcall.Error {
	s.User, s.Connection = c.user, c.id
	r.mu.Lock()
	err := r.signalsLocked().table.Check(s)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if c.sending == nil {
		c.sending = &sending{rate: newBucket(c.h.limits.SignalsPerSecond)}
	}
	out := c.sending
	for i := range out.waiting {
		if w := &out.waiting[i]; w.sub == sub && w.signal.Kind == s.Kind {
			w.signal = *s
			return nil
		}
	}
	rate := c.h.limits.SignalsPerSecond
	out.rate.fill(c.h.clock.now(), rate, rate)
	if out.rate.tokens < 1 {
		out.waiting = append(out.waiting, waitingSignal{sub, *s})
		if !out.queued {
			out.queued = true
			c.h.signals.wait(c)
		}
		return nil
	}
	out.rate.tokens--
	return sub.sendLocked(r, s)
}

// sendLocked puts a signal in the table of the room, under the lease that the
// connection holds now.
func (s *sub) sendLocked(r *room, signal *rollcall.Signal) *rollcall.Error {
	signal.Generation = s.lease.Generation
	return r.changeSignals(true, func(t *rollcall.Signals, now time.Time) *rollcall.Error {
		if r.signals.own == nil {
			return t.Set(now, signal)
		}
		r.signals.own[signal.Connection] = true
		before := t.Tick()
		err := t.Set(now, signal)
		if err == nil && t.Tick() == before && signal.Data != nil && s.c.h.clock.now() < s.fades {
			// No viewer has to be told, but the other nodes are about to end it.
			r.signals.again = append(r.signals.again, *signal)
			r.postLocked()
		}
		return err
	})
}

// sendWaiting sends what has waited, as far as the rate allows. It reports
// whether some is left.
func (c *connection) sendWaiting() (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.sending
	rate := c.h.limits.SignalsPerSecond
	out.rate.fill(c.h.clock.now(), rate, rate)
	n := 0
	for ; n < len(out.waiting) && out.rate.tokens >= 1; n++ {
		w := &out.waiting[n]
		// Whoever has left sends nothing more.
		if r := c.h.known(w.sub.id); r != nil && w.sub.leased() && c.findLocked(w.sub.id) == w.sub {
			out.rate.tokens--
			w.sub.sendLocked(r, &w.signal)
		}
	}
	out.waiting = append(out.waiting[:0], out.waiting[n:]...)
	clear(out.waiting[len(out.waiting):cap(out.waiting)])
	out.queued = len(out.waiting) > 0
	return out.queued
}

// silence drops what waits and ends the signals of a connection that has closed, in the rooms where it
// has not come back since.
func (c *connection) silence(d *departure) {
	for i := range d.leases {
		l := &d.leases[i]
		c.mu.Lock()
		s := c.findLocked(l.Room)
		back := s != nil && s.lease.Generation != l.Generation
		if c.sending != nil && !back {
			c.sending.waiting = nil
		}
		c.mu.Unlock()
		if back {
			continue
		}
		if r := c.h.known(l.Room); r != nil && !r.quiet() {
			r.changeSignals(true, func(t *rollcall.Signals, now time.Time) *rollcall.Error {
				t.Silence(now, c.id, l.Generation)
				return nil
			})
		}
	}
}

// fadeLocked ends the signals of an earlier stream of the connection in a while,
// here and at the other nodes.
func (s *sub) fadeLocked() {
	r := s.room
	if r == nil || !s.c.returned {
		return
	}
	s.fades = s.c.h.clock.now().add(fadeAfter)
	r.mu.Lock()
	none := r.signals == nil
	if !none && r.signals.own != nil {
		r.signals.faded = append(r.signals.faded, rollcall.Signal{Connection: s.c.id, Generation: s.lease.Generation})
		r.postLocked()
	}
	r.mu.Unlock()
	if none {
		return
	}
	r.changeSignals(false, func(t *rollcall.Signals, now time.Time) *rollcall.Error {
		t.Fade(now, s.c.id, s.lease.Generation, fadeAfter)
		return nil
	})
}

// known is a room of which this node keeps something; nil if it does not.
func (h *hub) known(id rollcall.RoomID) *room {
	shard := &h.rooms[rollcall.PartitionOf(id)]
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.rooms[id]
}

// postSignals is POST /v1/rooms/{room}/connections/{connection}/signals.
func (s *Server) postSignals(w http.ResponseWriter, r *http.Request) error {
	room, err := roomOf(r)
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	req, err := wire.DecodeSignals(raw, &s.o.Limits)
	if err != nil {
		return err
	}
	resume, err := s.prove(r, req.Resume)
	if err != nil {
		return err
	}
	c := s.h.connections.get(resume.Connection)
	if c == nil || c.user != resume.User {
		return rollcall.Errorf(rollcall.CodeGone, "the connection has ended")
	}
	c.mu.Lock()
	current := resume.Stream == c.streams
	if current {
		c.hearLocked(s.h.clock.now())
	}
	c.mu.Unlock()
	for i := range req.Signals {
		if !current {
			break // what is asked under an older secret does nothing
		}
		if refused := c.signal(room, &req.Signals[i]); refused != nil {
			return refused
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// signalDesk is the one timer of the signals: it sends those that waited because
// of the rate, and ends those that have run out.
type signalDesk struct {
	h    *hub
	wake chan struct{} // capacity 1; never closed

	mu      sync.Mutex
	waiting []*connection       // Guarded by mu. With signals above the rate.
	rooms   map[*room]time.Time // Guarded by mu. When each is to be looked at.
}

func newSignalDesk(h *hub) *signalDesk {
	return &signalDesk{h: h, wake: make(chan struct{}, 1), rooms: make(map[*room]time.Time)}
}

// wait has the signals of c sent in their turn.
func (d *signalDesk) wait(c *connection) {
	d.mu.Lock()
	d.waiting = append(d.waiting, c)
	d.mu.Unlock()
	d.rouse()
}

// look has a room looked at.
func (d *signalDesk) look(r *room, at time.Time) {
	d.mu.Lock()
	d.rooms[r] = at
	d.mu.Unlock()
	d.rouse()
}

func (d *signalDesk) rouse() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *signalDesk) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-d.h.ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		if wait := tickEvery - time.Since(last); wait > 0 {
			timer.Reset(wait)
			select {
			case <-d.h.ctx.Done():
				return
			case <-timer.C:
			}
		}
		last = time.Now()
		if next := d.turn(last); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// turn does what is due, and returns when something will be; zero: never.
func (d *signalDesk) turn(now time.Time) (next time.Time) {
	d.mu.Lock()
	waiting := d.waiting
	d.waiting = nil
	var due []*room
	for r, at := range d.rooms {
		if !at.After(now) {
			due = append(due, r)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, r := range due {
		delete(d.rooms, r)
	}
	if len(d.rooms) == 0 {
		d.rooms = make(map[*room]time.Time) // an emptied map keeps its memory
	}
	d.mu.Unlock()
	for _, r := range due {
		at := r.expireSignals(now)
		if at.IsZero() {
			continue
		}
		d.mu.Lock()
		if other, ok := d.rooms[r]; !ok || at.Before(other) {
			d.rooms[r] = at
		}
		d.mu.Unlock()
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	left := waiting[:0]
	for _, c := range waiting {
		if c.sendWaiting() {
			left = append(left, c)
		}
	}
	if len(left) > 0 {
		d.mu.Lock()
		d.waiting = append(d.waiting, left...)
		d.mu.Unlock()
		if soon := now.Add(tickEvery); next.IsZero() || soon.Before(next) {
			next = soon
		}
	}
	return next
}
