package redis

import (
	"context"
	"testing"
	"time"

	"rollcall"
)

// A partition in which nothing happens is not swept. Whoever is the first to enter
// a room of it is not told that others may be on their way back.
func TestARestIsNoLossOfMemory(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	timing := rollcall.Timing{Lease: 400 * time.Millisecond, Beat: 100 * time.Millisecond, CloseGrace: 10 * time.Millisecond}
	s, err := Open(context.Background(), Options{URL: "redis://" + addr, Timing: timing, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	settling := func() time.Duration {
		a, err := s.Read(context.Background(), rollcall.Query{Want: rollcall.WantRoom, Room: "lobby"})
		if err != nil {
			t.Fatal(err)
		}
		return a.Settling
	}
	if settling() == 0 {
		t.Error("a new memory does not settle")
	}
	// The clock of the store is a real one.
	for end := time.Now().Add(3 * timing.Lease); time.Now().Before(end); time.Sleep(timing.Lease / 20) { //house:sleep real time
		if err := s.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * timing.Lease) //house:sleep real time
	ops := []rollcall.Op{{Kind: rollcall.OpGrant, Room: "lobby", User: "ana", Connection: "c"}}
	if _, err := s.Apply(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	if d := settling(); d != 0 {
		t.Errorf("after a rest it settles for %v", d)
	}
	time.Sleep(2 * timing.Lease) //house:sleep real time
	if settling() == 0 {
		t.Error("leases that nobody has looked after for a lease do not settle")
	}
}
