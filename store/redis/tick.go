package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Sweeping: any node sweeps any partition that it has not seen swept for a
// while; the script refuses what comes too soon after another node's sweep.
const tickMost = 48 // leases, and what else is due, that one call sees to: no call blocks the store for 5 ms

// graceUntil has the partition swept at the end of a close grace.
func (p *partition) graceUntil(end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grace.IsZero() || end.Before(p.grace) {
		p.grace = end
	}
}

// due reports whether this node should sweep the partition now, and whether it
// must although another node has just done so.
func (p *partition) due(now time.Time, every time.Duration) (due, must bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.grace.IsZero() && !now.Before(p.grace) {
		p.grace = time.Time{}
		must = true
	}
	away := p.away.Load() // how else would it be found to be there again
	if !must && !away && (p.resting || now.Before(p.ticked)) {
		return false, false
	}
	if every > 0 {
		p.ticked = now.Add(every + rand.N(every*7/5))
	}
	return true, must
}

// rest has the partition not swept until something happens in it: there is nothing
// to end.
func (p *partition) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = !p.woken
	p.woken = false
}

// wake ends the rest. What happens while a sweep is on its way counts.
func (p *partition) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting, p.woken = false, true
}

// Tick implements [store.Store].
func (s *Store) Tick(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return s.tick(ctx, s.parts[:])
}

// TickOne implements [store.Parted].
func (s *Store) TickOne(ctx context.Context, partition int) error {
	if s.closed.Load() {
		return errClosed
	}
	return s.tick(ctx, s.parts[partition:partition+1])
}

func (s *Store) tick(ctx context.Context, parts []partition) error {
	now := time.Now()
	due := make(map[*partition]time.Duration) // how long ago the last sweep must be
	for i := range parts {
		p := &parts[i]
		if ok, must := p.due(now, s.o.Sweep); ok && must {
			due[p] = 0
		} else if ok {
			due[p] = s.o.Sweep
		}
	}
	for len(due) > 0 {
		again, err := s.sweep(ctx, due)
		if err != nil {
			return fmt.Errorf("tick: %w", err)
		}
		due = again
	}
	return nil
}

// sweep ticks partitions, in one round trip, and returns those that have more to
// end.
func (s *Store) sweep(ctx context.Context, due map[*partition]time.Duration) (again map[*partition]time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	again = make(map[*partition]time.Duration)
	var calls []scriptCall
	var parts []*partition
	for p, every := range due {
		calls = append(calls, scriptCall{p, s.args(p, p.knownEpoch(), strconv.Itoa(tickMost), micros(every))})
		parts = append(parts, p)
	}
	failed := 0
	var failure error
	for i, res := range s.run(ctx, tickScript, calls...) {
		p := parts[i]
		answer, other, err := s.answer(p, res)
		if err != nil {
			failed, failure = failed+1, err
			continue
		}
		if other {
			again[p] = due[p]
			continue
		}
		if len(answer) < 5 {
			return nil, fmt.Errorf("%d values where 5 are due", len(answer))
		}
		if left, err := answer[3].AsInt64(); err == nil && left == 0 {
			p.rest()
		}
		if err := s.index.note(answer[4]); err != nil {
			return nil, err
		}
		more, err := answer[1].AsInt64()
		if err != nil {
			return nil, err
		}
		if more > 0 {
			again[p] = 0
		}
	}
	// In a cluster some partitions may be away: life goes on in the others.
	if failed == len(calls) {
		return nil, failure
	}
	return again, nil
}
