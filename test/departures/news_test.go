//go:build unix

package departures

import (
	"context"
	"sync"
)

// news wakes whoever waits for something to become true.
type news struct {
	mu sync.Mutex
	ch chan struct{} // Guarded by mu. Closed with the next news.
}

func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// await returns when cond is true, and false if ctx ends before. cond is asked
// again with each news.
func (n *news) await(ctx context.Context, cond func() bool) bool {
	for {
		next := n.next()
		if cond() {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return cond()
		}
	}
}
