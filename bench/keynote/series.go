package keynote

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slotTime is the grain of the series.
const slotTime = 200 * time.Millisecond

const slotsPerSecond = int(time.Second / slotTime)

// slot is what happened in one grain of time. Safe for concurrent use.
type slot struct {
	entered  atomic.Int64 // members who were shown the room for the first time
	left     atomic.Int64 // members who were asked to leave
	returned atomic.Int64 // members who were shown the room again, after an end
	ended    atomic.Int64 // streams that ended while nobody asked
	messages atomic.Int64 // events of the room, to all
	counts   atomic.Int64 // of them, counts
	leaves   atomic.Int64 // leaves shown of somebody who had not left
	falls    atomic.Int64 // counts that were less than the one before on the stream
	low      atomic.Int64 // least count that anybody was told, plus one; 0: none
	high     atomic.Int64 // most count
}

// tell notes a count that somebody was told.
func (s *slot) tell(count int) {
	n := int64(count)
	for low := s.low.Load(); (low == 0 || n+1 < low) && !s.low.CompareAndSwap(low, n+1); low = s.low.Load() {
	}
	for high := s.high.Load(); n > high && !s.high.CompareAndSwap(high, n); high = s.high.Load() {
	}
}

// series is the slots from the beginning on.
type series struct {
	began time.Time
	slots []slot

	mu   sync.Mutex
	gaps map[string][]time.Duration // Guarded by mu. Between two counts to a member, of one member in some, by phase.
	back []time.Duration            // Guarded by mu. From the end of a node to each member's return.
}

func newSeries(most time.Duration) *series {
	return &series{began: time.Now(), slots: make([]slot, int(most/slotTime)+1), gaps: make(map[string][]time.Duration)}
}

func (s *series) index(at time.Time) int {
	return min(max(int(at.Sub(s.began)/slotTime), 0), len(s.slots)-1)
}

// now is the present slot.
func (s *series) now() *slot { return &s.slots[s.index(time.Now())] }

func (s *series) gap(phase string, d time.Duration) {
	s.mu.Lock()
	s.gaps[phase] = append(s.gaps[phase], d)
	s.mu.Unlock()
}

func (s *series) cameBack(d time.Duration) {
	s.mu.Lock()
	s.back = append(s.back, d)
	s.mu.Unlock()
}

// sum adds up a field over the slots from one moment to another.
func (s *series) sum(from, to time.Time, field func(*slot) *atomic.Int64) (n int) {
	for i := s.index(from); i < s.index(to); i++ {
		n += int(field(&s.slots[i]).Load())
	}
	return n
}

func messagesOf(s *slot) *atomic.Int64 { return &s.messages }
func leavesOf(s *slot) *atomic.Int64   { return &s.leaves }
func fallsOf(s *slot) *atomic.Int64    { return &s.falls }
func endedOf(s *slot) *atomic.Int64    { return &s.ended }

// dip is how far below n the least count fell that anybody was told from one
// moment to another, and for how long less than n was told.
func (s *series) dip(from, to time.Time, n int) (depth int, length time.Duration) {
	for i := s.index(from); i < s.index(to); i++ {
		if low := int(s.slots[i].low.Load()) - 1; low >= 0 && low < n {
			depth = max(depth, n-low)
			length += slotTime
		}
	}
	return depth, length
}

// quantile is the value below which a part of the sorted values lies; 0 if there
// are none.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func (s *series) sortedGaps(phase string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.gaps[phase]))
}

func (s *series) sortedReturns() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.back))
}
