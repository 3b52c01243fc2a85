package wire_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

type rosterVector struct {
	Name  string          `json:"name"`
	Room  rollcall.RoomID `json:"room"`
	Steps []struct {
		Event wire.Event `json:"event"`
		Data  string     `json:"data"`
	} `json:"steps"`
	Expect rosterExpects `json:"expect"`
}

// rosterExpects is what a client must hold. The order of Roster says nothing.
type rosterExpects struct {
	Known         bool             `json:"known"` // there was a snapshot
	NeedsSnapshot bool             `json:"needsSnapshot"`
	Epoch         rollcall.Epoch   `json:"epoch"`
	Version       rollcall.Version `json:"version"`
	Mode          wire.Mode        `json:"mode"`
	Count         int              `json:"count"`
	Roster        []rowExpects     `json:"roster"`
}

type rowExpects struct {
	User        rollcall.UserID `json:"user"`
	Status      string          `json:"status"`
	Connections int             `json:"connections"`
	Stale       bool            `json:"stale"`
}

// reference is the least that a client must do with the events of one room. It
// is the text of the protocol in code; real clients do more, and the same.
type reference struct {
	room    rollcall.RoomID
	known   bool
	needs   bool
	epoch   rollcall.Epoch
	version rollcall.Version
	mode    wire.Mode
	count   int
	members map[rollcall.UserID]*rollcall.Member
	stale   map[rollcall.UserID]bool
}

func (r *reference) take(event wire.Event, data string) {
	v, err := wire.DecodeEvent(event, []byte(data))
	if err != nil {
		r.needs = true
		return
	}
	switch v := v.(type) {
	case *wire.Snapshot:
		if v.Room == r.room {
			r.snapshot(v)
		}
	case *wire.Resumed:
		if v.Room == r.room && (!r.known || v.Epoch != r.epoch || v.Version != r.version) {
			r.needs = true
		}
	case *wire.RoomDiff:
		if v.Room == r.room {
			r.diff(&v.Diff)
		}
	case *wire.Count:
		if v.Room == r.room {
			r.recount(v)
		}
	}
}

func (r *reference) snapshot(s *wire.Snapshot) {
	if r.known && !r.needs && s.Epoch == r.epoch && s.Version < r.version {
		r.needs = true // of a replica that is behind for a moment, or so it may be
		return
	}
	before, stale := r.members, map[rollcall.UserID]bool{}
	r.known, r.needs = true, false
	r.epoch, r.version, r.mode, r.count = s.Epoch, s.Version, s.Mode, s.Count
	r.members = map[rollcall.UserID]*rollcall.Member{}
	for _, m := range s.Members {
		r.members[m.User] = m
	}
	if s.Settling > 0 {
		for user, m := range before {
			if r.members[user] == nil {
				r.members[user], stale[user] = m, true
			}
		}
	}
	r.stale = stale
}

func (r *reference) diff(d *rollcall.Diff) {
	switch {
	case r.known && r.mode == wire.ModeFull && d.Version <= r.version:
		return // it is in what we hold
	case !r.known || r.mode != wire.ModeFull || d.Prev != r.version:
		r.needs = true
		return
	}
	for _, m := range d.Join {
		r.members[m.User] = m
		delete(r.stale, m.User)
	}
	for _, m := range d.Update {
		if r.members[m.User] != nil {
			r.members[m.User] = m
			delete(r.stale, m.User)
		}
	}
	for _, l := range d.Leave {
		delete(r.members, l.User)
		delete(r.stale, l.User)
	}
	r.version = d.Version
}

func (r *reference) recount(c *wire.Count) {
	switch {
	case r.known && c.Version < r.version:
	case !r.known || r.mode != wire.ModeCounts && c.Version > r.version:
		r.needs = true // without a change of mode there is no count
	case r.mode == wire.ModeCounts:
		r.version, r.count = c.Version, c.Count
	}
}

func (r *reference) expects() rosterExpects {
	e := rosterExpects{
		Known: r.known, NeedsSnapshot: r.needs, Epoch: r.epoch, Version: r.version,
		Mode: r.mode, Count: r.count, Roster: []rowExpects{},
	}
	if r.known && r.mode == wire.ModeFull {
		e.Count = len(r.members) // the stale ones too: a count is of what is shown
	}
	for user, m := range r.members {
		e.Roster = append(e.Roster, rowExpects{user, m.Status.String(), m.Connections, r.stale[user]})
	}
	return e
}

func (e *rosterExpects) sort() {
	slices.SortFunc(e.Roster, func(a, b rowExpects) int { return cmp.Compare(a.User, b.User) })
}

func TestRosterAfterEvents(t *testing.T) {
	var list []rosterVector
	readVectors(t, "rosters.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			r := reference{room: v.Room}
			for _, step := range v.Steps {
				r.take(step.Event, step.Data)
			}
			got, want := r.expects(), v.Expect
			got.sort()
			want.sort()
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("roster (-want +got):\n%s", diff)
			}
		})
	}
}
