package harness_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"rollcall/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientsSeeEachOther is the least that everything else builds on.
func TestClientsSeeEachOther(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, "r")
		ana := s.Open(t, over, harness.Options{User: "ana", Rooms: []string{"r"}, Data: `{"n":1}`})
		w.Until(time.Second, "ana joins", func() bool { return w.Has("r", "ana") })
		if r := ana.Set("r", `{"data":{"m":2}}`); !r.OK {
			t.Errorf("set: %s", r.Raw)
		}
		w.Until(time.Second, "ana's data", func() bool {
			m, _ := w.Member("r", "ana")
			return string(m.Data) == `{"n":1,"m":2}`
		})
		s.Rest()
		ana.Close()
		w.Until(2*time.Second, "ana leaves", func() bool { return !w.Has("r", "ana") })
	})
}

// TestCutClientRunsOut checks that a cut is one that nobody is told of.
func TestCutClientRunsOut(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{Lease: time.Second, Beat: 300 * time.Millisecond})
		w := s.Watch(t, over, "r")
		ana := s.Open(t, over, harness.Options{User: "ana", Rooms: []string{"r"}})
		ana.Cut()
		w.Until(s.Gone(), "ana expires", func() bool { return len(w.Leaves("r", "ana")) == 1 })
		if got := w.Leaves("r", "ana")[0].Reason; got != "expired" {
			t.Errorf("reason: got %q, want expired", got)
		}
	})
}
