package rollcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// current is the lease that a connection holds in a room; nil if none.
func (p *Partition) current(roomID RoomID, userID UserID, c ConnectionID) *lease {
	if r := p.rooms[roomID]; r != nil {
		if u := r.users[userID]; u != nil {
			return u.find(c)
		}
	}
	return nil
}

// grant gives a connection a lease of a new generation.
func (p *Partition) grant(op *Op, res *Result) {
	var u *user
	r := p.rooms[op.Room]
	if r != nil {
		u = r.users[op.User]
	}
	var old *lease
	if u != nil {
		old = u.find(op.Connection)
	}
	if err := p.mayGrant(op, u, old); err != nil {
		res.Err = err
		return
	}
	if op.Late && old != nil && old.claim > op.Claim {
		res.Stale, res.Member, res.Version = true, u.present(), r.version
		return
	}
	version := p.nextVersion()
	if r == nil {
		r = &room{id: op.Room, users: make(map[UserID]*user), modes: p.modesOf(op.Room)}
		p.rooms[op.Room] = r
		p.names.add(op.Room)
	}
	if u == nil {
		u = &user{room: r}
		r.users[op.User] = u
		r.order.push(version, u)
	}
	l := &lease{
		user: u, connection: op.Connection, generation: Generation(version), claim: op.Claim,
		ttl: op.TTL, status: StatusActive, again: op.Generation != 0,
	}
	if l.ttl == 0 {
		l.ttl = p.timing.Lease
	}
	l.deadline = p.clock.Elapsed() + l.ttl - op.Age
	if old != nil {
		l.status, l.data, l.dataVersion = old.status, old.data, old.dataVersion
		if old.state == leaseLive && old.ttl == l.ttl {
			l.deadline = max(l.deadline, old.deadline)
		}
		p.expiry.remove(old)
		old.state = leaseReplaced
		u.leases[slices.Index(u.leases, old)] = l
	} else {
		u.leases = append(u.leases, l)
		r.connections++
		p.leases++
	}
	if op.Status != StatusUnset {
		l.status = op.Status
	}
	if op.Data != nil && !bytes.Equal(op.Data, l.data) {
		l.data, l.dataVersion = op.Data, version
	}
	p.expiry.add(l)
	p.publishGrant(u, op, version)
	res.Lease = Lease{Room: op.Room, User: op.User, Connection: op.Connection, Generation: l.generation, TTL: op.TTL, slot: l}
	res.Member, res.Version = u.present(), r.version
}

// mayGrant tells why op cannot be granted, before anything is changed.
func (p *Partition) mayGrant(op *Op, u *user, old *lease) *Error {
	switch left := p.banned(op.Room, op.User); {
	case left > 0:
		return RefuseBanned(time.UnixMilli(p.wall).Add(left))
	case op.ResumeOnly && old == nil:
		return RefuseGone()
	case old == nil && u != nil && len(u.leases) >= p.limits.ConnectionsPerUser:
		return p.limits.RefuseConnections()
	}
	return nil
}

// publishGrant publishes the join of a new user, or what a grant changed.
func (p *Partition) publishGrant(u *user, op *Op, version Version) {
	r := u.room
	if u.member != nil {
		info := op.Info
		if info == nil {
			info = u.member.Info
		}
		p.publishAt(u, info, version)
		return
	}
	since := op.Since
	if since == 0 {
		since = p.wall
	}
	u.member = u.fold(op.User, op.Info, since)
	u.connectionsAt = p.clock.Elapsed()
	p.emit(r, Change{Version: version, Join: []*Member{u.member}})
}

// publish folds the leases of u and publishes what that changes. A change of
// nothing but the number of connections may have to wait.
func (p *Partition) publish(u *user, info json.RawMessage) { p.publishAt(u, info, 0) }

// publishAt is publish with a version that the caller has taken already; 0 takes
// one when it is needed.
func (p *Partition) publishAt(u *user, info json.RawMessage, version Version) {
	r := u.room
	m := u.fold(u.member.User, info, u.member.Since)
	if sameButConnections(m, u.member) {
		if m.Connections == u.member.Connections {
			return
		}
		elapsed := p.clock.Elapsed()
		if elapsed-u.connectionsAt < p.timing.ConnectionUpdates {
			if !u.deferred {
				u.deferred = true
				p.deferred = append(p.deferred, deferral{u, elapsed + p.timing.ConnectionUpdates})
			}
			return
		}
		u.connectionsAt = elapsed
	}
	if version == 0 {
		version = p.nextVersion()
	}
	u.member = m
	p.emit(r, Change{Version: version, Update: []*Member{m}})
}

