package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
)

// partedStore is a memory of which single partitions can hang: a call takes as
// long as a store may take, and fails.
type partedStore struct {
	*store.Memory
	t *testing.T

	mu      sync.Mutex
	hanging map[int]bool            // Guarded by mu.
	calls   map[int]int             // Guarded by mu. That hung.
	busy    map[int]int             // Guarded by mu. Calls that hang now.
	most    int                     // Guarded by mu. Of them at a time in one partition.
	renewed map[rollcall.UserID]int // Guarded by mu.
}

var errHung = errors.New("no answer")

func (s *partedStore) Parted() bool { return true }

func (s *partedStore) hang(hangs bool, partitions ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		s.hanging[p] = hangs
	}
}

func (s *partedStore) reach(ctx context.Context, p int) error {
	s.mu.Lock()
	hangs := s.hanging[p]
	if hangs {
		s.calls[p]++
		s.busy[p]++
		s.most = max(s.most, s.busy[p])
	}
	s.mu.Unlock()
	if !hangs {
		return nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy[p]--
	}()
	select {
	case <-time.After(2 * time.Second):
		return errHung
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *partedStore) Tick(context.Context) error {
	s.t.Error("a parted store is ticked as a whole")
	return nil
}

func (s *partedStore) TickOne(ctx context.Context, partition int) error {
	if err := s.reach(ctx, partition); err != nil {
		return err
	}
	return s.Memory.TickOne(ctx, partition)
}

func (s *partedStore) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	p := rollcall.PartitionOf(ops[0].Room)
	for i := range ops {
		if rollcall.PartitionOf(ops[i].Room) != p {
			s.t.Error("operations on several partitions in one call")
		}
	}
	if err := s.reach(ctx, p); err != nil {
		return nil, err
	}
	return s.Memory.Apply(ctx, ops)
}

func (s *partedStore) Renew(ctx context.Context, renewals []rollcall.Renewal) error {
	p := rollcall.PartitionOf(renewals[0].Lease.Room)
	for i := range renewals {
		if rollcall.PartitionOf(renewals[i].Lease.Room) != p {
			s.t.Error("leases of several partitions in one call")
		}
	}
	if err := s.reach(ctx, p); err != nil {
		return err
	}
	s.mu.Lock()
	for i := range renewals {
		s.renewed[renewals[i].Lease.User]++
	}
	s.mu.Unlock()
	return s.Memory.Renew(ctx, renewals)
}

func (s *partedStore) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if err := s.reach(ctx, rollcall.PartitionOf(q.Room)); err != nil {
		return rollcall.Answer{}, err
	}
	return s.Memory.Read(ctx, q)
}

// newPartedWorld is a hub on a parted store.
func newPartedWorld(t *testing.T) (*world, *partedStore) {
	t.Helper()
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	p := &partedStore{
		Memory: m, t: t, hanging: make(map[int]bool), calls: make(map[int]int), busy: make(map[int]int),
		renewed: make(map[rollcall.UserID]int),
	}
	s, err := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Guests{}, Store: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		m.Close()
	})
	return &world{t: t, h: s.h, m: m, s: s}, p
}

// roomsApart are rooms of different partitions.
func roomsApart(n int) (rooms []rollcall.RoomID) {
	seen := make(map[int]bool)
	for i := 0; len(rooms) < n; i++ {
		r := rollcall.RoomID(fmt.Sprintf("room %d", i))
		if p := rollcall.PartitionOf(r); !seen[p] {
			seen[p] = true
			rooms = append(rooms, r)
		}
	}
	return rooms
}

