package rollcall

import (
	"encoding/json"
	"time"
)

// OpKind is what an [Op] asks for.
type OpKind uint8

// The kinds of operations.
const (
	// OpGrant grants a lease: to a new connection, or to a connection that
	// reopens, whose status and data stay unless given.
	OpGrant OpKind = iota
	// OpSet changes the status or the data of a connection.
	OpSet
	// OpClose starts the close grace of a lease: nothing can renew it, only a
	// new grant to the same connection saves it.
	OpClose
	// OpEnd ends one lease at once, for Reason.
	OpEnd
	// OpEndUser ends every lease of a user in the room at once, for Reason, and
	// may keep the user out for a while. Of a user who is not there it is
	// refused, and bans nobody.
	OpEndUser
)

// Op is one operation on one room. The fields that a kind does not name are
// ignored.
type Op struct {
	Kind       OpKind
	Room       RoomID
	User       UserID
	Connection ConnectionID // all but OpEndUser
	// Generation must be that of the current lease for OpSet, OpClose and OpEnd
	// to do anything; 0 means whichever it is. OpGrant names that of a lease that
	// it grants again.
	Generation Generation

	// Info (OpGrant) replaces the user's public profile; nil keeps it.
	Info json.RawMessage
	// Status (OpGrant, OpSet); StatusUnset keeps it, and is active at first.
	Status Status
	// Data (OpGrant, OpSet) is a compact JSON object; nil keeps it.
	Data json.RawMessage
	// Merge (OpSet) merges the top-level keys of Data into what is there; null
	// is a value like any other.
	Merge bool

	// Since (OpGrant) is when the user joined, in Unix ms, if this grant repeats
	// one that the store has lost; 0 is now.
	Since int64

	// TTL (OpGrant) is how long the lease runs; 0 is the lease of the timing.
	TTL time.Duration
	// Age (OpGrant) is how old the evidence is.
	Age time.Duration
	// Claim (OpGrant) orders the streams of a connection, over all nodes: each has
	// a higher one than those it goes on from.
	Claim uint64
	// Late (OpGrant) says that the store should know of the claim already: it has
	// lost it, or could not be told. Such a grant does nothing where the
	// connection holds a lease by a higher claim: the result is Stale.
	Late bool
	// ResumeOnly (OpGrant) grants nothing but to a connection that has a lease
	// here, closing or not: CodeGone otherwise.
	ResumeOnly bool

	// Grace (OpClose) is how long the connection may take to return.
	Grace time.Duration
	// Reason (OpEnd, OpEndUser).
	Reason Reason
	// Ban (OpEndUser) is for how long the user is refused a grant in the room,
	// on the lease clock; 0 is not at all.
	Ban time.Duration
}

// Result is what one [Op] came to.
type Result struct {
	// Err tells that the operation was refused and changed nothing.
	Err *Error
	// Lease is the lease that a grant gave.
	Lease Lease
	// Member is the user in the room after the operation; nil if not present.
	Member *Member
	// Version of the room after the operation, in the memory of Epoch.
	Version Version
	Epoch   Epoch
	// Stale tells that the operation named a lease that is not the current one
	// and did nothing.
	Stale bool
}
