package server

import (
	"encoding/binary"
	"fmt"
	"testing"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
)

// BenchmarkPongToStore is what a pong costs from the frame to the renewed lease,
// without the socket: 1,000 connections answer, and then the store is told.
func BenchmarkPongToStore(b *testing.B) {
	m := store.NewMemory(store.MemoryOptions{})
	srv, err := New(Options{Store: m, Auth: auth.Guests{}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	defer srv.Close()
	h := srv.h
	sessions := make([]*session, 1000)
	for i := range sessions {
		o, err := h.open(b.Context(), arrival{
			identity: auth.GuestIdentity(rollcall.UserID(fmt.Sprintf("user-%d", i))), proto: protocolWS,
			rooms: []entry{{room: rollcall.RoomID(fmt.Sprintf("room-%d", i/100))}},
		})
		if err != nil {
			b.Fatal(err)
		}
		sessions[i] = new(session)
		sessions[i].stream.Store(o.attach(newFakeConn()))
	}
	now := h.clock.now()
	var payload [8]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ss := sessions[i%len(sessions)]
		if i%len(sessions) == 0 {
			h.keepers[0].flush(now)
			now += 1000
			binary.BigEndian.PutUint64(payload[:], uint64(now))
		}
		st := ss.stream.Load()
		st.c.mu.Lock()
		st.beats[0] = now // as if it had been sent
		st.c.mu.Unlock()
		ss.Pong(payload[:])
	}
}
