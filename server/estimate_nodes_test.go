package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
)

// board is where the nodes of a test tell each other whom they have.
type board struct {
	lease time.Duration
	mu    sync.Mutex
	told  map[rollcall.RoomID]map[string]boardEntry // Guarded by mu.
}

type boardEntry struct {
	at     time.Time
	sketch *rollcall.Sketch
}

// boardStore is the memory of one node, and the board of all. Rooms declared
// `estimate` need no other store.
type boardStore struct {
	*store.Memory
	*board
}

func (boardStore) Shared() bool { return true }

func (b *board) Exchange(_ context.Context, node string, own []store.RoomSketch) ([]*rollcall.Sketch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var others []*rollcall.Sketch
	for _, o := range own {
		nodes := b.told[o.Room]
		if nodes == nil {
			nodes = make(map[string]boardEntry)
			b.told[o.Room] = nodes
		}
		if o.Sketch != nil {
			nodes[node] = boardEntry{time.Now(), o.Sketch}
		}
		sum := &rollcall.Sketch{}
		for name, e := range nodes {
			if name != node && time.Since(e.at) <= b.lease {
				sum.Merge(e.sketch)
			}
		}
		others = append(others, sum)
	}
	return others, nil
}

func estimateNodes(t *testing.T, n int) (nodes []*world) {
	t.Helper()
	rules, err := rollcall.ParseRoomRules([]string{"live:*:estimate=on"}, rollcall.RoomSettings{Modes: rollcall.DefaultModes()})
	if err != nil {
		t.Fatal(err)
	}
	servers, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	b := &board{lease: rollcall.DefaultTiming().Lease, told: make(map[rollcall.RoomID]map[string]boardEntry)}
	for range n {
		m := store.NewMemory(store.MemoryOptions{Settled: true, Rules: rules})
		s, err := New(Options{
			Store: boardStore{m, b}, Auth: auth.Chain(servers, auth.Guests{}), Rules: rules, Secret: []byte("the same for all of the nodes"),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Close()
			m.Close()
		})
		nodes = append(nodes, &world{t: t, h: s.h, m: m, s: s})
	}
	return nodes
}

// keepAlive has clients answer for a while.
func keepAlive(d time.Duration, clients ...[]*client) {
	for ; d > 0; d -= 3 * time.Second {
		time.Sleep(min(d, 3*time.Second))
		for _, list := range clients {
			for _, c := range list {
				c.answer()
			}
		}
	}
	synctest.Wait()
}

func TestEstimateIsThatOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := estimateNodes(t, 3)
		var clients [2][]*client
		for i := range 60 { // user 20 to 39 on both
			node := i / 30
			user := fmt.Sprint("u", i-node*10)
			clients[node] = append(clients[node], nodes[node].arrive(user, []rollcall.RoomID{stadium}, nil))
		}
		keepAlive(3*time.Second, clients[:]...)
		for _, w := range nodes {
			w.wantCounted(50) // exact, as it is few
		}
		for _, c := range clients[1][:20] { // 10 of them are on the other node too
			c.st.c.release(false)
			c.ends(transport.Closed)
		}
		keepAlive(3*time.Second, clients[0], clients[1][20:])
		for _, w := range nodes {
			w.wantCounted(40)
		}
		keepAlive(time.Minute, clients[0], clients[1][20:])
		for _, w := range nodes {
			w.wantCounted(40)
		}
		// A node dies: those that are nowhere else count for a lease.
		nodes[1].s.Close()
		keepAlive(5*time.Second, clients[0])
		nodes[2].wantCounted(40)
		keepAlive(40*time.Second, clients[0])
		nodes[0].wantCounted(30)
		nodes[2].wantCounted(30)
	})
}

func TestEstimateOfACrowdOnManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := estimateNodes(t, 2)
		for i := range 1200 { // 600 on each, 200 of them on both
			node := i / 600
			nodes[node].arrive(fmt.Sprint("u", i-node*200), []rollcall.RoomID{stadium}, nil)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, w := range nodes {
			got := w.counted(stadium)
			if off := math.Abs(float64(got.Count - 1000)); !got.Estimate || got.StandardError <= 0 || off > 3*1000*got.StandardError {
				t.Errorf("read %+v, want 1000 within three times its error", got)
			}
		}
	})
}
