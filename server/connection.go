package server

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall"
	"rollcall/server/auth"
)

// connection is one tab or device of a user, with or without a stream: it lives
// as long as either its stream or one of its leases does.
type connection struct {
	h    *hub
	id   rollcall.ConnectionID
	user rollcall.UserID

	// op serializes what the connection asks of the store, so that an open and
	// a close of it never overlap. It is held across calls of the store.
	op sync.Mutex

	queued atomic.Bool // in the list of a running fan-out

	mu        sync.Mutex
	identity  *auth.Identity // Guarded by mu.
	stream    *stream        // Guarded by mu. nil while there is none.
	streams   uint64         // Guarded by mu. How many it has had; names the current one.
	claim     uint64         // Guarded by mu. Under which its leases are granted, for its newest stream.
	elsewhere bool           // Guarded by mu. Another node knows it: its leases are to be found.
	moved     bool           // Guarded by mu. It has been on another node, and may have set there what is not known here.
	found     bool           // Guarded by mu. And what it holds since then is known here.
	gone      bool           // Guarded by mu. No longer registered.
	entering  bool           // Guarded by mu. A stream or a lease is on its way: not to be forgotten.
	subs      []*sub         // Guarded by mu. One a room.
	evidence  instant        // Guarded by mu. The last proof of life.
	renewing  uint64         // Guarded by mu. In the lists of the next renewals: a bit for each keeper.
	setting   bool           // Guarded by mu. In the list of sets that wait.
	sets      bucket         // Guarded by mu.
	announced bool           // Guarded by mu. The client has said that it goes.
	returned  bool           // Guarded by mu. Its stream is not its first, here or anywhere.
	sending   *sending       // Guarded by mu. nil before the first signal.
	messages  bucket         // Guarded by mu.
	asked     uint64         // Guarded by mu. A hash of the state in the URL of the last event stream.
	unseenFor time.Duration  // Guarded by mu. How long one without a stream is remembered, if leaseless.
	leaseless bool           // Guarded by mu. Hidden: holds no lease in any room.
}

// sub is a room of a connection: a lease, or a view, or both.
type sub struct {
	c    *connection
	id   rollcall.RoomID
	room *room // Guarded by c.mu. nil while there is no stream.
	// partition of the room. Static.
	partition uint8

	place int // Guarded by room.mu. In room.viewers.

	// lease is what the connection holds here; its Generation is 0 for an
	// observer. Guarded by c.mu; changed only with c.op held too.
	lease    rollcall.Lease
	status   rollcall.Status // Guarded by c.mu. As last accepted.
	data     json.RawMessage // Guarded by c.mu. As last accepted.
	ttl      bool            // Guarded by c.mu. A lease that PUT renews.
	opened   bool            // Guarded by c.mu. The grant that waits is that of an open here.
	waiting  bool            // Guarded by c.mu. A grant has yet to reach the store.
	unset    bool            // Guarded by c.mu. status and data have yet to reach the store.
	known    bool            // Guarded by c.mu. status and data are those of the store, also if c has moved.
	counts   bool            // Guarded by c.mu. An observer who is shown nothing but the number.
	observes bool            // Guarded by c.mu. It asked for no lease.
	// estimated tells that the connection is counted in a room that holds no leases.
	// Guarded by c.mu.
	estimated bool
	// member is the user in the room when the store last answered. Guarded by c.mu.
	member *rollcall.Member
	// granted is the version of the room at the newest grant, in the memory of
	// grantedIn; 0 if there was none. Guarded by c.mu.
	granted   rollcall.Version
	grantedIn rollcall.Epoch

	view    view     // Guarded by c.mu.
	fades   instant  // Guarded by c.mu. When signals of an earlier stream end that are not sent again.
	outlook *outlook // nil while it looks at nothing else. See there.
}

// view is what a stream has been shown of a room.
type view struct {
	phase   viewPhase
	epoch   rollcall.Epoch   // viewNew: of sent
	sent    rollcall.Version // the version that the client holds; 0: none
	mode    rollcall.Mode    // that the client was told
	count   int              // counts mode, or an observer of the number: what it was told
	sampled int              // counts mode: the sample that it was told
	told    instant          // and when
	looked  instant          // counts mode: the last fan-out of the number that it was looked at for
	// What it was told of the signals; nothing yet if not signalled.
	signals   rollcall.SignalTick
	signalled bool
	holds     bool // it may hold signals of before, which an event that tells all has to replace
	// Of a slow stream, which is told in parts: how far it is, 0 if it is through,
	// and what all parts together bring it to. filling: they are parts of all that
	// lives, and not of what has changed since signals.
	part    rollcall.SignalPlace
	partTo  rollcall.SignalTick
	filling bool
}

// signalAnew has the client told of all signals that live.
func (v *view) signalAnew() { v.signalled, v.filling, v.part = false, false, 0 }

type viewPhase uint8

const (
	viewNone  viewPhase = iota // no stream
	viewLater                  // as viewNew from the next pulse on, if the client does not say before what it holds
	viewNew                    // a snapshot, a difference, or `resumed` is due
	viewLive
)

func (h *hub) newConnection(id rollcall.ConnectionID, identity *auth.Identity) *connection {
	return &connection{
		h: h, id: id, user: identity.User, identity: identity, leaseless: identity.Hidden,
		streams:  h.firstStream,
		claim:    h.claim(h.firstStream),
		sets:     newBucket(h.limits.SetsPerSecond),
		messages: newBucket(h.limits.MessageBurst),
	}
}

