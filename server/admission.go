package server

import (
	"sync"

	"golang.org/x/time/rate"

	"rollcall"
)

// admission decides whether this node takes another stream.
type admission struct {
	limits rollcall.Limits // static

	mu       sync.Mutex
	accepts  *rate.Limiter // Guarded by mu. Made with the first stream.
	draining bool          // Guarded by mu.
}

type verdict uint8

const (
	admitted verdict = iota
	refusedBusy
	refusedDraining
)

// admit asks for one more stream beside those that are open.
func (a *admission) admit(open int) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accepts == nil {
		a.accepts = rate.NewLimiter(rate.Limit(a.limits.AcceptsPerSecond), max(int(a.limits.AcceptsPerSecond), 1))
	}
	switch {
	case a.draining:
		return refusedDraining
	case open >= a.limits.Connections || !a.accepts.Allow():
		return refusedBusy
	}
	return admitted
}

func (a *admission) drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
}

func (a *admission) isDraining() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining
}
