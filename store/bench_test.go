package store_test

import (
	"context"
	"fmt"
	"testing"

	"rollcall"
	"rollcall/store"
)

// BenchmarkRenew renews leases by their handles: 10,000 of them in 1,000 rooms.
func BenchmarkRenew(b *testing.B) {
	ctx := context.Background()
	m := store.NewMemory(store.MemoryOptions{})
	ops := make([]rollcall.Op, 10_000)
	for i := range ops {
		ops[i] = rollcall.Op{
			Kind: rollcall.OpGrant, Room: rollcall.RoomID(fmt.Sprintf("doc/%d", i%1000)),
			User: rollcall.UserID(fmt.Sprint(i)), Connection: rollcall.ConnectionID(fmt.Sprint(i)),
		}
	}
	results, err := m.Apply(ctx, ops)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("OneByOne", func(b *testing.B) {
		b.ReportAllocs()
		renewals := make([]rollcall.Renewal, 1)
		for i := 0; b.Loop(); i++ {
			renewals[0] = rollcall.Renewal{Lease: &results[i%len(results)].Lease}
			m.Renew(ctx, renewals)
		}
		if renewals[0].Outcome != rollcall.Renewed {
			b.Fatal(renewals[0].Outcome)
		}
	})
	// As a node sends them; the time is that of one renewal.
	b.Run("BatchesOf500", func(b *testing.B) {
		renewals := make([]rollcall.Renewal, 500)
		for i := range renewals {
			renewals[i].Lease = &results[i].Lease
		}
		for n := 0; n < b.N; n += len(renewals) {
			m.Renew(ctx, renewals)
		}
	})
	b.Run("Parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			renewals := make([]rollcall.Renewal, 1)
			for i := 0; pb.Next(); i++ {
				renewals[0] = rollcall.Renewal{Lease: &results[(i*7919)%len(results)].Lease}
				m.Renew(ctx, renewals)
			}
		})
	})
}
