// Package storetest is the conformance suite of every store: the rules of
// presence, random sequences against a naive [Oracle], and many callers at once,
// all through the Store interface only.
//
// A store passes if [Run] passes.
package storetest

import (
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
)

// Options are the settings with which the suite wants a store to be made.
type Options struct {
	Timing rollcall.Timing
	Limits rollcall.Limits
	Modes  rollcall.Modes // zero: the defaults
	Rules  rollcall.RoomRules
}

// Factory makes the stores of one kind.
type Factory struct {
	// New makes an empty store that nobody else uses. The suite closes it; what
	// else has to be cleared away is for t.Cleanup.
	New func(t testing.TB, o Options) store.Store
	// Virtual tells that the store knows no time but that of package time, and
	// waits for nothing outside the process: it is then tried in virtual time,
	// with the durations of the design. Otherwise in real time, with short
	// leases.
	Virtual bool
}

// realLease is the lease in real time: long enough that a slow machine does not
// lose one by chance, short enough to wait for.
const realLease = 2500 * time.Millisecond

// Run tries a store against the whole suite. In real time most of it is waiting:
// -parallel says how many tests wait at once.
func Run(t *testing.T, f Factory) {
	t.Run("Rules", func(t *testing.T) { runRules(t, f) })
	t.Run("Random", func(t *testing.T) {
		if f.Virtual {
			RunRandom(t, f, 10, 200)
		} else {
			RunRandom(t, f, 4, 40)
		}
	})
	t.Run("Concurrent", func(t *testing.T) { runConcurrent(t, f) })
}