// named is the lease that op names; nil, with what to answer in res, if it is
// not the current one.
func (p *Partition) named(op *Op, res *Result) *lease {
	l := p.current(op.Room, op.User, op.Connection)
	if l == nil {
		res.Err = RefuseGone()
		return nil
	}
	if op.Generation != 0 && op.Generation != l.generation {
		res.Stale = true
		return nil
	}
	return l
}

func (p *Partition) set(op *Op, res *Result) {
	l := p.named(op, res)
	if l == nil {
		return
	}
	// A patch that is too large is not worth the work of merging it.
	if res.Err = p.limits.CheckData(len(op.Data)); res.Err != nil {
		return
	}
	data := op.Data
	if data != nil && op.Merge && l.data != nil {
		data = MergeObjects(l.data, data)
	}
	if res.Err = p.limits.CheckData(len(data)); res.Err != nil {
		return
	}
	if op.Status != StatusUnset {
		l.status = op.Status
	}
	u := l.user
	// A device that repeats what it has set must not win over one that changed.
	if data != nil && !bytes.Equal(data, l.data) {
		version := p.nextVersion()
		l.data, l.dataVersion = data, version
		p.publishAt(u, u.member.Info, version)
	} else {
		p.publish(u, u.member.Info)
	}
	res.Member, res.Version = u.present(), u.room.version
}

func (p *Partition) close(op *Op, res *Result) {
	l := p.named(op, res)
	if l == nil {
		return
	}
	if l.state == leaseClosing {
		res.Stale = true
		return
	}
	p.expiry.remove(l)
	l.state = leaseClosing
	l.deadline = min(l.deadline, p.clock.Elapsed()+op.Grace)
	if op.Grace <= 0 {
		p.drop(l, ReasonClosed)
	} else {
		p.expiry.add(l)
		p.publish(l.user, l.user.member.Info)
	}
	p.after(l.user, res)
}

func (p *Partition) end(op *Op, res *Result) {
	l := p.named(op, res)
	if l == nil {
		return
	}
	p.expiry.remove(l)
	p.drop(l, op.Reason)
	p.after(l.user, res)
}

func (p *Partition) endUser(op *Op, res *Result) {
	r := p.rooms[op.Room]
	if r == nil || r.users[op.User] == nil {
		res.Err = RefuseAbsent()
		return
	}
	u := r.users[op.User]
	for len(u.leases) > 0 {
		l := u.leases[len(u.leases)-1]
		p.expiry.remove(l)
		p.drop(l, op.Reason)
	}
	p.ban(op)
	p.after(u, res)
}

// after fills in a result once the leases of u have changed.
func (p *Partition) after(u *user, res *Result) {
	res.Version = u.room.version
	if len(u.leases) > 0 {
		res.Member = u.present()
	}
}

// drop ends a lease that is in no bucket any more, and publishes the leave if it
// was the last of its user.
func (p *Partition) drop(l *lease, reason Reason) {
	u := l.user
	r := u.room
	id := u.member.User
	u.seen = max(u.seen, p.lastEvidence(l, reason))
	l.state, l.reason = leaseEnded, reason
	i := slices.Index(u.leases, l)
	u.leases = slices.Delete(u.leases, i, i+1)
	r.connections--
	p.leases--
	ended := []Ended{{Connection: l.connection, User: id, Generation: l.generation, Reason: reason}}
	if len(u.leases) == 0 {
		p.leave(u, id, reason, ended)
		return
	}
	before := len(p.changes)
	p.publish(u, u.member.Info)
	if len(p.changes) > before {
		p.changes[before].Ended = ended
		return
	}
	p.emit(r, Change{Version: r.version, Ended: ended})
}

func (p *Partition) leave(u *user, id UserID, reason Reason, ended []Ended) {
	r := u.room
	version := p.nextVersion()
	delete(r.users, id)
	r.order.remove(u.place)
	p.emit(r, Change{Version: version, Leave: []Leave{{User: id, Reason: reason}}, Ended: ended, Seen: u.seen})
	if len(r.users) == 0 {
		delete(p.rooms, r.id)
		p.names.remove(r.id)
	}
}
