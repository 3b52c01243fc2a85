package rollcall

import (
	"encoding/json"
	"time"
)

// Member is a user with at least one live lease in a room: listed once, whatever
// the number of tabs. A published Member is immutable and may be shared.
type Member struct {
	User UserID
	// Info is the user's public profile, a JSON object, from the token; nil if
	// the token has none.
	Info json.RawMessage
	// Status is the highest over the live connections.
	Status Status
	// Connections is the number of live connections, at least 1. Connections
	// that are closing do not count while another one is open.
	Connections int
	// Since is when the user joined, in Unix milliseconds.
	Since int64
	// Data is a JSON object set by the client: that of the live connection
	// whose data changed last; nil if none was set.
	Data json.RawMessage
}

// Equal reports whether a viewer who was told m would learn nothing from o, which
// is a member of the same user.
func (m *Member) Equal(o *Member) bool { return m.User == o.User && sameMember(m, o) }

// ConnectionState is what one live connection of a member has set.
type ConnectionState struct {
	Connection ConnectionID
	Status     Status
	Data       json.RawMessage
	// TTL is how long its lease runs from the moment of the evidence, to a microsecond.
	TTL time.Duration
}

// Reason is why a lease ended, or why a member left: the reason of the last
// lease.
type Reason uint8

// The reasons of a leave.
const (
	ReasonNone    Reason = iota
	ReasonLeft           // an explicit leave
	ReasonClosed         // the client closed and did not return in the grace
	ReasonExpired        // no evidence from the client for a lease
	ReasonKicked         // removed by someone with the right to
	ReasonRevoked        // the token ended or was revoked
)

var reasonWords = [...]string{"", "left", "closed", "expired", "kicked", "revoked"}

// String is the word on the wire.
func (r Reason) String() string {
	if int(r) < len(reasonWords) {
		return reasonWords[r]
	}
	return ""
}

// ParseReason reads the word on the wire; ok is false for anything else.
func ParseReason(s string) (r Reason, ok bool) {
	for i, w := range reasonWords {
		if i > 0 && w == s {
			return Reason(i), true
		}
	}
	return ReasonNone, false
}

// Leave tells that a user has no live lease in the room any more.
type Leave struct {
	User   UserID
	Reason Reason
}

// Ended tells the end of one lease, whether or not the user left with it.
type Ended struct {
	Connection ConnectionID
	User       UserID
	Generation Generation
	Reason     Reason
}

// Change is what one decision changed in one room. It follows the state at
// version Prev and leads to Version.
type Change struct {
	Room    RoomID
	Prev    Version // 0: the room was empty and had been forgotten
	Version Version
	Count   int  // members after the change
	Mode    Mode // after the change
	// Switched tells that the change has led to another mode.
	Switched bool
	Join     []*Member
	Update   []*Member
	Leave    []Leave
	// Seen is the last evidence of the one who left, in Unix ms; 0 if the store
	// tells it elsewhere, or nobody left.
	Seen int64
	// Ended lists the leases that ended. A Change that only ends leases has
	// Version == Prev: nobody's roster changed.
	Ended []Ended
}

// Frame is what one call changed in a partition: the unit of the feed. Frames of
// a partition are numbered without gaps.
type Frame struct {
	Partition int
	Epoch     Epoch
	Seq       uint64
	Changes   []Change
	// Users are changes of the status of users over all rooms, whichever
	// partition they are kept in. Those of one user have rising versions; an
	// older one may come late.
	Users []UserChange
	// Revoked are revocations that have just been made.
	Revoked []Revocation
	// Gap tells that frames up to this one were lost, or that the store has
	// another epoch: what is known of the rooms of the partition may be old.
	Gap bool
}

// Diff is the difference between two states of a roster: the net effect, with
// each user in at most one list.
type Diff struct {
	Prev    Version
	Version Version
	Count   int
	Join    []*Member
	Update  []*Member
	Leave   []Leave
}

// Empty reports whether the diff says nothing.
func (d *Diff) Empty() bool { return len(d.Join)+len(d.Update)+len(d.Leave) == 0 }
