// Package store keeps the presence of every room and decides, in one place and
// atomically, who joined and who left.
//
// [Memory] is the store of a single node. All stores pass the conformance suite
// in package storetest.
package store

import (
	"context"

	"rollcall"
)

// Store decides and remembers. Safe for concurrent use.
//
// Errors are failures of the store itself, such as a lost link; what a client
// did wrong is in the results. A failed call may have happened.
type Store interface {
	// Apply carries out ops, each atomically and in order within a room, and
	// returns what each came to.
	Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error)

	// Renew renews leases by evidence from their clients, and fills in the
	// outcomes. It owns the slice until it returns.
	Renew(ctx context.Context, renewals []rollcall.Renewal) error

	// Tick ends what is due, in every partition that nobody has ticked lately.
	// Each node calls it a few times a second, and at the end of a close grace.
	Tick(ctx context.Context) error

	// Read answers a query about one room, as of one moment.
	Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error)

	// Feed hands every frame of changes to fn, those of a partition in order
	// and one at a time. What a call to Apply or Tick of this node changed may
	// be handed over before the call returns. fn must be quick, must not call
	// the store, and must not change the frame. To be called once, before any
	// other call.
	Feed(fn func(*rollcall.Frame))

	// Close lets go of everything; no frame is handed over afterwards.
	Close() error
}
