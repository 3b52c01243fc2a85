package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// Keys expire a day after their last use. Whoever is somewhere for longer, in a room
// that nobody else enters, is kept by the sweeps.
func TestWhoStaysForDaysIsKept(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	ctx := context.Background()
	s, err := Open(ctx, Options{URL: "redis://" + addr, Timing: rollcall.DefaultTiming(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	do := func(words ...string) rueidis.RedisResult {
		t.Helper()
		r := raw.Do(ctx, raw.B().Arbitrary(words...).Build())
		if err := r.Error(); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return r
	}
	// More rooms of one partition than a sweep takes at a time.
	const rooms = 120
	var ops []rollcall.Op
	partition := rollcall.PartitionOf("lobby")
	for i := 0; len(ops) < rooms; i++ {
		if room := rollcall.RoomID(fmt.Sprint("room", i)); rollcall.PartitionOf(room) == partition {
			ops = append(ops, rollcall.Op{Kind: rollcall.OpGrant, Room: room, User: "ana", Connection: rollcall.ConnectionID(fmt.Sprint("c", i))})
		}
	}
	if _, err := s.Apply(ctx, ops); err != nil {
		t.Fatal(err)
	}
	p, name := &s.parts[partition], prefix(partition)
	keys := []string{name + "l", name + "r"}
	for _, op := range ops {
		keys = append(keys, name+"m:"+string(op.Room), name+"u:"+string(op.Room))
	}
	for _, key := range keys {
		do("EXPIRE", key, "3600")
	}
	sweep := func() {
		t.Helper()
		do("HSET", name+"c", "keptat", "0") // a minute has passed
		p.graceUntil(time.Now())
		if err := s.Tick(ctx); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		for _, key := range keys {
			left, err := do("TTL", key).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			if left > 12*3600 {
				n++
			}
		}
		return n
	}
	sweep()
	if got, want := kept(), 2+2*50; got != want {
		t.Errorf("a minute's sweep kept %d keys, want %d", got, want)
	}
	for range 2 {
		sweep()
	}
	if got := kept(); got != len(keys) {
		t.Errorf("three minutes' sweeps kept %d keys of %d", got, len(keys))
	}
	// From the first one again.
	for _, key := range keys {
		do("EXPIRE", key, "3600")
	}
	for range 4 {
		sweep()
	}
	if got := kept(); got != len(keys) {
		t.Errorf("a second round kept %d keys of %d", got, len(keys))
	}
}
