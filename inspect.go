package rollcall

import (
	"encoding/json"
	"time"
)

// MaxInspected is the most users that an [Inspection] of a whole room names.
const MaxInspected = 1000

// Inspection is what a store knows of a room at one moment: the leases behind the
// members. It is plain data, for people who look for the reason of what is seen.
type Inspection struct {
	Room        RoomID  `json:"room"`
	Mode        string  `json:"mode"` // full or counts
	Count       int     `json:"count"`
	Connections int     `json:"connections"`
	Epoch       Epoch   `json:"epoch"`
	Version     Version `json:"version"`
	SettlingMs  int64   `json:"settlingMs"`
	// Users is the newest join first: at most [MaxInspected] of them, or the one
	// that was asked for.
	Users []InspectedUser `json:"users"`
}

// InspectedUser is a member, and why it is one.
type InspectedUser struct {
	User   UserID           `json:"user"`
	Info   json.RawMessage  `json:"info,omitempty"`
	Status string           `json:"status"`
	Since  int64            `json:"since"` // Unix ms
	Joined Version          `json:"joined"`
	Leases []InspectedLease `json:"leases"`
}

// InspectedLease is a lease and how long it still runs.
type InspectedLease struct {
	Connection ConnectionID    `json:"connection"`
	Generation Generation      `json:"generation"`
	State      string          `json:"state"` // live, or closing: it cannot be renewed
	Status     string          `json:"status"`
	Data       json.RawMessage `json:"data,omitempty"`
	LeaseMs    int64           `json:"leaseMs"` // how long it runs from a sign of life
	EndsInMs   int64           `json:"endsInMs"`
}

// The states of an inspected lease.
const (
	InspectedLive    = "live"
	InspectedClosing = "closing"
)

// Fold fills in the status, the highest of the leases.
func (u *InspectedUser) Fold() {
	best := StatusUnset
	for i := range u.Leases {
		if s, ok := ParseStatus(u.Leases[i].Status); ok {
			best = max(best, s)
		}
	}
	u.Status = best.String()
}

// Inspect tells what is known of a room; of one user alone if only is not "".
func (p *Partition) Inspect(now time.Time, id RoomID, only UserID) *Inspection {
	p.begin(now)
	in := &Inspection{Room: id, Mode: ModeFull.String(), Epoch: p.epoch, Version: p.version, SettlingMs: p.Settling().Milliseconds(), Users: []InspectedUser{}}
	r := p.rooms[id]
	if r == nil {
		return in
	}
	in.Version, in.Count, in.Connections, in.Mode = r.version, len(r.users), r.connections, r.mode.String()
	r.order.before(0, func(joined Version, u *user) bool {
		if only != "" && u.member.User != only {
			return true
		}
		in.Users = append(in.Users, p.inspectUser(u, joined))
		return only == "" && len(in.Users) < MaxInspected
	})
	return in
}

func (p *Partition) inspectUser(u *user, joined Version) InspectedUser {
	iu := InspectedUser{User: u.member.User, Info: u.member.Info, Since: u.member.Since, Joined: joined}
	for _, l := range u.leases {
		state := InspectedLive
		if l.state == leaseClosing {
			state = InspectedClosing
		}
		iu.Leases = append(iu.Leases, InspectedLease{
			Connection: l.connection, Generation: l.generation, State: state, Status: l.status.String(), Data: l.data,
			LeaseMs: l.ttl.Milliseconds(), EndsInMs: max(l.deadline-p.clock.Elapsed(), 0).Milliseconds(),
		})
	}
	iu.Fold()
	return iu
}
