package rollcall

import "time"

// Whereabouts is where a user is, over all rooms, at one moment.
type Whereabouts struct {
	User UserID
	// Status is the highest over the rooms; StatusUnset: in none.
	Status Status
	// Version is that of the last change of Status. It rises for each user.
	Version Version
	Rooms   []RoomStatus // in no order
	// Seen is the last evidence of the user in any room, in Unix ms; 0 for one
	// who was never seen, or not for [SeenKept].
	Seen int64
}

// RoomStatus is the status of a user in one room.
type RoomStatus struct {
	Room   RoomID
	Status Status
}

// UsersAnswer is the whereabouts of the users that were asked for, in their
// order.
type UsersAnswer struct {
	Users []Whereabouts
	// Settling is how long users who are nowhere may be on their way back.
	Settling time.Duration
}

// UserChange tells that the status of a user over all rooms has changed.
type UserChange struct {
	User    UserID
	Status  Status // StatusUnset: nowhere any more
	Version Version
}

// SeenKept is how long it is known when a user who is nowhere was last seen.
const SeenKept = 30 * 24 * time.Hour

// Evidence is the last evidence of a user in a room, in Unix ms; 0 if not there.
func (p *Partition) Evidence(now time.Time, id RoomID, userID UserID) int64 {
	p.begin(now)
	r := p.rooms[id]
	if r == nil || r.users[userID] == nil {
		return 0
	}
	u := r.users[userID]
	seen := u.seen
	for _, l := range u.leases {
		seen = max(seen, p.evidence(l))
	}
	return seen
}

// evidence is when a lease that has not run out was last renewed. That it is
// closing is evidence too.
func (p *Partition) evidence(l *lease) int64 {
	if l.state == leaseClosing {
		return p.wall
	}
	return p.wall - (p.clock.Elapsed() - (l.deadline - l.ttl)).Milliseconds()
}

// lastEvidence is what the end of a lease says of when its client lived.
func (p *Partition) lastEvidence(l *lease, reason Reason) int64 {
	if reason == ReasonExpired {
		return p.evidence(l)
	}
	return p.wall
}
