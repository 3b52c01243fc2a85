package rollcall_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"rollcall"
)

// crowded is a partition with one room of n members.
func crowded(n int) *rollcall.Partition {
	p := rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e"}, startTime)
	ops, results := make([]rollcall.Op, 1), make([]rollcall.Result, 1)
	for i := range n {
		id := fmt.Sprintf("user-%07d", i)
		ops[0] = rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id)}
		p.Apply(startTime, ops, results)
	}
	return p
}

// BenchmarkJoinLeave is a join and a leave in a room of 100.
func BenchmarkJoinLeave(b *testing.B) {
	p := crowded(100)
	ops := []rollcall.Op{
		{Kind: rollcall.OpGrant, Room: hall, User: "newcomer", Connection: "c"},
		{Kind: rollcall.OpEnd, Room: hall, User: "newcomer", Connection: "c", Reason: rollcall.ReasonLeft},
	}
	results := make([]rollcall.Result, 2)
	now := startTime
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		p.Apply(now, ops, results)
	}
}

// BenchmarkPage reads pages of 50 in a room of a million, at random places and
// where it costs most: at the end, with the latest half gone.
func BenchmarkPage(b *testing.B) {
	const n = 1_000_000
	p := crowded(n)
	read := func(b *testing.B, cursors []rollcall.Version) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q := rollcall.Query{Want: rollcall.WantPage, Room: hall, Limit: 50, Cursor: cursors[i%len(cursors)]}
			if a := p.Read(startTime, &q); len(a.Members) != 50 {
				b.Fatalf("%d members", len(a.Members))
			}
		}
	}
	first := rollcall.Version(startTime.UnixMicro())
	var random []rollcall.Version
	for i := range 997 {
		random = append(random, first+rollcall.Version((i*7919*131)%(n-100)+100))
	}
	b.Run("Random", func(b *testing.B) { read(b, random) })
	b.Run("First", func(b *testing.B) { read(b, []rollcall.Version{0}) })
	ops, results := make([]rollcall.Op, 1), make([]rollcall.Result, 1)
	for i := n - 1; i > n/2; i-- {
		ops[0] = rollcall.Op{Kind: rollcall.OpEndUser, Room: hall, User: rollcall.UserID(fmt.Sprintf("user-%07d", i)), Reason: rollcall.ReasonLeft}
		p.Apply(startTime, ops, results)
	}
	b.Run("FirstWithTheLatestHalfGone", func(b *testing.B) { read(b, []rollcall.Version{0}) })
}

func BenchmarkCount(b *testing.B) {
	p := crowded(10_000)
	q := rollcall.Query{Want: rollcall.WantRoom, Room: hall}
	b.ReportAllocs()
	for b.Loop() {
		if a := p.Read(startTime, &q); a.Count != 10_000 {
			b.Fatal(a.Count)
		}
	}
}

// BenchmarkSweep is a tick, four times a second, over 10,000 leases of which each
// is renewed every 9 s.
func BenchmarkSweep(b *testing.B) {
	p := rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e"}, startTime)
	const n = 10_000
	ops, results := make([]rollcall.Op, n), make([]rollcall.Result, n)
	for i := range ops {
		id := fmt.Sprint(i)
		ops[i] = rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id)}
	}
	p.Apply(startTime, ops, results)
	now, next := startTime, 0
	for b.Loop() {
		now = now.Add(250 * time.Millisecond)
		b.StopTimer()
		for range n / 36 {
			p.RenewOne(now, &rollcall.Renewal{Lease: &results[next].Lease})
			next = (next + 1) % n
		}
		b.StartTimer()
		if f := p.Tick(now); f != nil {
			b.Fatal("somebody left")
		}
	}
}

// BenchmarkMemory reports the bytes of a member with one connection, without info
// or data, in a room of 100,000.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p := crowded(n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/member")
		runtime.KeepAlive(p)
	}
}

func BenchmarkRosterApply(b *testing.B) {
	r := rollcall.NewRoster(&rollcall.Answer{Epoch: "e", Version: 1})
	for i := range 100 {
		r.Apply(&rollcall.Change{Prev: r.Version(), Version: r.Version() + 1, Join: []*rollcall.Member{person(fmt.Sprint(i), 1)}})
	}
	c := rollcall.Change{Update: []*rollcall.Member{person("50", 1)}}
	b.ReportAllocs()
	for b.Loop() {
		c.Prev, c.Version = r.Version(), r.Version()+1
		r.Apply(&c)
		if d, ok := r.Since(c.Prev); !ok || len(d.Update) != 1 {
			b.Fatal("no update")
		}
	}
}
