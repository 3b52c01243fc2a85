package store

import (
	"context"
	"time"

	"rollcall"
)

// Inspector is a store that can tell the leases behind a room. Stores may
// implement it; safe for concurrent use.
type Inspector interface {
	// Inspect tells what is known of a room, or of one user there if user is not
	// "". It changes nothing.
	Inspect(ctx context.Context, room rollcall.RoomID, user rollcall.UserID) (*rollcall.Inspection, error)
}

// Inspect implements [Inspector].
func (m *Memory) Inspect(_ context.Context, room rollcall.RoomID, user rollcall.UserID) (*rollcall.Inspection, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	p := m.partition(room)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Inspect(time.Now(), room, user), nil
}
