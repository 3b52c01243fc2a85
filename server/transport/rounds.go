package transport

import (
	"sync"
	"time"
)

// Rounds reads together those WebSockets whose clients say something all the
// time. A frame that is read as soon as it is there wakes a thread, and that costs
// several times what reading and handling it does; in rounds all frames are read
// that have come since the last. The kernel is told not to report them.
//
// Who is read in rounds is what [WebSocketHandler].Steady says, if the connection
// is a plain one and the system Linux. Safe for concurrent use, but that one
// goroutine calls Read.
type Rounds struct {
	joined func() // static

	mu      sync.Mutex
	members int           // Guarded by mu.
	waiting []*WebSocket  // Guarded by mu. Members that wait for their turn.
	round   uint64        // Guarded by mu. The number of the round.
	left    int           // Guarded by mu. Members who have yet to be done with it.
	ended   bool          // Guarded by mu.
	done    chan struct{} // capacity 1; never closed
}

// NewRounds makes rounds without members. joined is called with each new one: from
// then on the caller has to call Read again and again, as long as there are members.
// It must not wait.
func NewRounds(joined func()) *Rounds {
	return &Rounds{joined: joined, done: make(chan struct{}, 1)}
}

// seat is the place of a member in rounds.
type seat struct {
	turn  chan struct{} // static; capacity 1; never closed
	round uint64        // Guarded by the mu of the rounds. In which it has its turn; 0: none.
}

// Read is one round: every member is read, and what there was is handled when it
// returns, except by handlers that take longer than most.
func (r *Rounds) Read(most time.Duration) {
	r.mu.Lock()
	turns := r.waiting
	r.waiting = nil
	r.round++
	r.left = len(turns)
	for _, c := range turns {
		c.seat.round = r.round
		c.seat.turn <- struct{}{}
	}
	r.mu.Unlock()
	if len(turns) == 0 {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		r.mu.Lock()
		r.left = 0 // whoever is still busy is done with a round that is over
		select {
		case <-r.done:
		default:
		}
		r.mu.Unlock()
	}
}

// Members is how many there are.
func (r *Rounds) Members() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members
}

// End has every member read as soon as something is there, and takes no more.
func (r *Rounds) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, c := range r.waiting {
		c.seat.turn <- struct{}{}
	}
	r.waiting = nil
}

// await makes c a member, if it is none, and waits for its turn; false if there is
// none any more.
func (r *Rounds) await(c *WebSocket) bool {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return false
	}
	joins := c.seat == nil
	if joins {
		if !reportFrom(c.raw, len(buffer{})) {
			r.mu.Unlock()
			return false
		}
		c.seat = &seat{turn: make(chan struct{}, 1)}
		r.members++
	}
	r.doneLocked(c)
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	if joins {
		r.joined()
	}
	<-c.seat.turn
	return true
}

// leave makes c no member.
func (r *Rounds) leave(c *WebSocket) {
	r.mu.Lock()
	r.doneLocked(c)
	r.members--
	r.mu.Unlock()
	c.seat = nil
	reportFrom(c.raw, 1)
}

// doneLocked notes that c is done with the round.
func (r *Rounds) doneLocked(c *WebSocket) {
	if c.seat.round != r.round || r.left == 0 {
		return
	}
	c.seat.round = 0
	if r.left--; r.left == 0 {
		r.done <- struct{}{}
	}
}
