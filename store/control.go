package store

import (
	"context"
	"errors"
	"time"

	"rollcall"
)

// Users is a store that knows where users are, over all rooms. Stores may
// implement it; safe for concurrent use. What changes is told by the feed, in
// [rollcall.Frame.Users].
type Users interface {
	// Users tells where users are, and when they were last seen. A store whose
	// nodes are many may be a second behind with what another node did, and up
	// to two leases with what a node did that died of it. [ErrNoIndex] if it
	// was told to keep no index.
	Users(ctx context.Context, users []rollcall.UserID) (rollcall.UsersAnswer, error)
}

// ErrNoIndex is returned by a store that keeps no index of users.
var ErrNoIndex = errors.New("store: no index of users")

// Control is a store that knows whose tokens were revoked. Stores may implement
// it; safe for concurrent use.
type Control interface {
	// Revoke refuses the tokens that r names from now on, and has every node
	// told by the feed, in [rollcall.Frame.Revoked]. Once it returns, Revoked
	// knows on every node.
	Revoke(ctx context.Context, r rollcall.Revocation) error

	// Revoked is what has been revoked of each of users, in their order.
	Revoked(ctx context.Context, users []rollcall.UserID) ([]rollcall.Revoked, error)
}

var (
	_ Users   = (*Memory)(nil)
	_ Control = (*Memory)(nil)
)

// Revoke implements [Control].
func (m *Memory) Revoke(_ context.Context, r rollcall.Revocation) error {
	if m.closed.Load() {
		return ErrClosed
	}
	p := &m.partitions[rollcall.PartitionOfUser(r.User)]
	p.mu.Lock()
	_, f := p.state.Revoke(time.Now(), r)
	m.unlock(p, f)
	return nil
}

// Revoked implements [Control].
func (m *Memory) Revoked(_ context.Context, users []rollcall.UserID) ([]rollcall.Revoked, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	all := make([]rollcall.Revoked, len(users))
	for i, user := range users {
		p := &m.partitions[rollcall.PartitionOfUser(user)]
		p.mu.Lock()
		all[i] = p.state.Revoked(user)
		p.mu.Unlock()
	}
	return all, nil
}
