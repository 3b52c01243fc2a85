package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
)

func openStore(t testing.TB, addr string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{URL: "redis://" + addr, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func hashOf(visitor int) uint64 { return rand.New(rand.NewPCG(uint64(visitor), 1)).Uint64() }

// TestForeignAudienceIsAnError: what somebody else has put under our keys is told,
// and takes nothing along.
func TestForeignAudienceIsAnError(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	s := openStore(t, addr)
	ctx, now := context.Background(), time.Now().Unix()
	key := func(room rollcall.RoomID) string {
		return s.parts[rollcall.PartitionOf(room)].prefix + "h:" + audienceName(room)
	}
	do := func(command ...string) {
		t.Helper()
		if err := s.client.Do(ctx, s.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do("SET", key("text"), "what is this")
	do("SET", key("empty"), "")
	do("SET", key("later"), "\x02\x00\x00\x00\x00\x00")
	do("LPUSH", key("list"), "a")
	do("PFADD", key("hll"), "a", "b")
	sketch := func() *rollcall.Sketch {
		one := &rollcall.Sketch{}
		one.Add(42, now)
		return one
	}
	for _, room := range []rollcall.RoomID{"text", "empty", "later", "list", "hll"} {
		if _, _, err := s.Audience(ctx, room, now, time.Minute); !errors.Is(err, errForeign) {
			t.Errorf("%s is read: %v, want that it is not ours", room, err)
		}
		seen := []store.RoomSketch{{Room: room, Sketch: sketch()}, {Room: "good", Sketch: sketch()}}
		if err := s.Witness(ctx, now, seen); !errors.Is(err, errForeign) {
			t.Errorf("%s is written: %v, want that it is not ours", room, err)
		}
	}
	if n, _, err := s.Audience(ctx, "good", now, time.Minute); n != 1 || err != nil {
		t.Errorf("the good one: %d, %v", n, err)
	}
}

// TestAudienceWaitsForItsExpiry: what is left of a room is a key that expires and
// does not name it.
func TestAudienceWaitsForItsExpiry(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	s := openStore(t, addr)
	ctx, now := context.Background(), time.Now().Unix()
	one := &rollcall.Sketch{}
	one.Add(42, now)
	if err := s.Witness(ctx, now, []store.RoomSketch{{Room: "secret-room", Sketch: one}}); err != nil {
		t.Fatal(err)
	}
	keys, err := s.client.Do(ctx, s.client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, key := range keys {
		if strings.Contains(key, "secret-room") {
			t.Errorf("the key %q names the room", key)
		}
		if strings.Contains(key, ":h:") {
			found++
			left, err := s.client.Do(ctx, s.client.B().Ttl().Key(key).Build()).AsInt64()
			if err != nil || left < 3600 || left > 3700 {
				t.Errorf("the key runs %d s (%v), want about an hour", left, err)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d keys of audiences, want 1", found)
	}
}

// TestAudienceByTheClockOfTheStore: nodes whose clocks differ tell of the same
// window.
func TestAudienceByTheClockOfTheStore(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	ctx := context.Background()
	for i, ahead := range []int64{0, -86400, 7200} {
		s := openStore(t, addr)
		now := time.Now().Unix() + ahead
		one := &rollcall.Sketch{}
		one.Add(uint64(i+1)<<32, now-5)
		if err := s.Witness(ctx, now, []store.RoomSketch{{Room: "r", Sketch: one}}); err != nil {
			t.Fatal(err)
		}
		if n, _, err := s.Audience(ctx, "r", now, time.Minute); n != i+1 || err != nil {
			t.Errorf("node %d: %d, %v, want %d", i, n, err, i+1)
		}
	}
}

// TestAudienceOfManyNodes: nodes that serve the same room, some of them the same
// users, make one audience, while all of them write at once.
func TestAudienceOfManyNodes(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	ctx, now := context.Background(), time.Now().Unix()
	const nodes, each = 3, 800
	var all sync.WaitGroup
	stores := make([]*Store, nodes)
	for node := range nodes {
		s := openStore(t, addr)
		stores[node] = s
		all.Go(func() {
			for i := 0; i < each; i += 20 {
				some := &rollcall.Sketch{}
				for k := range 20 { // half of them are the next node's too
					some.Add(hashOf(node*each/2+i+k), now)
				}
				seen := []store.RoomSketch{{Room: "r", Sketch: some}}
				for s.Witness(ctx, now, seen) != nil { // another was faster, each time
				}
			}
		})
	}
	all.Wait()
	const want = (nodes + 1) * each / 2
	for _, s := range stores {
		n, e, err := s.Audience(ctx, "r", now, time.Minute)
		if off := math.Abs(float64(n - want)); err != nil || e == 0 || off > 3*e*want {
			t.Errorf("%d with error %g, %v, want %d", n, e, err, want)
		}
	}
}

func BenchmarkAudience(b *testing.B) {
	addr, _ := startServer(b, "redis-server")
	s := openStore(b, addr)
	ctx, now := context.Background(), time.Now().Unix()
	cpu := func() float64 {
		text, err := s.client.Do(ctx, s.client.B().Info().Section("cpu").Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
		var user, system float64
		table := info(text)
		fmt.Sscan(table["used_cpu_user"], &user)
		fmt.Sscan(table["used_cpu_sys"], &system)
		return (user + system) * 1e6
	}
	for _, n := range []int{1, 100, 10_000} {
		room := rollcall.RoomID(fmt.Sprint("r", n))
		crowd := func(from int) *rollcall.Sketch {
			c := &rollcall.Sketch{}
			for i := range n {
				c.Add(hashOf(from+i), now)
			}
			return c
		}
		b.Run(fmt.Sprintf("witness/%d", n), func(b *testing.B) {
			began, i := cpu(), 0
			for b.Loop() {
				one := crowd(0)
				one.Add(hashOf(-i), now+int64(i)) // something new each time
				if err := s.Witness(ctx, now, []store.RoomSketch{{Room: room, Sketch: one}}); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric((cpu()-began)/float64(b.N), "redis-us/op")
		})
		b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) {
			began := cpu()
			for b.Loop() {
				if _, _, err := s.Audience(ctx, room, now, time.Minute); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu()-began)/float64(b.N), "redis-us/op")
		})
	}
	const small = 2000
	b.Run("witness-2000-rooms-of-1", func(b *testing.B) {
		began, i := cpu(), int64(0)
		for b.Loop() {
			i++
			var seen []store.RoomSketch
			for k := range small {
				one := &rollcall.Sketch{}
				one.Add(hashOf(k), now+i)
				seen = append(seen, store.RoomSketch{Room: rollcall.RoomID(fmt.Sprint("small", k)), Sketch: one})
			}
			if err := s.Witness(ctx, now, seen); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((cpu()-began)/float64(b.N)/small, "redis-us/room")
	})
}
