package rollcall

import (
	"bytes"
	"encoding/json"
	"time"
)

// room is a room with at least one member. Owned by its partition.
type room struct {
	id          RoomID
	version     Version
	users       map[UserID]*user
	order       joinOrder[*user]
	modes       Modes // static
	mode        Mode
	connections int // live leases, those that are closing too
}

// user is a user with at least one live lease in a room. Owned by its partition.
type user struct {
	room   *room
	leases []*lease // in the order of their grants
	// member is what was last published: nil until the join.
	member *Member
	place  int // in room.order
	// connectionsAt is when a bare change of the number of connections was last
	// published, on the lease clock.
	connectionsAt time.Duration
	deferred      bool // such a change waits in partition.deferred
	// seen is the last evidence by the leases that have ended, in Unix ms.
	seen int64
}

func (u *user) setPlace(i int) { u.place = i }

func (u *user) find(c ConnectionID) *lease {
	for _, l := range u.leases {
		if l.connection == c {
			return l
		}
	}
	return nil
}

// openConnections is the number that a member shows: leases that are not
// closing, or 1 while all of them are.
func (u *user) openConnections() int {
	n := 0
	for _, l := range u.leases {
		if l.state == leaseLive {
			n++
		}
	}
	return max(n, 1)
}

// present is the published member with the number of connections of this moment,
// which viewers may be told a little later.
func (u *user) present() *Member {
	n := u.openConnections()
	if n == u.member.Connections {
		return u.member
	}
	m := *u.member
	m.Connections = n
	return &m
}

// fold is the member that the leases of the user make up.
func (u *user) fold(id UserID, info json.RawMessage, since int64) *Member {
	m := &Member{User: id, Info: info, Since: since, Connections: u.openConnections()}
	var newest Version
	for _, l := range u.leases {
		m.Status = max(m.Status, l.status)
		if l.dataVersion > newest {
			newest, m.Data = l.dataVersion, l.data
		}
	}
	return m
}

// sameButConnections reports whether two folds differ in nothing but the number
// of connections.
func sameButConnections(a, b *Member) bool {
	return a.Status == b.Status && bytes.Equal(a.Info, b.Info) && bytes.Equal(a.Data, b.Data)
}

func (u *user) states() []ConnectionState {
	states := make([]ConnectionState, len(u.leases))
	for i, l := range u.leases {
		states[i] = ConnectionState{Connection: l.connection, Status: l.status, Data: l.data, TTL: l.ttl}
	}
	return states
}
