package store

import (
	"context"

	"rollcall"
)

// Estimates is a store through which nodes tell each other how many are in the
// rooms that hold no leases. A store that does not implement it is that of a single
// node. Safe for concurrent use.
type Estimates interface {
	// Exchange tells whom this node has in rooms now, in place of what it told of
	// them before, and returns for each what the other nodes have told within the
	// last lease. A nil sketch tells nothing; an empty one that nobody is left. It
	// does not change the sketches.
	Exchange(ctx context.Context, node string, own []RoomSketch) (others []*rollcall.Sketch, err error)
}
