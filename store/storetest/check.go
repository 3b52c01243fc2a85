package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rollcall"
)

// check compares the store, the oracle and the watcher.
func (w *World) check() {
	w.follow()
	w.try(w.watcher.firstFault(), "the feed")
	wantEvents, wantEnded := w.oracle.take()
	events, ended := w.watcher.take()
	w.try(w.sameEvents(events, wantEvents), "joins and leaves")
	w.try(sameEnded(ended, wantEnded), "ended leases")
	w.checkCadence()
	for _, room := range w.Rooms {
		w.checkRoom(room)
		w.try(w.watcher.checkSince(room), "since")
	}
	w.checkUsers()
}

// follow waits until the watcher has seen what the store has decided. A store
// that hands frames over before its calls return is never waited for.
func (w *World) follow() {
	deadline := time.Now().Add(5 * time.Second)
	for w.slack > 0 && time.Now().Before(deadline) {
		events, ended := w.watcher.pending()
		behind := events < len(w.oracle.events) || ended < len(w.oracle.ended)
		for _, room := range w.Rooms {
			a := w.read(rollcall.Query{Want: rollcall.WantRoom, Room: room})
			if version, _ := w.watcher.versionOf(room); a.Count > 0 && version < a.Version {
				behind = true
			}
		}
		if !behind {
			return
		}
		w.clock.Pass(5 * time.Millisecond)
	}
}

func (w *World) checkRoom(room rollcall.RoomID) {
	want := w.oracle.Members(room)
	version, members := w.watcher.versionOf(room)
	snapshot := w.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: room})
	if snapshot.Version < version || len(want) > 0 && snapshot.Version != version {
		w.fail(fmt.Errorf("snapshot of %q at version %d, the feed at %d", room, snapshot.Version, version))
	}
	if snapshot.Mode == rollcall.ModeCounts {
		w.checkSample(room, snapshot, want)
	} else {
		w.try(sameMembers(snapshot.Members, members), "snapshot of %q against the feed", room)
	}
	page := w.read(rollcall.Query{Want: rollcall.WantPage, Room: room, Limit: 100, States: true})
	found := w.read(rollcall.Query{Want: rollcall.WantUsers, Room: room, Users: worldUsers, States: true})
	for _, a := range []*rollcall.Answer{snapshot, page, found} {
		if a.Count != len(want) || a.Connections != w.oracle.Connections(room) {
			w.fail(fmt.Errorf("%q counts %d members and %d connections, want %d and %d", room, a.Count, a.Connections, len(want), w.oracle.Connections(room)))
		}
		if len(a.Members) != len(want) && (a != snapshot || a.Mode == rollcall.ModeFull) {
			w.fail(fmt.Errorf("%d members of %q are listed, want %d", len(a.Members), room, len(want)))
		}
	}
	w.checkPages(room, want)
	for i, m := range want {
		w.try(differ(page.Members[i], m), "place %d of the page of %q", i, room)
		w.checkStates(room, page, i)
		if snapshot.Mode == rollcall.ModeCounts {
			continue
		}
		published := *snapshot.Members[i]
		w.checkLag(bareUpdate{room, m.User}, published.Connections, m.Connections)
		published.Connections = m.Connections
		w.try(differ(&published, m), "place %d of the snapshot of %q", i, room)
	}
	for i, m := range found.Members {
		w.try(differ(m, w.oracle.Member(room, m.User)), "look-up in %q", room)
		w.checkStates(room, found, i)
	}
}

// checkPages walks over a room by small pages, which together are the whole.
func (w *World) checkPages(room rollcall.RoomID, want []*rollcall.Member) {
	var got []*rollcall.Member
	for cursor, pages := rollcall.Version(0), 0; ; pages++ {
		a := w.read(rollcall.Query{Want: rollcall.WantPage, Room: room, Cursor: cursor, Limit: 2})
		got = append(got, a.Members...)
		if cursor = a.Next; cursor == 0 {
			break
		}
		if pages > len(want) {
			w.fail(fmt.Errorf("the pages of %q do not end", room))
		}
	}
	if len(got) != len(want) {
		w.fail(fmt.Errorf("%d members on the pages of %q, want %d", len(got), room, len(want)))
	}
	for i, m := range want {
		w.try(differ(got[i], m), "place %d over the pages of %q", i, room)
	}
}

