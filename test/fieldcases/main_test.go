// Package fieldcases has the faults that presence systems were reported to have,
// each as a test: TestA04... is case A04. The times are a tenth of the usual.
package fieldcases

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rollcall/test/harness"
)

// most is how many tests run at a time. Nearly all of their time is waiting, so
// it is not the number of cores.
const most = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		flag.Set("test.parallel", most)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		harness.RemoveProgram()
		os.Exit(code)
	}))
}

// room is the room of tests that need one.
const room = "doc/42 ü"

// soon is the most that a test waits for what has to happen at once, on a busy
// machine.
const soon = 15 * time.Second

// in is the options of a user in the room.
func in(user string) harness.Options {
	return harness.Options{User: user, Rooms: []string{room}}
}

func gone(w *harness.Client, user string) func() bool {
	return func() bool { return !w.Has(room, user) }
}

// sawOnly checks how often a watcher saw a user come and go.
func sawOnly(t *testing.T, w *harness.Client, user string, joins, leaves int) {
	t.Helper()
	if got := len(w.Joins(room, user)); got != joins {
		t.Errorf("joins of %q: got %d, want %d", user, got, joins)
	}
	if got := len(w.Leaves(room, user)); got != leaves {
		t.Errorf("leaves of %q: got %d, want %d", user, got, leaves)
	}
}

// joined opens a user and waits until the watcher has seen it.
func joined(t *testing.T, s *harness.Server, over harness.Transport, w *harness.Client, o harness.Options) *harness.Client {
	t.Helper()
	c := s.Open(t, over, o)
	w.Until(soon, o.User+" on the list", func() bool { return w.Has(o.Rooms[0], o.User) })
	return c
}
