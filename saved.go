package rollcall

import (
	"encoding/json"
	"time"
)

// SavedPartition is the whole state of a partition, to go on from after a
// restart. It is plain data, for any encoding.
type SavedPartition struct {
	Version Version     `json:"version"`
	Rooms   []SavedRoom `json:"rooms,omitempty"`

	Bans    []SavedBan        `json:"bans,omitempty"`
	Revoked []SavedRevocation `json:"revoked,omitempty"`
}

// SavedRoom is a room and its members, in the order of their joins.
type SavedRoom struct {
	ID      RoomID      `json:"id"`
	Version Version     `json:"version"`
	Mode    Mode        `json:"mode,omitempty"`
	Users   []SavedUser `json:"users"`
}

// SavedUser is a member and its leases, in the order of their grants.
type SavedUser struct {
	ID     UserID          `json:"id"`
	Info   json.RawMessage `json:"info,omitempty"`
	Since  int64           `json:"since"` // Unix ms
	Joined Version         `json:"joined"`
	Leases []SavedLease    `json:"leases"`
}

// SavedLease is a lease. How long it had to run is not saved: nobody could renew
// it while the store was away, so it is restored in full.
type SavedLease struct {
	Connection  ConnectionID    `json:"connection"`
	Generation  Generation      `json:"generation"`
	TTL         time.Duration   `json:"ttl"`
	Status      string          `json:"status"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataVersion Version         `json:"dataVersion,omitempty"`
}

// Save is the state of the partition. Leases that are closing are saved as if
// they were not: whoever does not return runs out.
func (p *Partition) Save() SavedPartition {
	s := SavedPartition{Version: p.version, Bans: p.saveBans(), Revoked: p.saveRevocations()}
	for _, r := range p.rooms {
		sr := SavedRoom{ID: r.id, Version: r.version, Mode: r.mode, Users: make([]SavedUser, 0, len(r.users))}
		for _, place := range r.order.places {
			if place.value != nil {
				sr.Users = append(sr.Users, saveUser(place.value, place.version))
			}
		}
		s.Rooms = append(s.Rooms, sr)
	}
	return s
}

func saveUser(u *user, joined Version) SavedUser {
	m := u.member
	su := SavedUser{ID: m.User, Info: m.Info, Since: m.Since, Joined: joined}
	for _, l := range u.leases {
		su.Leases = append(su.Leases, SavedLease{
			Connection: l.connection, Generation: l.generation, TTL: l.ttl,
			Status: l.status.String(), Data: l.data, DataVersion: l.dataVersion,
		})
	}
	return su
}

// Held is a lease that a store holds for a connection which whoever asks does not
// know yet.
type Held struct {
	Lease  Lease
	Info   json.RawMessage
	Status Status
	Data   json.RawMessage
	TTL    time.Duration
}

// Restore goes on from a saved state: the same members, versions and
// generations, every lease in full from now. visit is told every lease. The
// partition must be new.
func (p *Partition) Restore(now time.Time, s *SavedPartition, visit func(Held)) {
	p.begin(now)
	p.version = max(p.version, s.Version)
	p.restoreBans(s.Bans)
	p.restoreRevocations(s.Revoked)
	for i := range s.Rooms {
		sr := &s.Rooms[i]
		r := &room{id: sr.ID, version: sr.Version, users: make(map[UserID]*user, len(sr.Users)), modes: p.modesOf(sr.ID), mode: sr.Mode}
		for j := range sr.Users {
			su := &sr.Users[j]
			if len(su.Leases) == 0 {
				continue
			}
			u := &user{room: r}
			r.users[su.ID] = u
			r.order.push(su.Joined, u)
			for k := range su.Leases {
				p.restoreLease(u, &su.Leases[k])
			}
			u.member = u.fold(su.ID, su.Info, su.Since)
			for _, l := range u.leases {
				visit(Held{
					Lease: Lease{Room: sr.ID, User: su.ID, Connection: l.connection, Generation: l.generation, TTL: l.ttl, slot: l},
					Info:  su.Info, Status: l.status, Data: l.data, TTL: l.ttl,
				})
			}
		}
		if len(r.users) > 0 {
			p.rooms[sr.ID] = r
			p.names.add(sr.ID)
		}
	}
}

func (p *Partition) restoreLease(u *user, s *SavedLease) {
	status, _ := ParseStatus(s.Status)
	l := &lease{
		user: u, connection: s.Connection, generation: s.Generation, ttl: s.TTL,
		deadline: p.clock.Elapsed() + s.TTL, status: status, data: s.Data, dataVersion: s.DataVersion,
	}
	u.leases = append(u.leases, l)
	u.room.connections++
	p.leases++
	p.expiry.add(l)
}
