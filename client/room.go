package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rollcall"
	"rollcall/wire"
)

// Room is a room that the client is in, or watches. Safe for concurrent use.
//
// What it returns is a copy or immutable; members are shared and must not be
// changed.
type Room struct {
	client  *Client
	id      rollcall.RoomID
	observe bool

	entered chan struct{} // closed once something is known, or the room is over
	over    chan struct{} // closed when the room is over

	// The rest is guarded by client.mu.
	roster  roster
	state   State
	err     error // why the state is reconnecting or over
	self    *rollcall.Member
	feed    feed
	outbox  roomOutbox
	signals roomSignals
	windows windows
}

// wish is what we want to be in a room.
type wish struct {
	status rollcall.Status
	data   json.RawMessage // nil if none was ever set
}

// ID is the id of the room.
func (r *Room) ID() rollcall.RoomID { return r.id }

// Members lists everybody who is here, newest join first. In counts mode it is a
// sample of the longest present; [Client.Members] pages through all of them.
func (r *Room) Members() []*rollcall.Member {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.roster.list()
}

// Member is the member of a user; nil if not here (or, in counts mode, not in
// the sample).
func (r *Room) Member(user rollcall.UserID) *rollcall.Member {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if m := r.roster.members[user]; m != nil {
		return m
	}
	for _, m := range r.roster.sample {
		if m.User == user {
			return m
		}
	}
	return nil
}

// Self is our own member as the server last told it; nil for an observer and for
// a hidden user.
func (r *Room) Self() *rollcall.Member {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if r.observe {
		return nil
	}
	if m := r.roster.members[r.client.user]; m != nil {
		return m
	}
	return r.self
}

// Count is the number of members.
func (r *Room) Count() int {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.roster.size()
}

// Mode tells whether every member is named, or counted.
func (r *Room) Mode() wire.Mode {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.roster.mode
}

// Stale reports whether what is known of a user may be old: while the connection
// is lost, and for members that a server which lost its memory has not heard of
// again yet.
func (r *Room) Stale(user rollcall.UserID) bool {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.state != StateLive || r.roster.stale[user]
}

// State is how well the room is known, and why it is not live; the error is nil
// for a room that was left.
func (r *Room) State() (State, error) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.state, r.err
}

// Changes is the channel of what happens in the room, in order: a snapshot of
// the present first, then what changes. It holds 256 changes; if they are not
// read in time, those that wait are dropped for one new snapshot. It is closed
// when the room is over. Every call returns the same channel, which is meant for
// one reader.
func (r *Room) Changes() <-chan Change {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	f := &r.feed
	if f.ch == nil {
		f.ch = make(chan Change, changesKept)
		if r.roster.known {
			f.ch <- r.snapshot()
		}
		if f.closed {
			f.ch <- Change{Kind: KindState, Count: r.roster.size(), State: r.state, Err: r.err}
			close(f.ch)
		}
	}
	return f.ch
}

// Set merges the top-level keys of a JSON object into our data; null is a value
// like any other. It waits until the server has taken it. What the server
// refuses is an error, and the data stays what it was.
//
// While the connection is lost, Set waits for it; if ctx ends before, the data
// is kept and sent all the same.
func (r *Room) Set(ctx context.Context, data json.RawMessage) error {
	return r.set(ctx, data, func(w *wish, data json.RawMessage) (err error) {
		w.data, err = mergeData(w.data, data)
		return err
	})
}

// Replace is [Room.Set] without merging: data becomes all of our data.
func (r *Room) Replace(ctx context.Context, data json.RawMessage) error {
	return r.set(ctx, data, func(w *wish, data json.RawMessage) error {
		w.data = data
		return nil
	})
}

// SetStatus sets our status, as [Room.Set] sets data.
func (r *Room) SetStatus(ctx context.Context, status rollcall.Status) error {
	if status.String() == "" {
		return rollcall.Errorf(rollcall.CodeBadRequest, "status must be active, idle or away")
	}
	return r.set(ctx, json.RawMessage("{}"), func(w *wish, _ json.RawMessage) error {
		w.status = status
		return nil
	})
}

