package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/store"
)

// TestThousandsThatWaitedAreBackInSeconds: the grants that wait for a store are made
// together. One by one a store that needs 100 ms for a call would need minutes.
func TestThousandsThatWaitedAreBackInSeconds(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		count := func() int {
			a, err := w.m.Read(t.Context(), rollcall.Query{Want: rollcall.WantRoom, Room: "lobby"})
			if err != nil {
				t.Fatal(err)
			}
			return a.Count
		}
		frail.away.Store(true)
		const users = 2000
		for i := range users {
			w.arrive(fmt.Sprint("u", i), lobby, nil)
		}
		time.Sleep(5 * time.Second)
		if got := count(); got != 0 {
			t.Fatalf("%d are in a store that is away", got)
		}
		frail.takes.Store(int64(100 * time.Millisecond))
		frail.away.Store(false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := count(); got != users {
			t.Errorf("%d of %d are there", got, users)
		}
	})
}

// TestOpenedAtAFailover: who is granted a lease by a memory that is lost at that
// moment is shown what the memory holds that took over, which is of older versions,
// and is in it with the next renewal.
func TestOpenedAtAFailover(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		w.arrive("ana", lobby, nil)
		lost := store.NewMemory(store.MemoryOptions{Settled: true})
		defer lost.Close()
		ops := []rollcall.Op{{Kind: rollcall.OpGrant, Room: "lobby", User: "eve", Connection: "e"}}
		for i := range 100_000 { // each takes its version ahead by 1 us at least
			ops = append(ops, rollcall.Op{
				Kind: rollcall.OpSet, Room: "lobby", User: "eve", Connection: "e", Status: rollcall.StatusIdle + rollcall.Status(i%2),
			})
		}
		if _, err := lost.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		frail.lost.Store(lost)
		ben := w.arrive("ben", lobby, nil)
		frail.lost.Store(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if here := w.here("lobby"); !slices.Equal(here, []string{"ben", "ana"}) {
			t.Errorf("%q are here", here)
		}
		shown := strings.Join(ben.eventsOf("snapshot", "diff"), "\n")
		for _, user := range []string{"ana", "ben"} {
			if !strings.Contains(shown, `"user":"`+user) {
				t.Errorf("he was not shown %s: %s", user, shown)
			}
		}
	})
}
