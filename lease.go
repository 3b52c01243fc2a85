package rollcall

import (
	"encoding/json"
	"time"
)

// Lease names one granted claim of a connection to be present in a room. It
// stays valid as a name after the claim has ended: whatever is then asked for
// under it does nothing.
type Lease struct {
	Room       RoomID
	User       UserID
	Connection ConnectionID
	Generation Generation
	// TTL is how long it runs from the moment of the evidence; 0 is the lease of
	// the timing.
	TTL time.Duration

	// slot lets the partition that granted the lease renew it without looking
	// anything up; nil for a lease that was named from outside.
	slot *lease
}

// lease is the claim itself. Owned by its partition. An ended lease is unlinked
// and keeps how it ended, for holders of a [Lease] that ask.
type lease struct {
	user        *user
	connection  ConnectionID
	generation  Generation
	claim       uint64
	deadline    time.Duration // on the lease clock
	ttl         time.Duration
	data        json.RawMessage
	dataVersion Version // when data was set; 0: never
	prev, next  *lease  // of the bucket
	bucket      int32
	status      Status
	state       leaseState
	again       bool   // granted again after it was lost: does not run out while the store settles
	reason      Reason // of an ended lease
}

type leaseState uint8

const (
	leaseLive     leaseState = iota
	leaseClosing             // runs out at the end of its grace; cannot be renewed
	leaseReplaced            // a newer generation of the same connection took over
	leaseEnded
)

// Outcome is what a renewal came to.
type Outcome uint8

// The outcomes.
const (
	// Renewed: the lease runs from the moment of the evidence (never less far
	// than it did before).
	Renewed Outcome = iota
	// Lost: the store does not know the lease; it lost its memory.
	Lost
	// Replaced: a newer generation of the connection holds the lease.
	Replaced
	// Over: the lease has ended, or is closing and cannot be renewed; Reason
	// tells why ([ReasonClosed] while it is closing).
	Over
	// Unheard: the call failed, and may have happened.
	Unheard
)

// Renewal asks for a lease to be renewed by evidence that is Age old. The store
// fills in Outcome and Reason.
type Renewal struct {
	Lease   *Lease
	Age     time.Duration
	Outcome Outcome
	Reason  Reason
}
