package redis

import (
	"fmt"
	"testing"

	"rollcall"
)

// However many of the leases that are renewed together have been lost, each is
// renewed or known to be lost.
func TestEachOfManyRenewalsIsSeenTo(t *testing.T) {
	r := newReleases(t)
	const n = 2*renewMost + 7
	ops := make([]rollcall.Op, n)
	for i := range ops {
		ops[i] = rollcall.Op{
			Kind: rollcall.OpGrant, Room: "lobby", User: rollcall.UserID(fmt.Sprintf("u%d", i)), Connection: rollcall.ConnectionID(fmt.Sprintf("c%d", i)),
		}
	}
	results, err := r.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	// Of the first ones every other is lost, then all are, and the last stay.
	lost := func(i int) bool { return i < n/3 && i%2 == 0 || i >= n/3 && i < 2*n/3 }
	renewals := make([]rollcall.Renewal, n)
	for i := range renewals {
		if results[i].Err != nil {
			t.Fatal(results[i].Err)
		}
		renewals[i].Lease = &results[i].Lease
		if lost(i) {
			r.do("HDEL", r.key("u:lobby"), string(ops[i].User))
			r.do("ZREM", r.key("l"), leaseName(&results[i].Lease))
		}
	}
	if err := r.Renew(t.Context(), renewals); err != nil {
		t.Fatal(err)
	}
	for i := range renewals {
		want := rollcall.Renewed
		if lost(i) {
			want = rollcall.Lost
		}
		if renewals[i].Outcome != want {
			t.Fatalf("lease %d of %d: %v, want %v", i, n, renewals[i].Outcome, want)
		}
	}
}
