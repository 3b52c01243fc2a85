package transport

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// circle is rounds, and pairs that are members of them.
type circle struct {
	*Rounds
	joined  chan struct{}
	reading atomic.Bool // a round is under way
}

func newCircle() *circle {
	c := &circle{joined: make(chan struct{}, 10)}
	c.Rounds = NewRounds(func() { c.joined <- struct{}{} })
	return c
}

// join opens a pair that is a member.
func (c *circle) join(t *testing.T) *pair {
	t.Helper()
	p := open(t, WebSocketOptions{Rounds: c.Rounds}, "")
	t.Cleanup(c.End)
	p.steady.Store(true)
	p.send(t, text("hello"))
	get(t, c.joined)
	return p
}

// until has round after round until p has written down n events.
func (c *circle) until(t *testing.T, p *pair, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(p.all()) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d events, want %d", len(p.all()), n)
		}
		c.reading.Store(true)
		c.Read(patience)
		c.reading.Store(false)
	}
}

func TestWhoIsSteadyIsReadInRounds(t *testing.T) {
	c := newCircle()
	var members []*pair
	for range 3 {
		members = append(members, c.join(t))
	}
	if n := c.Members(); n != 3 {
		t.Fatalf("%d members, want 3", n)
	}
	for _, p := range members {
		p.heard = func() {
			if !c.reading.Load() {
				t.Error("read outside of a round")
			}
		}
	}
	for i := range 20 {
		for _, p := range members {
			p.send(t, text(fmt.Sprint("a", i)), text(fmt.Sprint("b", i)))
		}
		for _, p := range members {
			c.until(t, p, 1+2*(i+1))
		}
	}
	for _, p := range members {
		if got := p.all(); got[1] != "message a0" || got[40] != "message b19" {
			t.Errorf("events %q", got)
		}
	}
}

func TestWhoIsNoLongerSteadyIsReadAtOnce(t *testing.T) {
	c := newCircle()
	p := c.join(t)
	p.steady.Store(false)
	c.Read(patience)
	p.send(t, text("x"))
	p.wait(t, 2)
	if n := c.Members(); n != 0 {
		t.Errorf("%d members, want none", n)
	}
	p.steady.Store(true)
	p.send(t, text("again"))
	get(t, c.joined)
	p.send(t, text("y"))
	c.until(t, p, 4)
}

// What does not fit into one buffer is read in one round, a message that is cut
// included.
func TestARoundReadsAllThatHasCome(t *testing.T) {
	c := newCircle()
	p := c.join(t)
	long := strings.Repeat("x", 3000)
	p.send(t, text(long), text(long), text(long))
	c.until(t, p, 4)
	if got := p.all(); got[3] != "message "+long {
		t.Errorf("the last is %s", short(got[3]))
	}
}

func TestARoundWaitsForNobodyForLong(t *testing.T) {
	c := newCircle()
	slow, other := c.join(t), c.join(t)
	busy, free := make(chan struct{}), make(chan struct{})
	slow.heard = func() {
		close(busy)
		<-free
	}
	slow.send(t, text("x"))
	for held := false; !held; {
		c.Read(time.Millisecond)
		select {
		case <-busy:
			held = true
		default:
		}
	}
	other.send(t, text("y"))
	began := time.Now()
	c.until(t, other, 2)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the others had to wait for %v", took)
	}
	slow.heard = nil
	close(free)
	slow.send(t, text("z"))
	c.until(t, slow, 3)
}

func TestAMemberThatGoesIsNoticed(t *testing.T) {
	c := newCircle()
	for _, test := range []struct {
		name string
		end  func(p *pair)
		want EndKind
	}{
		{"a close frame", func(p *pair) { p.send(t, closeFrame(1000, "")) }, Closed},
		{"cut", func(p *pair) { p.client.Close() }, Cut},
		{"closed here", func(p *pair) { p.server.Close() }, Local},
	} {
		p := c.join(t)
		test.end(p)
		for deadline := time.Now().Add(patience); c.Members() > 0 && time.Now().Before(deadline); {
			c.Read(patience)
		}
		if end := get(t, p.end); end.Kind != test.want {
			t.Errorf("%s: end = %v, want %v", test.name, end, test.want)
		}
	}
}

func TestWithoutRoundsEverybodyIsReadAtOnce(t *testing.T) {
	c := newCircle()
	p := c.join(t)
	c.End()
	p.send(t, text("x"))
	p.wait(t, 2)
	p.client.Close()
	if end := get(t, p.end); end.Kind != Cut || c.Members() != 0 {
		t.Errorf("end = %v with %d members, want cut and none", end, c.Members())
	}
}
