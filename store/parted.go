package store

import "context"

// Parted is a store whose partitions may lie on several servers, so that some of
// them may fail, or hang, while the others work. Stores may implement it; safe
// for concurrent use.
type Parted interface {
	// Parted reports whether they do: then no call but Tick, Rooms and Close should have
	// to do with more than one partition, and TickOne is used for Tick.
	Parted() bool

	// TickOne is Tick for one partition. It returns nil for one that is known to
	// have been away only once that has answered.
	TickOne(ctx context.Context, partition int) error
}
