package client

import (
	"slices"
	"strconv"
	"time"

	"rollcall"
	"rollcall/wire"
)

// roomOutbox is what the server has yet to hear about one room. There is no
// queue: a room has one wish, and at most one join, one set and one snapshot are
// on their way. Guarded by the mu of the client.
type roomOutbox struct {
	wish     wish
	accepted wish   // what the server last took
	rev      uint64 // of wish; rises with each change
	said     uint64 // the newest rev that was said on this stream
	join     step
	setting  bool // a set is on its way
	gap      gapStep
	// notBefore is when a join or a snapshot that was refused for the moment is
	// tried again.
	notBefore time.Time
	refusals  int
	refusal   error // why the join was last put off
	waiting   []waiter
}

// step is how far a join has come on this stream.
type step uint8

const (
	stepNeeded step = iota
	stepAsked
	stepDone
)

// gapStep is how far the mending of a gap has come.
type gapStep uint8

const (
	gapNone gapStep = iota
	gapFound
	gapAsked
)

// waiter is a call that waits for the server to take a wish.
type waiter struct {
	rev   uint64
	taken chan error // of capacity 1
}

// changed notes a new wish; the channel tells what the server said to it.
func (o *roomOutbox) changed() chan error {
	o.rev++
	w := waiter{o.rev, make(chan error, 1)}
	o.waiting = append(o.waiting, w)
	return w.taken
}

// forget drops a waiter that gave up.
func (o *roomOutbox) forget(taken chan error) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w waiter) bool { return w.taken == taken })
}

// answered tells those who wait for rev or less.
func (o *roomOutbox) answered(rev uint64, err error) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w waiter) bool {
		if w.rev <= rev {
			w.taken <- err
			return true
		}
		return false
	})
}

// reopen forgets what was said on the stream before: everything is said again.
func (o *roomOutbox) reopen() {
	o.join, o.setting, o.said = stepNeeded, false, 0
	o.gap, o.notBefore, o.refusals = gapNone, time.Time{}, 0
}

// mend notes a gap, unless its mending is under way.
func (o *roomOutbox) mend() {
	if o.gap == gapNone {
		o.gap = gapFound
	}
}

// later puts off what was refused for the moment.
func (o *roomOutbox) later(now time.Time, random func() float64) {
	o.notBefore = now.Add(backoff(o.refusals+1, &ending{}, random))
	o.refusals++
}

// leaving is a room that the server has yet to hear we left.
type leaving struct {
	room      rollcall.RoomID
	said      bool          // on this stream
	notBefore time.Time     // if it was refused for the moment
	told      chan struct{} // closed when the server has heard
}

// ask is a message that waits for its answer.
type ask struct {
	kind string // the type of the message
	room *Room  // nil for a leave
	left *leaving
	rev  uint64
	wish wish
	// signal is what a signal was sent for; nil for anything else.
	signal *ownSignal
	// window is what was opened; nil for anything else.
	window *window
}

// collect is what there is to say now, and how long until there may be more; 0:
// not before something happens. Called with mu held, on an open stream.
func (c *Client) collect(now time.Time) (messages []wire.Message, wait time.Duration) {
	say := func(m wire.Message, a ask) {
		c.asked++
		m.ID, a.kind = strconv.AppendInt(nil, c.asked, 10), m.Type
		c.asks[c.asked] = a
		messages = append(messages, m)
	}
	soonest := func(at time.Time) {
		if d := at.Sub(now); !at.IsZero() && d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	for _, l := range c.leaving {
		soonest(l.notBefore)
		if !l.said && !now.Before(l.notBefore) {
			l.said = true
			say(wire.Message{Type: wire.MessageLeave, Room: l.room}, ask{left: l})
		}
	}
	for _, r := range c.rooms {
		r.emit(r.roster.settle(now)...)
		r.collect(now, c.resumed, say)
		if r.outbox.join == stepDone {
			r.windows.collect(r, now, say, soonest)
		}
		soonest(r.roster.settled)
		if r.outbox.join == stepNeeded || r.outbox.gap == gapFound {
			soonest(r.outbox.notBefore)
		}
	}
	return messages, wait
}

// collect says what there is to say about the room. resumed tells that the
// server knew the connection.
func (r *Room) collect(now time.Time, resumed bool, say func(wire.Message, ask)) {
	o := &r.outbox
	if now.Before(o.notBefore) {
		return
	}
	current := ask{room: r, rev: o.rev, wish: o.wish}
	switch {
	case o.join == stepNeeded:
		o.join = stepAsked
		join := wire.Message{Type: wire.MessageJoin, Room: r.id, Observe: r.observe, Status: o.wish.status}
		if r.roster.known {
			join.Since = &wire.Since{Epoch: r.roster.epoch, Version: r.roster.version}
		}
		if !resumed || o.wish.data == nil {
			join.Data = o.wish.data
			o.said = o.rev
			say(join, current)
			break
		}
		// A connection that is known merges what a join gives into what it has,
		// so that keys which are no more would live on.
		say(join, ask{room: r})
		o.said, o.setting = o.rev, true
		say(wire.Message{Type: wire.MessageSet, Room: r.id, Data: o.wish.data, Replace: true}, current)
	case o.join == stepDone && o.said < o.rev && !o.setting:
		o.said, o.setting = o.rev, true
		set := wire.Message{Type: wire.MessageSet, Room: r.id, Status: o.wish.status}
		if o.wish.data != nil {
			set.Data, set.Replace = o.wish.data, true
		}
		say(set, current)
	}
	if o.join != stepNeeded {
		r.signals.collect(r, say)
	}
	if o.gap == gapFound && o.join != stepNeeded {
		o.gap = gapAsked
		say(wire.Message{Type: wire.MessageSnapshot, Room: r.id}, ask{room: r})
	}
}

// taken handles an ok. Called with mu held.
func (c *Client) taken(a ask, self *rollcall.Member) {
	if a.left != nil {
		c.heard(a.left)
		return
	}
	r := a.room
	if r.state == StateOver {
		return
	}
	o := &r.outbox
	switch a.kind {
	case wire.MessageJoin:
		o.join, o.refusals = stepDone, 0
	case wire.MessageSet:
		o.setting = false
	case wire.MessageSignal:
		r.takenSignal(a)
		return
	default:
		return
	}
	if self != nil {
		r.self = self
	}
	if a.rev > 0 {
		o.accepted = a.wish
		o.answered(a.rev, nil)
	}
}

// refused handles an error. Called with mu held.
func (c *Client) refused(a ask, err *rollcall.Error, retry bool, now time.Time) {
	if a.left != nil {
		if retry {
			a.left.said, a.left.notBefore = false, now.Add(backoffBase)
			return
		}
		c.heard(a.left) // such as: there is nothing to leave
		return
	}
	r := a.room
	if r.state == StateOver {
		return
	}
	if a.window != nil {
		r.refusedWindow(a, err, retry, now)
		return
	}
	o := &r.outbox
	switch a.kind {
	case wire.MessageJoin:
		if !retry {
			c.end(r, err)
			return
		}
		o.join, o.refusal = stepNeeded, err
		o.later(now, c.random)
	case wire.MessageSet:
		o.setting = false
		if o.join != stepDone {
			o.said = 0 // the join before it was refused: it will be said with the next
			return
		}
		if o.rev == a.rev {
			o.wish = o.accepted
		}
		o.answered(a.rev, err)
	case wire.MessageSignal:
		r.refusedSignal(a, err)
	case wire.MessageSnapshot:
		if retry {
			o.gap = gapFound
			o.later(now, c.random)
		}
	}
}
