package rollcall

import "time"

// Want is what a [Query] asks for.
type Want uint8

// What can be asked for.
const (
	// WantRoom asks for count, connections and version.
	WantRoom Want = iota
	// WantSnapshot asks for the published members, newest join first: the state
	// that the changes of the feed go on from. In counts mode the members are a
	// sample, the longest present first.
	WantSnapshot
	// WantPage asks for Limit members that joined before Cursor, newest first.
	WantPage
	// WantUsers asks which of Users are here.
	WantUsers
)

// Query is one read of one room.
type Query struct {
	Want   Want
	Room   RoomID
	Cursor Version // WantPage: 0 is the first page
	Limit  int     // WantPage
	Users  []UserID
	// States asks for the state of every connection along with the members
	// (WantPage, WantUsers).
	States bool
}

// Answer is what a [Query] read, all of it at one moment.
type Answer struct {
	Epoch       Epoch
	Version     Version
	Count       int
	Connections int
	Mode        Mode
	Members     []*Member
	// States[i] are the connections of Members[i], if asked for.
	States [][]ConnectionState
	// Next is the cursor of the next page; 0 if this is the last.
	Next Version
	// Estimate tells that the room is declared to name nobody. Count may then be an
	// estimate, with that standard error as a part of it; 0 is exact.
	Estimate      bool
	StandardError float64
	// Settling is how long missing members may still be on their way back.
	Settling time.Duration
}

// Read answers a query. Members of pages and look-ups show the number of
// connections of this moment; those of a snapshot what was last published.
func (p *Partition) Read(now time.Time, q *Query) Answer {
	p.begin(now)
	a := Answer{Epoch: p.epoch, Version: p.version, Settling: p.Settling()}
	r := p.rooms[q.Room]
	if r == nil {
		// The version of a room that nobody is in is any that is not before
		// its last change and before its next.
		a.Version = max(a.Version, 1)
		return a
	}
	a.Version, a.Count, a.Connections, a.Mode = r.version, len(r.users), r.connections, r.mode
	switch q.Want {
	case WantSnapshot:
		if r.mode == ModeCounts {
			a.Members = r.sample()
			break
		}
		a.Members = make([]*Member, 0, len(r.users))
		r.order.before(0, func(_ Version, u *user) bool {
			a.Members = append(a.Members, u.member)
			return true
		})
	case WantPage:
		p.readPage(r, q, &a)
	case WantUsers:
		for _, id := range q.Users {
			if u := r.users[id]; u != nil {
				a.add(u, q.States)
			}
		}
	}
	return a
}

func (p *Partition) readPage(r *room, q *Query, a *Answer) {
	limit := max(q.Limit, 0)
	a.Members = make([]*Member, 0, min(limit, len(r.users)))
	var last Version
	r.order.before(q.Cursor, func(version Version, u *user) bool {
		if len(a.Members) == limit {
			a.Next = last
			return false
		}
		last = version
		a.add(u, q.States)
		return true
	})
}

// add adds a user as of this moment.
func (a *Answer) add(u *user, states bool) {
	a.Members = append(a.Members, u.present())
	if states {
		a.States = append(a.States, u.states())
	}
}
