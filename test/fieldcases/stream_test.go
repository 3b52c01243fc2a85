package fieldcases

import (
	"fmt"
	"testing"

	"rollcall/test/harness"
)

// TestReplacedObserverIsShownItsRoomAgain: an observer whose old stream is still
// open when it comes back is shown the room on the new one.
func TestReplacedObserverIsShownItsRoomAgain(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		w.Cut()
		w.Reopen()
		joined(t, s, over, w, in("ana"))
	})
}

// TestReleaseEndsTheStream: who has left everything is not left with an open
// stream.
func TestReleaseEndsTheStream(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		ana.Release(false)
		w.Until(soon, "ana leaves", gone(w, "ana"))
		ana.Until(soon, "the stream ends", func() bool { return !ana.Open() })
		if l := w.Leaves(room, "ana"); l[0].Reason != "left" {
			t.Errorf("reason: got %q, want left", l[0].Reason)
		}
	})
}

// TestLateSinceIsOld: a client that resumes and is slow to say what it holds has
// been shown the room by then, and is not taken back.
func TestLateSinceIsOld(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, room)
	ana := joined(t, s, harness.WS, w, in("ana"))
	held := ana.List(room)
	ben := joined(t, s, harness.WS, w, in("ben"))
	ana.Until(soon, "ana sees ben", func() bool { return ana.Has(room, "ben") })
	back := s.Open(t, harness.WS, harness.Options{User: "ana", Resume: ana.Ready().Resume})
	back.Until(soon, "what was not asked for", func() bool { return back.Has(room, "ben") })
	r := back.Ask(fmt.Sprintf(`{"type":"join","room":%q,"since":{"epoch":%q,"version":%d}}`, room, held.Epoch, held.Version))
	if !r.OK {
		t.Errorf("join: %s", r.Raw)
	}
	ben.Leave(room)
	back.Until(soon, "ben leaves", func() bool { return !back.Has(room, "ben") })
	if n := len(back.Events("snapshot", "resumed")); n != 1 {
		t.Errorf("states shown: got %d, want 1", n)
	}
}
