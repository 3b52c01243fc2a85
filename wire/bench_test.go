package wire_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"rollcall"
	"rollcall/wire"
)

func someMember(i int) *rollcall.Member {
	return &rollcall.Member{
		User:        rollcall.UserID(fmt.Sprintf("u%05d", i)),
		Info:        json.RawMessage(`{"name":"Ana"}`),
		Status:      rollcall.StatusActive,
		Connections: 2,
		Since:       1764500000000,
		Data:        json.RawMessage(`{"page":"intro"}`),
	}
}

func BenchmarkAppendDiff(b *testing.B) {
	d := &rollcall.Diff{Prev: 41, Version: 42, Count: 2, Join: []*rollcall.Member{someMember(1)}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendDiff(buf[:0], "doc/42", d)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkAppendMember(b *testing.B) {
	m := someMember(1)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendMember(buf[:0], m)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkAppendSnapshot(b *testing.B) {
	members := make([]*rollcall.Member, 200)
	for i := range members {
		members[i] = someMember(i)
	}
	buf := make([]byte, 0, 1<<16)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendSnapshot(buf[:0], "doc/42", "e1", 42, len(members), members, 0)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkAppendFrames(b *testing.B) {
	d := &rollcall.Diff{Prev: 41, Version: 42, Count: 2, Join: []*rollcall.Member{someMember(1)}}
	body := wire.AppendDiff(nil, "doc/42", d)
	buf := make([]byte, 0, 1024)
	b.Run("SSE", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = wire.AppendSSE(buf[:0], wire.EventDiff, body)
		}
	})
	b.Run("WS", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = wire.AppendWS(buf[:0], wire.EventDiff, body)
		}
	})
}

func BenchmarkDecodeMessages(b *testing.B) {
	raw := []byte(`{"type":"set","id":7,"room":"doc/42","status":"idle","data":{"page":"intro"}}`)
	limits := rollcall.DefaultLimits()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeMessages(raw, &limits); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(raw)))
}