// checkSample checks that the sample is those who have been here longest.
func (w *World) checkSample(room rollcall.RoomID, snapshot *rollcall.Answer, want []*rollcall.Member) {
	if len(snapshot.Members) != min(rollcall.SampleSize, len(want)) {
		w.fail(fmt.Errorf("a sample of %d members of %q, who are %d", len(snapshot.Members), room, len(want)))
	}
	for i, m := range snapshot.Members {
		if longest := want[len(want)-1-i]; m.User != longest.User {
			w.fail(fmt.Errorf("place %d of the sample of %q is %q, want %q", i, room, m.User, longest.User))
		}
	}
}

func (w *World) checkStates(room rollcall.RoomID, a *rollcall.Answer, i int) {
	if len(a.States) != len(a.Members) {
		w.fail(fmt.Errorf("states of %d members of %d", len(a.States), len(a.Members)))
	}
	want := w.oracle.States(room, a.Members[i].User)
	if len(a.States[i]) != len(want) {
		w.fail(fmt.Errorf("%d connections of %q, want %d", len(a.States[i]), a.Members[i].User, len(want)))
	}
	for _, s := range a.States[i] {
		if o := want[s.Connection]; s.Status != o.Status || string(s.Data) != string(o.Data) || (s.TTL-o.TTL).Abs() >= time.Microsecond {
			w.fail(fmt.Errorf("connection %q of %q: %s %s %v, want %s %s %v", s.Connection, a.Members[i].User, s.Status, s.Data, s.TTL, o.Status, o.Data, o.TTL))
		}
	}
}

// checkLag follows how long a published number of connections has been wrong:
// never longer, after a tick, than the wait for a cadence and one more.
func (w *World) checkLag(b bareUpdate, published, right int) {
	now := w.oracle.Clock(b.room)
	l, lagging := w.lags[b]
	switch {
	case published == right:
		delete(w.lags, b)
	case !lagging || l.published != published:
		w.lags[b] = lag{published, now}
	case w.ticked && now-l.since > 2*w.options.Timing.ConnectionUpdates+w.slack:
		w.fail(fmt.Errorf("%q has had %d connections in %q for %v, and is said to have %d", b.user, right, b.room, now-l.since, published))
	}
}

// checkCadence checks the times of the updates that told nothing but a number of
// connections.
func (w *World) checkCadence() {
	for _, b := range w.watcher.takeBare() {
		now := w.oracle.Clock(b.room)
		if last, ok := w.bare[b]; ok && w.slack == 0 && now-last < w.options.Timing.ConnectionUpdates {
			w.fail(fmt.Errorf("two bare updates of %q within %v", b.user, now-last))
		}
		w.bare[b] = now
	}
}

func showOp(op *rollcall.Op) string {
	where := fmt.Sprintf("%q %q %q #%d", op.Room, op.User, op.Connection, op.Generation)
	switch op.Kind {
	case rollcall.OpGrant:
		return fmt.Sprintf("grant %s info %s status %s data %s ttl %v age %v resume-only %v", where, op.Info, op.Status, op.Data, op.TTL, op.Age, op.ResumeOnly)
	case rollcall.OpSet:
		return fmt.Sprintf("set %s status %s data %s merge %v", where, op.Status, op.Data, op.Merge)
	case rollcall.OpClose:
		return fmt.Sprintf("close %s grace %v", where, op.Grace)
	case rollcall.OpEnd:
		return fmt.Sprintf("end %s %s", where, op.Reason)
	}
	return fmt.Sprintf("end user %q %q %s ban %v", op.Room, op.User, op.Reason, op.Ban)
}

func (w *World) sameEvents(got, want []Event) error {
	order := func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Room, b.Room), cmp.Compare(a.User, b.User))
	}
	// Only the order of the events of one user in one room is promised.
	slices.SortStableFunc(got, order)
	slices.SortStableFunc(want, order)
	same := func(got, want Event) bool {
		return got.Room == want.Room && got.User == want.User &&
			(got.Reason == want.Reason || want.either&(1<<got.Reason) != 0 ||
				// Two ticks of the oracle may be one of the store.
				w.slack > 0 && want.either != 0 && got.Reason != rollcall.ReasonNone)
	}
	if !slices.EqualFunc(got, want, same) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func sameEnded(got, want []rollcall.Ended) error {
	order := func(a, b rollcall.Ended) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.User, b.User), cmp.Compare(a.Connection, b.Connection))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}