func (r *Room) set(ctx context.Context, data json.RawMessage, change func(*wish, json.RawMessage) error) error {
	data, err := wire.Object(data, 0)
	if err != nil {
		return fmt.Errorf("set in room %q: %w", r.id, err)
	}
	c := r.client
	c.mu.Lock()
	if err := r.settable(); err != nil {
		c.mu.Unlock()
		return fmt.Errorf("set in room %q: %w", r.id, err)
	}
	if err := change(&r.outbox.wish, data); err != nil {
		c.mu.Unlock()
		return fmt.Errorf("set in room %q: %w", r.id, err)
	}
	taken := r.outbox.changed()
	c.wakeUp()
	c.mu.Unlock()

	select {
	case err = <-taken:
	case <-r.over:
		err = r.overError()
	case <-ctx.Done():
		c.mu.Lock()
		r.outbox.forget(taken)
		c.mu.Unlock()
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("set in room %q: %w", r.id, err)
	}
	return nil
}

// settable tells why nothing can be set here.
func (r *Room) settable() error {
	switch {
	case r.state == StateOver:
		return r.whyOver()
	case r.observe:
		return rollcall.Errorf(rollcall.CodeForbidden, "an observer has no status and no data")
	}
	return nil
}

// Leave leaves the room and waits until the server has heard of it. The room is
// over at once; if ctx ends before the server was reached, it is told when the
// connection is back.
func (r *Room) Leave(ctx context.Context) error {
	c := r.client
	c.mu.Lock()
	if r.state == StateOver {
		c.mu.Unlock()
		return nil
	}
	told := c.leave(r)
	c.mu.Unlock()
	select {
	case <-told:
		return nil
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave room %q: %w", r.id, ctx.Err())
	}
}

func (r *Room) overError() error {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.whyOver()
}

func (r *Room) whyOver() error {
	if r.err != nil {
		return r.err
	}
	return ErrLeft
}

// The methods below are called with client.mu held.

// emit hands changes to the application.
func (r *Room) emit(changes ...Change) {
	for i := range changes {
		changes[i].State = r.state
	}
	r.feed.put(changes, r.snapshot)
}

func (r *Room) snapshot() Change {
	return Change{Kind: KindSnapshot, Members: r.roster.list(), Count: r.roster.size(), State: r.state}
}

// setState moves to another state and tells it.
func (r *Room) setState(s State, err error) {
	if r.state == s || r.state == StateOver {
		return
	}
	r.state, r.err = s, err
	r.emit(Change{Kind: KindState, Count: r.roster.size(), Err: err})
	if s == StateOver {
		r.feed.close()
		close(r.over)
		r.open()
	}
}

// told takes an event of the room.
func (r *Room) told(event any, now time.Time) {
	var (
		changes []Change
		gap     bool
	)
	switch e := event.(type) {
	case *wire.Signals:
		r.toldSignals(e)
		return
	case *wire.Page:
		r.toldPage(e)
		return
	case *wire.Contacts:
		r.toldContacts(e)
		return
	case *wire.Snapshot:
		r.replacedSignals()
		changes, gap = r.roster.replace(e, r.outbox.gap == gapAsked, now)
		if !gap {
			r.outbox.gap = gapNone
		}
		if e.Settling > 0 {
			r.client.wakeUp() // the writer has the timer
		}
	case *wire.RoomDiff:
		changes, gap = r.roster.apply(&e.Diff)
	case *wire.Count:
		changes, gap = r.roster.recount(e)
	case *wire.Resumed:
		gap = r.roster.confirm(e)
	}
	if gap {
		r.outbox.mend()
		r.client.wakeUp()
		return
	}
	if r.outbox.gap == gapNone && r.roster.known {
		r.setLive(changes)
		return
	}
	r.emit(changes...)
}

// setLive tells the changes that made the room live, and that it is.
func (r *Room) setLive(changes []Change) {
	was := r.state
	if was != StateOver {
		r.state, r.err = StateLive, nil
	}
	r.emit(changes...)
	if was != r.state {
		r.emit(Change{Kind: KindState, Count: r.roster.size()})
		r.open()
	}
}

// open lets Enter return.
func (r *Room) open() {
	select {
	case <-r.entered:
	default:
		close(r.entered)
	}
}