// claim orders the streams of a connection over all nodes. The number goes on from
// node to node; the name of the node decides between two that go on from one.
func (h *hub) claim(stream uint64) uint64 {
	return stream<<16 | xxhash.Sum64String(h.node)&0xffff
}

// findLocked is the sub of a room; nil if none.
func (c *connection) findLocked(id rollcall.RoomID) *sub {
	for _, s := range c.subs {
		if s.id == id {
			return s
		}
	}
	return nil
}

// subLocked is the sub of a room, which is new if there is none.
func (c *connection) subLocked(id rollcall.RoomID) *sub {
	s := c.findLocked(id)
	if s == nil {
		s = &sub{c: c, id: id, partition: uint8(rollcall.PartitionOf(id)), status: rollcall.StatusActive}
		c.subs = append(c.subs, s)
	}
	return s
}

// leased reports whether the connection is present in the room, as far as it can
// tell: a grant that waits for the store counts.
func (s *sub) leased() bool { return s.lease.Generation != 0 || s.waiting }

// unsureLocked reports whether the connection may hold a lease in a room without this
// node knowing of it: its own node has ended, and no stream has found out.
func (c *connection) unsureLocked(room rollcall.RoomID) bool {
	return c.findLocked(room) == nil && (c.elsewhere || c.moved && !c.found && c.stream == nil)
}

// leasesLocked is the number of leases that the connection holds.
func (c *connection) leasesLocked() int {
	n := 0
	for _, s := range c.subs {
		if s.leased() {
			n++
		}
	}
	return n
}

// grantedLocked takes the answer to a grant.
func (s *sub) grantedLocked(res *rollcall.Result) {
	s.lease, s.member, s.granted, s.grantedIn, s.waiting = res.Lease, res.Member, res.Version, res.Epoch, false
}

// aheadLocked reports whether the grant of s is not in the room as of a version: the
// feed is on its way, and nothing is shown before. A room that was read from another
// memory of the store says nothing of it.
func (s *sub) aheadLocked(memory rollcall.Epoch, version rollcall.Version) bool {
	return version < s.granted && memory == s.grantedIn
}

// dropLocked takes a sub away, with its view.
func (c *connection) dropLocked(s *sub) {
	s.unviewLocked()
	s.exitLocked()
	for i := range c.subs {
		if c.subs[i] == s {
			last := len(c.subs) - 1
			copy(c.subs[i:], c.subs[i+1:])
			c.subs[last] = nil
			c.subs = c.subs[:last]
			return
		}
	}
}

// viewLocked shows the room to the stream of the connection, from held on. It
// takes over the caller's hold on the room.
func (s *sub) viewLocked(r *room, v view) {
	if s.room != nil {
		r.release() // held already
	} else {
		s.room = r
		r.add(s)
	}
	if v.phase == viewNone {
		v.phase = viewNew
	}
	s.view = v
}

func (s *sub) unviewLocked() {
	if s.room != nil {
		s.room.remove(s)
		s.room.release()
		s.room, s.view = nil, view{}
	}
}

// dropUnseenLocked drops the rooms that the connection observed on a stream that
// was replaced and does not ask for on the new one.
func (c *connection) dropUnseenLocked() {
	for i := len(c.subs) - 1; i >= 0; i-- {
		if s := c.subs[i]; s.room == nil && !s.leased() {
			c.dropLocked(s)
		}
	}
}

// settleLocked forgets the connection if nothing keeps it.
func (c *connection) settleLocked() {
	if c.stream != nil || c.entering || c.gone {
		return
	}
	for i := len(c.subs) - 1; i >= 0; i-- {
		if !c.subs[i].leased() {
			c.dropLocked(c.subs[i])
		}
	}
	if len(c.subs) == 0 {
		c.gone = true
		c.h.connections.remove(c)
	}
}

// proveLocked notes evidence from the client, dated at, and has the leases
// renewed by it.
func (c *connection) proveLocked(at instant) {
	if at <= c.evidence {
		return
	}
	urgent := at.sub(c.evidence) > c.h.timing.Lease*2/3
	c.evidence = at
	for _, s := range c.subs {
		k := s.keeper()
		if c.renewing&k.bit == 0 {
			c.renewing |= k.bit
			k.renew(c, urgent)
		} else if urgent {
			k.hurry()
		}
	}
}

// bucket is a token bucket. What is refused costs too, so that whoever goes on
// is noticed.
type bucket struct {
	tokens float32
	at     instant
}

func newBucket(burst float64) bucket { return bucket{tokens: float32(burst)} }

// take takes one token; rate is per second.
func (b *bucket) take(now instant, rate, burst float64) bool {
	b.fill(now, rate, burst)
	b.tokens = max(b.tokens-1, float32(-burst))
	return b.tokens >= 0
}

func (b *bucket) fill(now instant, rate, burst float64) {
	if b.at != 0 {
		b.tokens = min(b.tokens+float32(float64(now-b.at)/1000*rate), float32(burst))
	}
	b.at = now
}

// exhausted reports whether a whole burst was asked for beyond what there was.
func (b *bucket) exhausted(burst float64) bool { return b.tokens <= float32(-burst) }
