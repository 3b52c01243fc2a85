package server

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
)

// BenchmarkWitness is what it costs a node to note that somebody was granted a
// lease.
func BenchmarkWitness(b *testing.B) {
	m := store.NewMemory(store.MemoryOptions{})
	defer m.Close()
	s, err := New(Options{Store: m, Auth: auth.Guests{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	users := make([]rollcall.UserID, 10_000)
	for i := range users {
		users[i] = rollcall.UserID(fmt.Sprint("user", i))
	}
	for name, among := range map[string]int{"few": 100, "many": len(users)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.h.witness.saw(rollcall.RoomID(name), users[i%among])
				i++
			}
		})
	}
}
