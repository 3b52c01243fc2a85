package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
)

// slowStore is a memory that takes its time for every change.
type slowStore struct {
	*store.Memory
	takes atomic.Int64 // ns, for a change
	reads atomic.Int64 // ns, for a read
}

func (s *slowStore) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Memory.Apply(ctx, ops)
}

func (s *slowStore) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	time.Sleep(time.Duration(s.reads.Load()))
	return s.Memory.Read(ctx, q)
}

// slowReads is a world whose store takes its time for every read.
func slowReads(t *testing.T, takes time.Duration, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		m := store.NewMemory(store.MemoryOptions{Settled: true})
		defer m.Close()
		slow := &slowStore{Memory: m}
		slow.reads.Store(int64(takes))
		s, err := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Guests{}, Store: slow})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, &world{t: t, h: s.h, m: m, s: s})
	})
}

// Everybody closes at once, and the store takes 100 ms for each.
func TestClosesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := store.NewMemory(store.MemoryOptions{Settled: true})
		defer m.Close()
		slow := &slowStore{Memory: m}
		s, err := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Guests{}, Store: slow})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := &world{t: t, h: s.h, m: m, s: s}
		var going []*client
		for i := range 20 {
			going = append(going, w.arrive(fmt.Sprintf("u%d", i), lobby, nil))
			w.arrive(fmt.Sprintf("v%d", i), lobby, nil) // who stays: it is no crowd that goes
		}
		slow.takes.Store(int64(100 * time.Millisecond))
		for _, c := range going {
			c.ends(transport.Closed)
		}
		time.Sleep(2 * time.Second)
		if n := len(w.here("lobby")); n != 20 {
			t.Errorf("%d are there, want 20", n)
		}
	})
}

// What was added of one name is done in order, whatever hangs elsewhere.
func TestErrandsOfOneNameAreDoneInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		stop := make(chan struct{})
		defer close(stop)
		w.h.errands.add("hangs", func() { <-stop })
		var done [100][]int // each written by one runner
		for i := range 10 {
			for k := range done {
				w.h.errands.add(fmt.Sprintf("name %d", k), func() { done[k] = append(done[k], i) })
			}
		}
		synctest.Wait()
		finished := 0
		for _, d := range done {
			for i := range d {
				if d[i] != i {
					t.Fatalf("done in the order %v", d)
				}
			}
			if len(d) == 10 {
				finished++
			}
		}
		if finished < 80 {
			t.Errorf("of %d of 100 names everything was done", finished)
		}
	})
}
