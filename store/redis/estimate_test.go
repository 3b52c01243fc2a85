package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
)

func TestNodesExchangeEstimates(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	ctx := context.Background()
	timing := rollcall.DefaultTiming()
	timing.Lease = time.Second
	var nodes [2]*Store
	for i := range nodes {
		s, err := Open(ctx, Options{URL: "redis://" + addr, Timing: timing, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		nodes[i] = s
	}
	users := func(from, to int) *rollcall.Sketch {
		s := &rollcall.Sketch{}
		for i := from; i < to; i++ {
			s.Add(hashOf(i), 1)
		}
		return s
	}
	exchange := func(node int, own *rollcall.Sketch) int {
		t.Helper()
		seen := []store.RoomSketch{{Room: "other"}, {Room: "live", Sketch: own}}
		others, err := nodes[node].Exchange(ctx, []string{"a", "b"}[node], seen)
		if err != nil || len(others) != 2 || !others[0].Empty() {
			t.Fatalf("exchange: %v, %v", others, err)
		}
		n, _ := others[1].Since(0)
		return n
	}
	want := func(step string, got, want int) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: the other node has %d, want %d", step, got, want)
		}
	}
	want("a is first", exchange(0, users(0, 10)), 0)
	want("b hears of a", exchange(1, users(5, 25)), 10)
	want("a only reads", exchange(0, nil), 20)
	want("b has fewer", exchange(1, users(5, 6)), 10)
	want("a hears of it", exchange(0, nil), 1)
	want("b has nobody", exchange(1, &rollcall.Sketch{}), 10)
	want("a hears of that too", exchange(0, users(0, 10)), 0)
	deadline := time.Now().Add(5 * time.Second)
	for exchange(1, nil) != 0 {
		if time.Now().After(deadline) {
			t.Fatal("a is believed although it says nothing")
		}
		time.Sleep(10 * time.Millisecond)
	}
	keys, err := nodes[0].client.Do(ctx, nodes[0].client.B().Keys().Pattern("*:g:*").Build()).AsStrSlice()
	if err != nil || len(keys) != 0 {
		t.Errorf("left over: %q, %v", keys, err)
	}
	// What is not ours is told, and takes nothing along.
	key := nodes[0].parts[rollcall.PartitionOf("live")].prefix + "g:" + audienceName("live")
	for _, command := range [][]string{{"SET", key, "x"}, {"HSET", key, "c", "who are you"}} {
		nodes[0].client.Do(ctx, nodes[0].client.B().Del().Key(key).Build())
		if err := nodes[0].client.Do(ctx, nodes[0].client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		others, err := nodes[0].Exchange(ctx, "a", []store.RoomSketch{{Room: "live", Sketch: users(0, 3)}, {Room: "fine", Sketch: users(0, 3)}})
		if !errors.Is(err, errForeign) || len(others) != 2 {
			t.Errorf("%q: %v, %v, want that it is not ours", command, others, err)
		}
	}
}
