package store_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
)

var crowdSize = flag.Int("crowd", 1_000_000, "members of the room of BenchmarkCrowd")

// BenchmarkCrowd measures what is asked of a room of a million members, and what
// each of them costs.
func BenchmarkCrowd(b *testing.B) {
	ctx := context.Background()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	defer m.Close()
	ops := make([]rollcall.Op, 0, 1000)
	for i := range *crowdSize {
		user := fmt.Sprintf("user-%07d", i)
		ops = append(ops, rollcall.Op{
			Kind: rollcall.OpGrant, Room: "stadium", User: rollcall.UserID(user), Connection: rollcall.ConnectionID("c-" + user),
			Info: json.RawMessage(fmt.Sprintf(`{"name":"Number %07d"}`, i)), TTL: time.Hour,
		})
		if len(ops) == cap(ops) || i == *crowdSize-1 {
			if _, err := m.Apply(ctx, ops); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	ops = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	perMember := float64(after.HeapAlloc-before.HeapAlloc) / float64(*crowdSize)

	// The cursors of some depths.
	cursors := make([]rollcall.Version, 0, 100)
	var at rollcall.Version
	for n := 0; ; n++ {
		a, err := m.Read(ctx, rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Cursor: at, Limit: 10_000})
		if err != nil {
			b.Fatal(err)
		}
		if at = a.Next; at == 0 {
			break
		}
		cursors = append(cursors, at)
	}
	contacts := make([]rollcall.UserID, 500)
	for i := range contacts {
		contacts[i] = rollcall.UserID(fmt.Sprintf("user-%07d", i*(*crowdSize)/250)) // half of them are there
	}
	ask := func(name string, q func(i int) rollcall.Query) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, err := m.Read(ctx, q(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(perMember, "B/member")
		})
	}
	ask("Count", func(int) rollcall.Query { return rollcall.Query{Room: "stadium"} })
	ask("FirstPage", func(int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Limit: 50}
	})
	ask("PageAtAnyDepth", func(i int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Limit: 50, Cursor: cursors[i*37%len(cursors)]}
	})
	ask("Contacts", func(int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantUsers, Room: "stadium", Users: contacts}
	})
}
