package redis

import (
	"errors"
	"sync"
	"time"

	"rollcall/store"
)

// layout is the first value of every frame, record and packed name. Two releases
// run side by side during an upgrade: fields may be added at the end of a layout,
// which this release keeps and does not look at; what has another layout is a later
// release's, and is left alone.
const layout = 1

var errLayout = errors.New("a layout that this release does not know")

// laterValues are values that a later release has written.
type laterValues struct {
	mu    sync.Mutex
	count uint64    // Guarded by mu. All so far.
	told  time.Time // Guarded by mu. When the log was last told of them.
}

// tellEvery is the least time between two words in the log on values of a later
// release.
const tellEvery = time.Minute

var _ store.Unknowns = (*Store)(nil)

// Unknown implements [store.Unknowns].
func (s *Store) Unknown() uint64 {
	s.later.mu.Lock()
	defer s.later.mu.Unlock()
	return s.later.count
}

// unknown notes a value that was left alone.
func (s *Store) unknown(what string) {
	l := &s.later
	l.mu.Lock()
	l.count++
	count, now := l.count, time.Now()
	tell := now.Sub(l.told) >= tellEvery
	if tell {
		l.told = now
	}
	l.mu.Unlock()
	if tell {
		s.o.Logger.Warn("a later release keeps in the store what this one cannot read", "value", what, "layout", layout, "so far", count,
			"hint", "upgrade this node too")
	}
}
