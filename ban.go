package rollcall

import "time"

// roomUser is a user in a room.
type roomUser struct {
	room RoomID
	user UserID
}

// ban keeps the user of a kick out of the room for as long as the kick says. An
// earlier ban that lasts longer stays.
func (p *Partition) ban(op *Op) {
	if op.Ban <= 0 {
		return
	}
	until := p.clock.Elapsed() + min(op.Ban, p.limits.MaxBan)
	at := roomUser{op.Room, op.User}
	p.bans[at] = max(p.bans[at], until)
}

// banned is for how long the user is still kept out of the room.
func (p *Partition) banned(room RoomID, user UserID) time.Duration {
	return max(p.bans[roomUser{room, user}]-p.clock.Elapsed(), 0)
}

// lift forgets the bans that are over. It looks at them once a second.
func (p *Partition) lift(elapsed time.Duration) {
	if len(p.bans) == 0 || elapsed < p.lifted+time.Second {
		return
	}
	p.lifted = elapsed
	for at, until := range p.bans {
		if until <= elapsed {
			delete(p.bans, at)
		}
	}
}

// SavedBan is a ban and how much of it is left.
type SavedBan struct {
	Room RoomID        `json:"room"`
	User UserID        `json:"user"`
	Left time.Duration `json:"left"`
}

func (p *Partition) saveBans() []SavedBan {
	var saved []SavedBan
	for at := range p.bans {
		if left := p.banned(at.room, at.user); left > 0 {
			saved = append(saved, SavedBan{Room: at.room, User: at.user, Left: left})
		}
	}
	return saved
}

func (p *Partition) restoreBans(saved []SavedBan) {
	for _, b := range saved {
		p.bans[roomUser{b.Room, b.User}] = p.clock.Elapsed() + b.Left
	}
}
