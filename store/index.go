package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"rollcall"
)

// index is where the users of a [Memory] are, over all rooms. It follows every
// frame before that is handed over and before the partition is unlocked, so it is
// never behind.
type index struct {
	off    bool // static
	most   int  // static; users of one shard that are kept after they have gone
	shards [rollcall.Partitions]indexShard
}

type indexShard struct {
	mu      sync.Mutex // taken with the lock of a partition held; nothing is taken under it
	users   map[rollcall.UserID]*indexed
	version rollcall.Version
	gone    []departed // oldest first; those who came back since are passed over
	absent  int        // users who are nowhere
}

type indexed struct {
	rooms   []rollcall.RoomStatus
	status  rollcall.Status
	version rollcall.Version
	seen    int64
}

// departed is a user who was nowhere any more, last seen then.
type departed struct {
	user rollcall.UserID
	seen int64
}

func newIndex(off bool, most int) *index {
	x := &index{off: off, most: max(most/rollcall.Partitions, 1)}
	for i := range x.shards {
		x.shards[i].users = make(map[rollcall.UserID]*indexed)
	}
	return x
}

// note follows the changes of a frame and adds what they change over all rooms.
func (x *index) note(f *rollcall.Frame) {
	if x.off {
		return
	}
	for i := range f.Changes {
		ch := &f.Changes[i]
		for _, m := range ch.Join {
			x.enter(f, m.User, rollcall.RoomStatus{Room: ch.Room, Status: m.Status})
		}
		for _, m := range ch.Update {
			x.enter(f, m.User, rollcall.RoomStatus{Room: ch.Room, Status: m.Status})
		}
		for _, l := range ch.Leave {
			x.leave(f, l.User, ch.Room, ch.Seen)
		}
	}
}

func (x *index) enter(f *rollcall.Frame, user rollcall.UserID, at rollcall.RoomStatus) {
	s := &x.shards[rollcall.PartitionOfUser(user)]
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	if u == nil {
		u = &indexed{}
		s.users[user] = u
		s.absent++
	}
	if len(u.rooms) == 0 {
		s.absent--
	}
	if i := u.find(at.Room); i >= 0 {
		if u.rooms[i] == at {
			return
		}
		u.rooms[i] = at
	} else {
		u.rooms = append(u.rooms, at)
	}
	s.fold(f, user, u)
}

func (x *index) leave(f *rollcall.Frame, user rollcall.UserID, room rollcall.RoomID, seen int64) {
	s := &x.shards[rollcall.PartitionOfUser(user)]
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	if u == nil {
		return
	}
	i := u.find(room)
	if i < 0 {
		return
	}
	u.rooms = slices.Delete(u.rooms, i, i+1)
	u.seen = max(u.seen, seen)
	s.fold(f, user, u)
	if len(u.rooms) == 0 {
		s.depart(user, u, x.most)
	}
}

// depart keeps when a user was last seen, of as many as there is room for and
// for as long as it is of use.
func (s *indexShard) depart(user rollcall.UserID, u *indexed, most int) {
	u.rooms = nil
	s.absent++
	s.gone = append(s.gone, departed{user, u.seen})
	oldest := time.Now().Add(-rollcall.SeenKept).UnixMilli()
	n := 0
	for ; n < len(s.gone) && (s.gone[n].seen < oldest || s.absent > most || s.returned(s.gone[n])); n++ {
		if !s.returned(s.gone[n]) {
			delete(s.users, s.gone[n].user)
			s.absent--
		}
	}
	s.gone = s.gone[n:]
	if len(s.gone) > 2*s.absent+16 {
		s.gone = slices.DeleteFunc(slices.Clone(s.gone), s.returned)
	}
}

// returned reports whether a departure is not the last one of its user.
func (s *indexShard) returned(d departed) bool {
	u := s.users[d.user]
	return u == nil || len(u.rooms) > 0 || u.seen != d.seen
}

// fold notes the highest status over the rooms, and tells of a change.
func (s *indexShard) fold(f *rollcall.Frame, user rollcall.UserID, u *indexed) {
	status := rollcall.StatusUnset
	for _, at := range u.rooms {
		status = max(status, at.Status)
	}
	if status == u.status {
		return
	}
	s.version = max(s.version+1, rollcall.Version(time.Now().UnixMicro()))
	u.status, u.version = status, s.version
	if f != nil {
		f.Users = append(f.Users, rollcall.UserChange{User: user, Status: status, Version: u.version})
	}
}

func (u *indexed) find(room rollcall.RoomID) int {
	return slices.IndexFunc(u.rooms, func(at rollcall.RoomStatus) bool { return at.Room == room })
}

// Users implements [Users].
func (m *Memory) Users(_ context.Context, users []rollcall.UserID) (a rollcall.UsersAnswer, err error) {
	if m.closed.Load() {
		return a, ErrClosed
	}
	if m.index.off {
		return a, ErrNoIndex
	}
	a.Users = make([]rollcall.Whereabouts, len(users))
	for i, user := range users {
		w := &a.Users[i]
		*w = m.index.find(user)
		for _, at := range w.Rooms {
			p := m.partition(at.Room)
			p.mu.Lock()
			w.Seen = max(w.Seen, p.state.Evidence(time.Now(), at.Room, user))
			p.mu.Unlock()
		}
		p := &m.partitions[rollcall.PartitionOfUser(user)]
		p.mu.Lock()
		a.Settling = max(a.Settling, p.state.Settling())
		p.mu.Unlock()
	}
	return a, nil
}

func (x *index) find(user rollcall.UserID) rollcall.Whereabouts {
	s := &x.shards[rollcall.PartitionOfUser(user)]
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	if u == nil {
		return rollcall.Whereabouts{User: user}
	}
	w := rollcall.Whereabouts{User: user, Status: u.status, Version: u.version, Rooms: slices.Clone(u.rooms), Seen: u.seen}
	if len(u.rooms) == 0 && u.seen < time.Now().Add(-rollcall.SeenKept).UnixMilli() {
		w.Seen = 0
	}
	return w
}

// savedSeen is when a user was last seen, in Unix ms.
type savedSeen struct {
	User rollcall.UserID `json:"user"`
	Seen int64           `json:"seen"`
}

// save is when those who are nowhere were last seen, oldest first.
func (x *index) save() (saved []savedSeen) {
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		for _, d := range s.gone {
			if !s.returned(d) {
				saved = append(saved, savedSeen{d.user, d.seen})
			}
		}
		s.mu.Unlock()
	}
	return saved
}

// enterAll follows the restored rooms of a partition.
func (x *index) enterAll(p *rollcall.SavedPartition) {
	if x.off {
		return
	}
	for i := range p.Rooms {
		for j := range p.Rooms[i].Users {
			u := &p.Rooms[i].Users[j]
			status := rollcall.StatusUnset
			for k := range u.Leases {
				s, _ := rollcall.ParseStatus(u.Leases[k].Status)
				status = max(status, s)
			}
			if len(u.Leases) > 0 {
				x.enter(nil, u.ID, rollcall.RoomStatus{Room: p.Rooms[i].ID, Status: status})
			}
		}
	}
}

func (x *index) restore(saved []savedSeen) {
	if x.off {
		return
	}
	for _, d := range saved {
		s := &x.shards[rollcall.PartitionOfUser(d.User)]
		u := &indexed{seen: d.Seen}
		s.users[d.User] = u
		s.depart(d.User, u, x.most)
	}
}
