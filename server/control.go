package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// control keeps out those whose tokens were revoked. The store is asked about
// every token, so a node that missed the news refuses it all the same; the news,
// which come by the feed, end the streams that are open.
type control struct {
	h     *hub
	store store.Control // nil: nothing can be revoked
	wake  chan struct{} // capacity 1; never closed

	mu sync.Mutex
	// recent is what was revoked within the last minute: a stream that was
	// opening meanwhile must not slip through.
	recent map[rollcall.UserID]recentRevocation // Guarded by mu.
	// doubts are users of whom something may have been revoked without this
	// node hearing of it, or who came while the store could not be asked.
	doubts map[rollcall.UserID]bool // Guarded by mu.
}

type recentRevocation struct {
	rollcall.Revoked
	at instant
}

const (
	recentFor    = time.Minute
	askWithin    = time.Second            // for the store to say what was revoked
	doubtEvery   = 500 * time.Millisecond // between two tries to find out
	doubtsAtOnce = 500                    // users of one question
)

func newControl(h *hub) *control {
	c := &control{
		h: h, wake: make(chan struct{}, 1),
		recent: make(map[rollcall.UserID]recentRevocation), doubts: make(map[rollcall.UserID]bool),
	}
	c.store, _ = h.store.(store.Control)
	return c
}

// revocable is an authenticator that refuses the tokens that were revoked. Guests
// and servers have none.
type revocable struct {
	auth.Authenticator
	c *control
}

func (a revocable) Authenticate(ctx context.Context, credentials auth.Credentials) (*auth.Identity, error) {
	id, err := a.Authenticator.Authenticate(ctx, credentials)
	if err != nil || id.Server() || id.Guest {
		return id, err
	}
	if refused := a.c.check(ctx, id); refused != nil {
		return nil, refused
	}
	return id, nil
}

var errRevoked = rollcall.Errorf(rollcall.CodeUnauthorized,
	"the token was issued before the user was disconnected, or in the same second; get a new one")

// check asks the store whether the token of an identity was revoked. While the
// store is away the user is let in, and looked at again afterwards.
func (c *control) check(ctx context.Context, id *auth.Identity) *rollcall.Error {
	if c.store == nil {
		return nil
	}
	if refused := c.late(id); refused != nil {
		return refused
	}
	known, err := c.ask(ctx, []rollcall.UserID{id.User})
	switch {
	case err != nil:
		c.doubt(id.User)
	case known[0].Refuses(id.IssuedAt, id.Session):
		return errRevoked
	}
	return nil
}