// One part of the store hangs for longer than a lease: life goes on in the others
// as if nothing were, and in that one nobody is removed.
func TestAPartOfTheStoreThatHangsTakesNobodyAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newPartedWorld(t)
		rooms := roomsApart(3)
		well, ill, other := rooms[0], rooms[1], rooms[2]
		ana := w.arrive("ana", []rollcall.RoomID{well}, nil)
		bob := w.arrive("bob", []rollcall.RoomID{ill}, nil)
		eve := w.arrive("eve", []rollcall.RoomID{well, ill, other}, nil)
		tom := w.arrive("tom", []rollcall.RoomID{well}, nil)
		live(5*time.Second, ana, bob, eve, tom)
		for _, c := range []*client{ana, bob, eve, tom} {
			c.conn.take()
		}
		s.hang(true, rollcall.PartitionOf(ill))
		live(10*time.Second, ana, bob, eve, tom)
		s.mu.Lock()
		clear(s.renewed)
		s.mu.Unlock()

		began := time.Now()
		zoe := w.arrive("zoe", []rollcall.RoomID{well, ill}, nil)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("to open a stream took %v", took)
		}
		said, _ := ana.conn.take()
		if got := told(said); !slices.Equal(got, []string{"join zoe"}) {
			t.Errorf("ana was told %q, want the join of zoe", got)
		}
		if strings.Contains(said, "degraded") {
			t.Error("ana was told of a part that is not hers")
		}
		for _, c := range []*client{bob, eve, zoe} {
			if said, _ := c.conn.take(); !strings.Contains(said, `"degraded"`) {
				t.Errorf("%s was not told that the store is degraded: %s", c.st.c.user, said)
			}
		}

		began = time.Now()
		tom.ends(transport.Closed)
		time.Sleep(1300 * time.Millisecond)
		said, _ = ana.conn.take()
		if got := told(said); !slices.Equal(got, []string{"leave tom closed"}) {
			t.Errorf("%v after tom closed, ana was told %q", time.Since(began), got)
		}

		live(65*time.Second, ana, bob, eve, zoe)
		for _, user := range []rollcall.UserID{"ana", "eve", "zoe"} {
			s.mu.Lock()
			if n := s.renewed[user]; n < 5 {
				t.Errorf("%s was renewed %d times in 65 s", user, n)
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		if n := s.calls[rollcall.PartitionOf(ill)]; n > 50 || s.most > 4 {
			t.Errorf("%d calls hung, %d of them at a time", n, s.most)
		}
		s.mu.Unlock()
		s.hang(false, rollcall.PartitionOf(ill))
		live(40*time.Second, ana, bob, eve, zoe)
		for _, c := range []*client{ana, bob, eve} {
			said, _ := c.conn.take()
			for _, e := range told(said) {
				if strings.HasPrefix(e, "leave") && e != "leave tom closed" {
					t.Errorf("%s was told: %s", c.st.c.user, e)
				}
			}
			if c != ana && !strings.Contains(said, `{"store":"ok"`) {
				t.Errorf("%s was not told that the store works again", c.st.c.user)
			}
		}
		for room, want := range map[rollcall.RoomID][]string{
			well: {"ana", "eve", "zoe"}, ill: {"bob", "eve", "zoe"}, other: {"eve"},
		} {
			here := w.here(room)
			slices.Sort(here)
			if !slices.Equal(here, want) {
				t.Errorf("in %s are %q, want %q", room, here, want)
			}
		}
	})
}

// Who closes leaves the rooms of the parts that work, whatever the others do.
func TestACloseDoesNotWaitForThePartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newPartedWorld(t)
		rooms := roomsApart(2)
		ana := w.arrive("ana", rooms[:1], nil)
		bob := w.arrive("bob", rooms, nil)
		live(time.Second, ana, bob)
		ana.conn.take()
		s.hang(true, rollcall.PartitionOf(rooms[1]))
		bob.ends(transport.Closed)
		time.Sleep(1300 * time.Millisecond)
		said, _ := ana.conn.take()
		if got := told(said); !slices.Equal(got, []string{"leave bob closed"}) {
			t.Errorf("ana was told %q, want the leave of bob", got)
		}
		s.hang(false, rollcall.PartitionOf(rooms[1]))
		live(5*time.Second, ana)
		if here := w.here(rooms[1]); len(here) != 0 {
			t.Errorf("%q are still there", here)
		}
	})
}
