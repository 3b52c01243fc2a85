package keynote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// roomName is the room that all join.
const roomName = "keynote"

// handshakes is how many members may be between their request and their first
// sight of the room. Each waits a few times for its turn on a core, so few of
// them would measure the machine's other work.
const handshakes = 512

// crowd is all the members. Its methods but those of the members are called by
// one goroutine.
type crowd struct {
	transport string        // static
	series    *series       // static
	secret    []byte        // static
	seats     []*seat       // static
	doors     chan struct{} // capacity handshakes

	members []*member // of now
	born    int       // how many there ever were
	ctx     context.Context
	stopAll context.CancelFunc
	running sync.WaitGroup

	present  atomic.Int64 // who are shown the room
	churning atomic.Bool
	killed   atomic.Int64 // when a node was, in Unix ns; 0 before
	phase    atomic.Pointer[string]

	mu    sync.Mutex
	left  map[int]bool // Guarded by mu. Who was asked to leave.
	fault func(error)  // notes why a stream ended; static
	faults
}

// faults is why streams ended, each kind once.
type faults struct {
	mu    sync.Mutex
	kinds map[string]int // Guarded by mu.
}

func (f *faults) note(err error) {
	text := "the stream ended"
	if err != nil {
		text = err.Error()
		if e := errors.Unwrap(err); e != nil {
			text = e.Error() // without the addresses
		}
	}
	f.mu.Lock()
	f.kinds[text]++
	f.mu.Unlock()
}

// told is the faults, for an error.
func (f *faults) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kinds) == 0 {
		return ""
	}
	return fmt.Sprintf("; streams ended: %v", f.kinds)
}

func newCrowd(ctx context.Context, o *Options, secret []byte, addrs []string) *crowd {
	c := &crowd{
		transport: o.Transport, series: newSeries(o.most()), secret: secret,
		doors: make(chan struct{}, handshakes), left: make(map[int]bool),
	}
	c.faults.kinds = make(map[string]int)
	c.fault = c.faults.note
	for _, addr := range addrs {
		s := &seat{addr: addr}
		s.up.Store(true)
		c.seats = append(c.seats, s)
	}
	c.ctx, c.stopAll = context.WithCancel(ctx)
	c.setPhase("fill")
	return c
}

func (c *crowd) setPhase(name string) { c.phase.Store(&name) }

// newMember lets one more come.
func (c *crowd) newMember() (*member, error) {
	n := c.born
	user := userOf(n)
	token, err := auth.Mint(c.secret, auth.Claims{
		User: rollcall.UserID(user), Rooms: []string{roomName}, Info: json.RawMessage(fmt.Sprintf(`{"name":"Member %d"}`, n)),
	})
	if err != nil {
		return nil, err
	}
	c.born++
	m := &member{c: c, n: n, token: token, node: c.seats[n%len(c.seats)], count: -1}
	if !m.node.up.Load() {
		m.node = c.elsewhere()
	}
	c.running.Go(func() { m.run(c.ctx) })
	return m, nil
}

// elsewhere is a node that is up; any one if none is.
func (c *crowd) elsewhere() *seat {
	from := rand.IntN(len(c.seats))
	for i := range c.seats {
		if s := c.seats[(from+i)%len(c.seats)]; s.up.Load() {
			return s
		}
	}
	return c.seats[from]
}

// fill lets n come, evenly spread over a time.
func (c *crowd) fill(n int, over time.Duration) error {
	began := time.Now()
	for i := range n {
		if !sleep(c.ctx, time.Until(began.Add(over*time.Duration(i)/time.Duration(n)))) {
			return context.Cause(c.ctx)
		}
		m, err := c.newMember()
		if err != nil {
			return err
		}
		c.members = append(c.members, m)
	}
	return nil
}

// churn exchanges rate members a second, for a time.
func (c *crowd) churn(rate float64, span time.Duration) error {
	c.churning.Store(true)
	defer c.churning.Store(false)
	began := time.Now()
	for i := 0; ; i++ {
		at := time.Duration(float64(i) / rate * float64(time.Second))
		if at >= span {
			return nil
		}
		if !sleep(c.ctx, time.Until(began.Add(at))) {
			return context.Cause(c.ctx)
		}
		k := rand.IntN(len(c.members))
		if m := c.members[k]; m.inside.Load() {
			c.mu.Lock()
			c.left[m.n] = true
			c.mu.Unlock()
			c.series.now().left.Add(1)
			c.running.Go(func() {
				if err := m.leave(); err != nil {
					c.fault(err)
				}
			})
			m, err := c.newMember()
			if err != nil {
				return err
			}
			c.members[k] = m
		}
	}
}

func (c *crowd) hasLeft(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left[n]
}

// inside is how many of the members are shown the room.
func (c *crowd) inside() (n int) {
	for _, m := range c.members {
		if m.inside.Load() {
			n++
		}
	}
	return n
}

// await waits until all members are inside.
func (c *crowd) await(within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		n := c.inside()
		if n == len(c.members) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d members are in after %v", n, len(c.members), within)
		}
		if !sleep(c.ctx, 20*time.Millisecond) {
			return context.Cause(c.ctx)
		}
	}
}

// stop ends every stream and waits for the members.
func (c *crowd) stop() {
	c.stopAll()
	for _, m := range c.members {
		m.stop()
	}
	c.running.Wait()
}

// sleep reports whether ctx is still good after a time.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
