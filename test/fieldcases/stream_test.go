package fieldcases

import (
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
