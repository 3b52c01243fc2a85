package rollcall_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rollcall"
)

// crowd judges ends at given times, with the number of streams open at each, the
// way an owner with one timer does: whenever a judgement is due.
type crowd struct {
	t      *testing.T
	judge  *rollcall.Crowd[int]
	now    time.Time
	closed []int
	cut    []int
}

func newCrowd(t *testing.T, grace time.Duration) *crowd {
	return &crowd{t: t, judge: rollcall.NewCrowd[int](grace), now: startTime}
}

func (c *crowd) end(stream, open int) { c.judge.End(c.now, open, stream) }

// pass lets time pass, and judges each end at the moment when it is due, after
// the ends of that moment.
func (c *crowd) pass(d time.Duration) {
	c.t.Helper()
	until := c.now.Add(d)
	for {
		at, ok := c.judge.Next()
		if !ok || !at.Before(until) {
			break
		}
		closed, cut := c.judge.Judge(at)
		if len(closed)+len(cut) == 0 {
			c.t.Fatalf("a judgement was due at %v, and nothing was judged", at.Sub(startTime))
		}
		c.closed, c.cut = append(c.closed, closed...), append(c.cut, cut...)
	}
	c.now = until
}

func (c *crowd) want(closed, cut int) {
	c.t.Helper()
	if len(c.closed) != closed || len(c.cut) != cut {
		c.t.Errorf("got %d closed and %d cut, want %d and %d", len(c.closed), len(c.cut), closed, cut)
	}
	all := slices.Concat(c.closed, c.cut)
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != closed+cut {
		c.t.Errorf("%d streams were judged, want each of %d once", n, closed+cut)
	}
	if _, ok := c.judge.Next(); ok {
		c.t.Error("something is left to judge")
	}
}

func TestCrowdIsCutAndPeopleClose(t *testing.T) {
	tests := []struct {
		name       string
		ends, open int
		crowd      bool
	}{
		{"one of one", 1, 1, false},
		{"one of 100", 1, 100, false},
		{"20 of 100", 20, 100, false},
		{"21 of 100", 21, 100, true},
		{"21 of 209", 21, 209, true},
		{"21 of 210", 21, 210, false},
		{"1000 of 9999", 1000, 9999, true},
		{"1000 of 10000", 1000, 10000, false},
		{"all of 5", 5, 5, true},
		{"4 of 4", 4, 4, false},
		{"5 of 6", 5, 6, false},
		{"all of 20", 20, 20, true},
	}
	for _, test := range tests {
		for _, gap := range []time.Duration{0, 900 * time.Millisecond / time.Duration(test.ends)} {
			c := newCrowd(t, time.Second)
			for i := range test.ends {
				c.end(i, test.open-i)
				c.pass(gap)
			}
			c.pass(time.Minute)
			t.Logf("%s, %v apart", test.name, gap)
			if test.crowd {
				c.want(0, test.ends)
			} else {
				c.want(test.ends, 0)
			}
		}
	}
}

// People who leave one after the other, over more time than a proxy takes to go
// away, are people, however many they are.
func TestStaggeredClosesAreNoCrowd(t *testing.T) {
	c := newCrowd(t, time.Second)
	for i := range 100 {
		c.end(i, 100)
		c.pass(250 * time.Millisecond) // 9 within a hold before or after
	}
	c.pass(time.Minute)
	c.want(100, 0)

	c = newCrowd(t, time.Second)
	for i := range 5 {
		c.end(i, 5-i)
		c.pass(time.Second + 1)
	}
	c.pass(time.Minute)
	c.want(5, 0)
}

// Clients that come back while others are still being cut off keep the number of
// open streams up; it is a crowd all the same.
func TestCrowdInterleavedWithReturns(t *testing.T) {
	c := newCrowd(t, time.Second)
	for i := range 60 {
		c.end(i, 100)
		c.pass(10 * time.Millisecond)
	}
	c.pass(time.Minute)
	c.want(0, 60)

	c = newCrowd(t, time.Second)
	for i := range 5 {
		c.end(i, 5)
	}
	c.pass(time.Minute)
	c.want(0, 5)
}

func TestCrowdHoldsNoLongerThanGrace(t *testing.T) {
	for _, test := range []struct{ grace, hold time.Duration }{
		{time.Second, time.Second}, {10 * time.Second, time.Second}, {200 * time.Millisecond, 200 * time.Millisecond}, {0, 0},
	} {
		if got := rollcall.NewCrowd[int](test.grace).Hold(); got != test.hold {
			t.Errorf("grace %v holds for %v, want %v", test.grace, got, test.hold)
		}
	}
	c := newCrowd(t, 200*time.Millisecond)
	c.end(1, 3)
	c.pass(200 * time.Millisecond)
	if len(c.closed) > 0 {
		t.Error("judged before the hold was over")
	}
	c.pass(1)
	c.want(1, 0)
}

// TestCrowdIsJudgedInLinearTime has ten thousand streams end over a second, each
// judged by itself when it is due. Work in the square of that takes a minute
// under the race detector.
func TestCrowdIsJudgedInLinearTime(t *testing.T) {
	const n = 10_000
	c := newCrowd(t, time.Second)
	start := time.Now()
	for i := range n {
		c.end(i, n-i)
		c.pass(100 * time.Microsecond)
	}
	c.pass(time.Minute)
	c.want(0, n)
	if took := time.Since(start); took > time.Second {
		t.Errorf("judging %d ends took %v, want much less than a second", n, took)
	}
}

// TestCrowdAgreesWithNaive counts the window of every end from scratch.
func TestCrowdAgreesWithNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type end struct {
			at   time.Time
			open int
		}
		var ends []end
		c := newCrowd(t, time.Second)
		open := rapid.IntRange(1, 60).Draw(rt, "open")
		for range rapid.IntRange(0, 150).Draw(rt, "steps") {
			switch {
			case rapid.IntRange(0, 4).Draw(rt, "step") == 0:
				c.pass(time.Duration(rapid.IntRange(1, 800).Draw(rt, "ms")) * time.Millisecond)
			case open > 0 && rapid.IntRange(0, 9).Draw(rt, "end") > 1:
				c.end(len(ends), open)
				ends = append(ends, end{c.now, open})
				open--
			default:
				open += rapid.IntRange(1, 30).Draw(rt, "opens")
			}
		}
		c.pass(time.Minute)
		var closed, cut []int
		for i, e := range ends {
			n, most := 0, e.open
			for _, o := range ends {
				if o.at.Sub(e.at).Abs() <= time.Second {
					if n++; n == 1 {
						most = max(most, o.open)
					}
				}
			}
			if n > 20 && n*10 > most || n >= 5 && n >= most {
				cut = append(cut, i)
			} else {
				closed = append(closed, i)
			}
		}
		if !slices.Equal(c.closed, closed) || !slices.Equal(c.cut, cut) {
			rt.Fatalf("closed %v and cut %v, want %v and %v", c.closed, c.cut, closed, cut)
		}
	})
}
