package rollcall_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rollcall"
	"rollcall/store/storetest"
)

// solo is a partition dressed as a store, with a clock that a test moves by
// hand, also backwards: the same world that tries stores tries the model.
type solo struct {
	partition *rollcall.Partition
	now       time.Time
	feed      func(*rollcall.Frame)
}

// startTime is a moment far from any edge.
var startTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newSolo(o storetest.Options) *solo {
	b := &solo{now: startTime}
	b.partition = rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e", Timing: o.Timing, Limits: o.Limits, Modes: o.Modes}, b.now)
	return b
}

func (b *solo) Now() time.Time                  { return b.now }
func (b *solo) Pass(d time.Duration)            { b.now = b.now.Add(d) }
func (b *solo) Feed(feed func(*rollcall.Frame)) { b.feed = feed }
func (b *solo) Close() error                    { return nil }
func (b *solo) hand(f *rollcall.Frame) {
	if f != nil {
		b.feed(f)
	}
}

func (b *solo) Apply(_ context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	results := make([]rollcall.Result, len(ops))
	b.hand(b.partition.Apply(b.now, ops, results))
	return results, nil
}

func (b *solo) Renew(_ context.Context, renewals []rollcall.Renewal) error {
	b.partition.Renew(b.now, renewals)
	return nil
}

func (b *solo) Tick(context.Context) error {
	b.hand(b.partition.Tick(b.now))
	return nil
}

func (b *solo) Read(_ context.Context, q rollcall.Query) (rollcall.Answer, error) {
	return b.partition.Read(b.now, &q), nil
}

type rapidChoices struct{ t *rapid.T }

func (c rapidChoices) Choose(n int, what string) int { return rapid.IntRange(0, n-1).Draw(c.t, what) }

// fuzzChoices takes its decisions from bytes, and stops when they are used up.
type fuzzChoices struct{ data []byte }

func (c *fuzzChoices) Choose(n int, _ string) int {
	if len(c.data) == 0 {
		return 0
	}
	v := int(c.data[0]) % n
	c.data = c.data[1:]
	return v
}

// walk makes steps while there are more, then lets everybody go, and checks
// after each that the partition agrees with the oracle and holds what it should.
func walk(w *storetest.World, b *solo, more func() bool) error {
	for more() {
		if err := w.Step(); err != nil {
			return err
		}
		if in, live := b.partition.InBuckets(), b.partition.Leases(); in != live {
			return fmt.Errorf("%d leases are in buckets, want each of %d once", in, live)
		}
	}
	if err := w.Finish(); err != nil {
		return err
	}
	if left := b.partition.Leftovers(); left != "" {
		return fmt.Errorf("everybody has gone and left behind %s", left)
	}
	return nil
}

// TestPartitionAgreesWithOracle makes random operations, and compares all that
// can be seen of a partition with a naive one after each.
func TestPartitionAgreesWithOracle(t *testing.T) {
	agree(t, storetest.WorldOptions())
}

// TestCrowdAgreesWithOracle is the same in rooms that tell a number: S7, modes change
// at the thresholds and nowhere else; S9, nobody without a lease is in any read.
func TestCrowdAgreesWithOracle(t *testing.T) {
	agree(t, storetest.CrowdOptions())
}

func agree(t *testing.T, o storetest.Options) {
	rooms := storetest.RoomsOf(0, 3)
	rapid.Check(t, func(t *rapid.T) {
		b := newSolo(o)
		w := storetest.NewWorld(b, o, b, rapidChoices{t}, rooms)
		w.Trace = t.Logf
		steps := rapid.IntRange(1, 120).Draw(t, "steps")
		if err := walk(w, b, func() bool { steps--; return steps >= 0 }); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPartition is the same with decisions decoded from bytes.
func FuzzPartition(f *testing.F) {
	f.Add([]byte("a join, a second tab, a close and minutes of silence"))
	f.Add([]byte{0, 0, 0, 0, 5, 0, 0, 0, 9, 7, 0, 6, 0, 0, 0, 0, 0, 9, 8, 0})
	rooms := storetest.RoomsOf(0, 2)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		choices := &fuzzChoices{data}
		b := newSolo(storetest.WorldOptions())
		w := storetest.NewWorld(b, storetest.WorldOptions(), b, choices, rooms)
		if err := walk(w, b, func() bool { return len(choices.data) > 0 }); err != nil {
			t.Fatal(err)
		}
	})
}