// late is [control.check] by what this node has just heard.
func (c *control) late(id *auth.Identity) *rollcall.Error {
	if id.Server() || id.Guest {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent[id.User].Refuses(id.IssuedAt, id.Session) {
		return errRevoked
	}
	return nil
}

// ask asks the store, unless it has just failed. In a parted store the users are of
// one partition.
func (c *control) ask(ctx context.Context, users []rollcall.UserID) ([]rollcall.Revoked, error) {
	k := c.h.keeperOf(rollcall.PartitionOfUser(users[0]))
	if k.isDown() {
		return nil, errDown
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	known, err := c.store.Revoked(ctx, users)
	return known, k.note(ctx, err)
}

func (c *control) doubt(users ...rollcall.UserID) {
	c.mu.Lock()
	for _, user := range users {
		c.doubts[user] = true
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// frame takes the revocations of a frame. After a gap everybody here is in doubt
// whose revocations the partition keeps. It is called with the partition of the
// store locked.
func (c *control) frame(f *rollcall.Frame) {
	if f.Gap {
		c.h.errands.add("", func() { c.doubt(c.usersOf(f.Partition)...) })
	}
	for _, r := range f.Revoked {
		now := c.h.clock.now()
		c.mu.Lock()
		known := c.recent[r.User]
		known.Sessions = cloneSessions(known.Sessions)
		known.Note(r)
		known.at = now
		c.recent[r.User] = known
		c.mu.Unlock()
		c.h.errands.add(string(r.User), func() {
			c.revoke(r)
			c.forget(now)
		})
	}
}

func cloneSessions(m map[string]int64) map[string]int64 {
	clone := make(map[string]int64, len(m)+1)
	for k, v := range m {
		clone[k] = v
	}
	return clone
}

// forget drops what was heard some time ago: those who were opening then have
// opened.
func (c *control) forget(now instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for user, r := range c.recent {
		if now.sub(r.at) > recentFor {
			delete(c.recent, user)
		}
	}
}

// usersOf are the users with a connection here whose revocations a partition
// keeps.
func (c *control) usersOf(partition int) []rollcall.UserID {
	var users []rollcall.UserID
	seen := make(map[rollcall.UserID]bool)
	c.h.connections.each(func(conn *connection) {
		if !seen[conn.user] && rollcall.PartitionOfUser(conn.user) == partition {
			seen[conn.user] = true
			users = append(users, conn.user)
		}
	})
	return users
}

// run finds out about those who are in doubt.
func (c *control) run() {
	for {
		select {
		case <-c.h.ctx.Done():
			return
		case <-c.wake:
		}
		for c.resolve() {
			if sleep(c.h.ctx, doubtEvery) != nil {
				return
			}
		}
	}
}

// resolve asks about some of those in doubt, and reports whether to come back.
func (c *control) resolve() (again bool) {
	c.mu.Lock()
	users := make([]rollcall.UserID, 0, min(len(c.doubts), doubtsAtOnce))
	for user := range c.doubts {
		if len(users) == doubtsAtOnce {
			again = true
			break
		}
		users = append(users, user)
		delete(c.doubts, user)
	}
	c.mu.Unlock()
	if len(users) == 0 || c.store == nil {
		return false
	}
	for _, some := range c.h.usersByKeeper(users) {
		known, err := c.ask(c.h.ctx, some)
		if err != nil {
			c.doubt(some...)
			again = true
			continue
		}
		c.refuse(some, known)
	}
	return again
}

// refuse ends what users have here by tokens that were revoked.
func (c *control) refuse(users []rollcall.UserID, known []rollcall.Revoked) {
	for i, user := range users {
		if known[i].Before == 0 && len(known[i].Sessions) == 0 {
			continue
		}
		for _, conn := range c.h.connections.of(user) {
			conn.disconnect(func(id *auth.Identity) bool {
				return !id.Guest && !id.Server() && known[i].Refuses(id.IssuedAt, id.Session)
			})
		}
	}
}

// revoke ends what a user has here, or a session of the user, whatever the tokens
// say: who was connected when the news came is meant.
func (c *control) revoke(r rollcall.Revocation) {
	for _, conn := range c.h.connections.of(r.User) {
		conn.disconnect(func(id *auth.Identity) bool { return r.Session == "" || id.Session == r.Session })
	}
}

// of are the connections of a user.
func (g *registry) of(user rollcall.UserID) []*connection {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []*connection
	for _, c := range g.byID {
		if c.user == user {
			all = append(all, c)
		}
	}
	return all
}

// disconnect ends the connection, if it is meant: its leases, its stream, and what
// its token allowed. A call that is on its way finds no right.
func (c *connection) disconnect(meant func(*auth.Identity) bool) {
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	if c.gone || !meant(c.identity) {
		c.mu.Unlock()
		return
	}
	var ops []rollcall.Op
	for i := len(c.subs) - 1; i >= 0; i-- {
		s := c.subs[i]
		if s.lease.Generation != 0 {
			op := s.opFor(rollcall.OpEnd)
			op.Reason = rollcall.ReasonRevoked
			ops = append(ops, op)
		}
		s.lease, s.waiting = rollcall.Lease{}, false
		c.dropLocked(s)
	}
	if c.stream != nil {
		c.stream.byeLocked(wire.ByeRevoked, wire.DontReconnect)
	}
	c.identity = &auth.Identity{User: c.user}
	c.mu.Unlock()
	c.h.applyAll(ops)
	c.mu.Lock()
	c.settleLocked()
	c.mu.Unlock()
}

// postKick is POST /v1/rooms/{room}/members/{user}/kick: out, and kept out for a
// while. It ends leases; who only observes is not there to be kicked.
func (s *Server) postKick(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Admin)
	if err != nil {
		return err
	}
	user, err := pathID(r, "user")
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	ban, err := wire.DecodeKick(raw)
	if err != nil {
		return err
	}
	_, refused := s.h.apply(r.Context(), rollcall.Op{
		Kind: rollcall.OpEndUser, Room: room, User: rollcall.UserID(user), Reason: rollcall.ReasonKicked,
		Ban: min(ban, s.o.Limits.MaxBan),
	})
	if refused != nil {
		return refused
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// postDisconnect is POST /v1/users/{user}/disconnect: everything that the user has
// open ends, on every node, and the tokens of until now are of no use any more.
func (s *Server) postDisconnect(w http.ResponseWriter, r *http.Request) error {
	id, err := s.identify(r)
	if err != nil {
		return err
	}
	if !id.Server() {
		return rollcall.Errorf(rollcall.CodeForbidden, "a server key is needed to disconnect a user")
	}
	name, err := pathID(r, "user")
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	session, err := wire.DecodeDisconnect(raw)
	if err != nil {
		return err
	}
	user := rollcall.UserID(name)
	if s.h.control.store == nil {
		return rollcall.Errorf(rollcall.CodeNotFound, "the store of this server cannot revoke tokens")
	}
	k := s.h.keeperOf(rollcall.PartitionOfUser(user))
	err = k.note(r.Context(), s.h.control.store.Revoke(r.Context(), rollcall.Revocation{User: user, Session: session}))
	if err != nil {
		return s.h.unavailable(err)
	}
	if session == "" {
		s.h.endEverywhere(r.Context(), user)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// endEverywhere ends the leases of a user in the rooms where the index says that
// the user is, also those of nodes that have died. What it misses, the nodes that
// are there end by themselves.
func (h *hub) endEverywhere(ctx context.Context, user rollcall.UserID) {
	a, err := h.whereabouts(ctx, []rollcall.UserID{user})
	if err != nil {
		if !errors.Is(err, store.ErrNoIndex) {
			h.log.Warn("find a user to disconnect", "error", err)
		}
		return
	}
	var ops []rollcall.Op
	for _, at := range a.Users[0].Rooms {
		ops = append(ops, rollcall.Op{Kind: rollcall.OpEndUser, Room: at.Room, User: user, Reason: rollcall.ReasonRevoked})
	}
	slices.SortFunc(ops, func(a, b rollcall.Op) int { return rollcall.PartitionOf(a.Room) - rollcall.PartitionOf(b.Room) })
	for _, some := range h.byKeeper(ops) {
		if _, err := h.applyOps(ctx, some); err != nil {
			h.log.Warn("disconnect a user", "error", err)
		}
	}
}
