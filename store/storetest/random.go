package storetest

import (
	"fmt"
	"slices"
	"testing"

	"rollcall"
)

// RunRandom makes random operations with the seeds from 0, the same on every
// store, and compares a store with the oracle after each of them.
func RunRandom(t *testing.T, f Factory, seeds, steps int) {
	runRandom(t, f, WorldOptions(), seeds, steps)
}

// RunCrowd is [RunRandom] with [CrowdOptions].
func RunCrowd(t *testing.T, f Factory, seeds, steps int) {
	runRandom(t, f, CrowdOptions(), seeds, steps)
}

func runRandom(t *testing.T, f Factory, options Options, seeds, steps int) {
	for seed := range uint64(seeds) {
		f.within(t, fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			o := f.options(options)
			s := f.New(t, o)
			defer s.Close()
			rooms := slices.Concat(RoomsOf(int(seed), 2), RoomsOf(rollcall.Partitions-1, 1))
			w := NewWorld(s, o, packageTime{}, seeded(seed), rooms)
			w.slack, w.oracle.slack = f.slack(), f.slack()
			var trace []string
			w.Trace = func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
			fail := func(err error) {
				for _, line := range trace[max(0, len(trace)-40):] {
					t.Log(line)
				}
				t.Fatal(err)
			}
			for range steps {
				if err := w.Step(); err != nil {
					fail(err)
				}
			}
			if err := w.Finish(); err != nil {
				fail(err)
			}
		})
	}
}
