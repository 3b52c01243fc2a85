package store_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"rollcall"
	"rollcall/store"
	"rollcall/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMemory(_ testing.TB, o storetest.Options) store.Store {
	return store.NewMemory(store.MemoryOptions{Timing: o.Timing, Limits: o.Limits, Modes: o.Modes, Rules: o.Rules})
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Factory{New: newMemory, Virtual: true})
}

func TestMemoryConformsInACrowd(t *testing.T) {
	t.Parallel()
	storetest.RunCrowd(t, storetest.Factory{New: newMemory, Virtual: true}, 10, 200)
}

// TestMemoryConformsInRealTime keeps the other half of the suite honest: the one
// that a store outside the process has to take.
func TestMemoryConformsInRealTime(t *testing.T) {
	t.Parallel()
	storetest.RunRandom(t, storetest.Factory{New: newMemory}, 2, 12)
}

// TestNoFrameAfterClose closes a store under fire: what is being handed over
// when Close is called has been handed over when it returns.
func TestNoFrameAfterClose(t *testing.T) {
	for range 20 {
		m := store.NewMemory(store.MemoryOptions{})
		var closed, late atomic.Bool
		m.Feed(func(*rollcall.Frame) {
			for range 20 {
				runtime.Gosched()
			}
			if closed.Load() {
				late.Store(true)
			}
		})
		var workers sync.WaitGroup
		for n := range 4 {
			workers.Go(func() {
				op := rollcall.Op{Kind: rollcall.OpGrant, Room: rollcall.RoomID([]byte{'a' + byte(n)}), User: "ana", Connection: "c", Status: rollcall.StatusIdle}
				for {
					if _, err := m.Apply(context.Background(), []rollcall.Op{op}); err != nil {
						return
					}
					op.Status = rollcall.StatusActive + rollcall.StatusIdle - op.Status
				}
			})
		}
		time.AfterFunc(time.Millisecond, func() {
			m.Close()
			closed.Store(true)
		})
		workers.Wait()
		if late.Load() {
			t.Fatal("a frame was still being handed over after Close had returned")
		}
	}
}

func TestClosedMemoryRefusesEverything(t *testing.T) {
	ctx := context.Background()
	m := store.NewMemory(store.MemoryOptions{})
	m.Close()
	_, applied := m.Apply(ctx, []rollcall.Op{{Room: "r", User: "u", Connection: "c"}})
	_, read := m.Read(ctx, rollcall.Query{Room: "r"})
	for name, err := range map[string]error{"apply": applied, "read": read, "tick": m.Tick(ctx), "renew": m.Renew(ctx, nil)} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v, want %v", name, err, store.ErrClosed)
		}
	}
	if err := m.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// TestFreshMemorySettles: who is missing from a store that has lost its memory
// may be on the way back for one lease.
func TestFreshMemorySettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		settling := func(m *store.Memory) time.Duration {
			a, err := m.Read(ctx, rollcall.Query{Room: "r"})
			if err != nil {
				t.Fatal(err)
			}
			return a.Settling
		}
		fresh, settled := store.NewMemory(store.MemoryOptions{}), store.NewMemory(store.MemoryOptions{Settled: true})
		if got := settling(fresh); got != 30*time.Second {
			t.Errorf("fresh: settling %v, want 30s", got)
		}
		if got := settling(settled); got != 0 {
			t.Errorf("settled: settling %v, want 0", got)
		}
		for range 29 {
			time.Sleep(time.Second)
			fresh.Tick(ctx)
		}
		if got := settling(fresh); got != time.Second {
			t.Errorf("after 29 s: settling %v, want 1s", got)
		}
		time.Sleep(2 * time.Second)
		if got := settling(fresh); got != 0 {
			t.Errorf("after a lease: settling %v, want 0", got)
		}
	})
}

// TestEpochsDiffer: versions of two lives of a store cannot be mistaken.
func TestEpochsDiffer(t *testing.T) {
	a, _ := store.NewMemory(store.MemoryOptions{}).Read(context.Background(), rollcall.Query{Room: "r"})
	b, _ := store.NewMemory(store.MemoryOptions{}).Read(context.Background(), rollcall.Query{Room: "r"})
	if a.Epoch == "" || a.Epoch == b.Epoch {
		t.Errorf("epochs %q and %q, want two", a.Epoch, b.Epoch)
	}
}
