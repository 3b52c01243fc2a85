package rollcall

import "time"

// Crowd tells people who close from a proxy that goes away. The end of a stream
// that nobody announced is held for a moment; if a crowd of streams ended around
// the same time, it was not the people: their leases run on. T names a stream.
type Crowd[T any] struct {
	hold time.Duration
	ends []crowdEnd[T] // in the order of their time
	next int           // the first that has not been judged
	// first and last are the ends of the window of the one judged last: they only
	// move on, so that judging one by one is linear as well.
	first, last int
}

type crowdEnd[T any] struct {
	at     time.Time
	open   int
	stream T
}

// The size of a crowd: more than crowdMin streams and more than one in
// crowdShare of those open, or all of at least crowdAll.
const (
	crowdMin   = 20
	crowdShare = 10
	crowdAll   = 5
)

// NewCrowd makes a judge that holds each end for min(1 s, grace).
func NewCrowd[T any](grace time.Duration) *Crowd[T] {
	return &Crowd[T]{hold: min(time.Second, grace)}
}

// Hold is how long an end is held.
func (c *Crowd[T]) Hold() time.Duration { return c.hold }

// End notes that a stream ended at now, one of open that were open until then.
func (c *Crowd[T]) End(now time.Time, open int, stream T) {
	c.ends = append(c.ends, crowdEnd[T]{now, open, stream})
}

// Next is when the next judgement is due; ok is false if none is.
func (c *Crowd[T]) Next() (at time.Time, ok bool) {
	if c.next == len(c.ends) {
		return time.Time{}, false
	}
	return c.ends[c.next].at.Add(c.hold), true
}

// Judge judges every end that has been held long enough: closed by people, or
// cut as one of a crowd. What ended within the hold before or after it counts.
func (c *Crowd[T]) Judge(now time.Time) (closed, cut []T) {
	for c.next < len(c.ends) && !c.ends[c.next].at.Add(c.hold).After(now) {
		e := &c.ends[c.next]
		for c.ends[c.first].at.Before(e.at.Add(-c.hold)) {
			c.first++
		}
		c.last = max(c.last, c.next)
		for c.last+1 < len(c.ends) && !c.ends[c.last+1].at.After(e.at.Add(c.hold)) {
			c.last++
		}
		if isCrowd(c.last-c.first+1, max(c.ends[c.first].open, e.open)) {
			cut = append(cut, e.stream)
		} else {
			closed = append(closed, e.stream)
		}
		c.next++
	}
	c.forget(now)
	return closed, cut
}

func isCrowd(n, open int) bool {
	return n > crowdMin && n*crowdShare > open || n >= crowdAll && n >= open
}

// forget drops the judged ends that no later one can count, once they are half
// of all.
func (c *Crowd[T]) forget(now time.Time) {
	oldest := now.Add(-2 * c.hold)
	half := len(c.ends) / 2
	if c.next <= half || !c.ends[half].at.Before(oldest) {
		return
	}
	n := half
	for n < c.next && c.ends[n].at.Before(oldest) {
		n++
	}
	rest := copy(c.ends, c.ends[n:])
	clear(c.ends[rest:])
	c.ends, c.next = c.ends[:rest], c.next-n
	c.first, c.last = max(c.first-n, 0), max(c.last-n, 0)
}
