package server

import (
	"testing"
	"time"
)

// wireLink is a link that carries so many bytes a second, after so long a way.
type wireLink struct {
	rate  float64
	delay time.Duration
	now   time.Duration
	busy  time.Duration // until when it carries what it was given
	sent  []parcel
}

type parcel struct {
	bytes   int
	arrives time.Duration
}

func (l *wireLink) write(n int) {
	l.busy = max(l.busy, l.now) + time.Duration(float64(n)/l.rate*float64(time.Second))
	l.sent = append(l.sent, parcel{n, l.busy + l.delay})
}

func (l *wireLink) Unacknowledged() (n int, ok bool) {
	for _, p := range l.sent {
		if p.arrives > l.now {
			n += p.bytes
		}
	}
	return n, true
}

// follow writes frames of signals as a tick has them, and returns the longest that
// one was on its way once the pace was found, and how many bytes went.
func follow(l *wireLink, frame int) (worst time.Duration, sum int) {
	p := newPace(l)
	at := func() instant { return instant(1000 + l.now/time.Millisecond) }
	for ; l.now < 60*time.Second; l.now += tickEvery {
		most := p.allows(at())
		if most == 0 {
			continue
		}
		n := min(frame, most)
		l.write(n)
		p.wrote(n, at())
		if l.now > 30*time.Second {
			sum += n
			worst = max(worst, l.busy+l.delay-l.now)
		}
	}
	return worst, sum
}

func TestThePaceIsThatOfTheLink(t *testing.T) {
	const frame = 5500 // fifty cursors
	for _, test := range []struct {
		name  string
		rate  float64
		delay time.Duration
		most  time.Duration // on its way
		least float64       // of what the link carries, or of the frames
	}{
		{"20 kbit/s", 2500, 50 * time.Millisecond, 600 * time.Millisecond, 0.7},
		{"20 kbit/s and far", 2500, 200 * time.Millisecond, 700 * time.Millisecond, 0.4},
		{"64 kbit/s", 8000, 50 * time.Millisecond, 700 * time.Millisecond, 0.6},
		{"fast", 1e7, time.Millisecond, 10 * time.Millisecond, 1},
		{"fast and far", 1e7, 180 * time.Millisecond, 200 * time.Millisecond, 1},
	} {
		worst, sum := follow(&wireLink{rate: test.rate, delay: test.delay}, frame)
		could := min(test.rate*30, frame*30/tickEvery.Seconds())
		t.Logf("%s: on its way for at most %v, %.0f %% of what could go", test.name, worst, 100*float64(sum)/could)
		if worst > test.most {
			t.Errorf("%s: a frame was on its way for %v, want at most %v", test.name, worst, test.most)
		}
		if float64(sum) < could*test.least*0.99 {
			t.Errorf("%s: %d bytes of %.0f", test.name, sum, could)
		}
	}
}

func TestALinkThatTurnsSlowIsHeldAndComesBack(t *testing.T) {
	l := &wireLink{rate: 1e7, delay: time.Millisecond}
	p := newPace(l)
	at := func() instant { return instant(1000 + l.now/time.Millisecond) }
	run := func(d time.Duration) (written int) {
		for end := l.now + d; l.now < end; l.now += tickEvery {
			if n := min(5500, p.allows(at())); n > 0 {
				l.write(n)
				p.wrote(n, at())
				written += n
			}
		}
		return written
	}
	run(2 * time.Second)
	if p.most != 0 {
		t.Fatalf("a fast link is bounded to %d bytes", p.most)
	}
	l.rate = 2500
	run(time.Second)
	if p.most == 0 || p.allows(at()) != 0 {
		t.Errorf("a link that turned slow: at most %d bytes, and %d are allowed now", p.most, p.allows(at()))
	}
	l.rate, l.busy = 1e7, l.now
	l.sent = nil
	run(5 * time.Second)
	if p.most != 0 {
		t.Errorf("a link that is fast again is bounded to %d bytes", p.most)
	}
}
