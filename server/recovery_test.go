package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
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
