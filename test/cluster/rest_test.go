//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/test/harness"
)

// stay is one user in some rooms, by a stream that costs little.
type stay struct {
	end context.CancelFunc
	res *http.Response
}

// enter opens a stream of rooms and waits until all of them are shown.
func enter(n *harness.Server, transport http.RoundTripper, user string, rooms []string) (*stay, error) {
	ctx, cancel := context.WithCancel(context.Background())
	query := url.Values{"user": {user}, "room": rooms, "data": {`{"n":1}`}}
	req, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/v1/stream?"+query.Encode(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	in := bufio.NewReader(res.Body)
	for shown := 0; shown < len(rooms); {
		line, err := in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			cancel()
			res.Body.Close()
			return nil, fmt.Errorf("%q after %d of %d rooms: %w", user, shown, len(rooms), err)
		}
		if bytes.Equal(line, []byte("event: snapshot\n")) {
			shown++
		}
	}
	return &stay{cancel, res}, nil
}

func (s *stay) leave() {
	s.end()
	s.res.Body.Close()
}

// memory is what a node takes, once its garbage is collected.
type memory struct{ goroutines, heap float64 }

func measure(t *testing.T, n *harness.Server) memory {
	t.Helper()
	res, err := http.Get(n.Admin + "/debug/pprof/heap?gc=1")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return memory{n.Metric("go_goroutines"), n.Metric("go_memstats_heap_alloc_bytes")}
}

// calm is what a node takes once that has not become less for 3 s.
func calm(t *testing.T, n *harness.Server) (least memory) {
	t.Helper()
	var since time.Time
	harness.Eventually(t, 2*lease+soon, "memory is calm", func() bool {
		if m := measure(t, n); least.heap == 0 || m.heap < least.heap*0.99 {
			least, since = m, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	return least
}

// TestA47TenThousandRooms: 10,000 rooms with a user each come and go on two nodes.
// Afterwards there is no key in the store but those of the partitions and what
// waits for its own end, no room in any node, and no memory or goroutine held.
func TestA47TenThousandRooms(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{nodes: 2})
	transport := &http.Transport{DisableKeepAlives: true}
	const streams, many = 200, 50
	crowd := func(each int, name string) {
		t.Helper()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var stays []*stay
		slots := make(chan struct{}, 4)
		for i := range streams {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				rooms := make([]string, each)
				for k := range rooms {
					rooms[k] = fmt.Sprintf("%s/%d-%d", name, i, k)
				}
				s, err := enter(r.nodes[i%2], transport, fmt.Sprintf("%s%d", name, i), rooms)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				stays = append(stays, s)
				mu.Unlock()
			})
		}
		wg.Wait()
		if n := len(keys(r, true)); n < each { // who does not answer beats is gone again soon
			t.Errorf("%d keys while rooms have somebody, which is no test", n)
		}
		for _, s := range stays {
			s.leave()
		}
		harness.Eventually(t, 2*lease+gone+soon, "nothing is left", func() bool {
			for _, n := range r.nodes {
				for _, name := range []string{"rollcall_connections", "rollcall_watched_rooms", "rollcall_rooms"} {
					if n.Metric(name) != 0 {
						return false
					}
				}
			}
			return len(keys(r, true)) == 0
		})
	}
	// What is made once is made, and goroutines, whose records Go never frees, there
	// have been as many.
	crowd(many, "first")
	var before [2]memory
	for i, n := range r.nodes {
		before[i] = calm(t, n)
	}
	crowd(many, "hall")
	for i, n := range r.nodes {
		n, was := n, before[i]
		var now memory
		// Who was in a room is forgotten, for its audience, a minute later. What the
		// runtime keeps differs by a MiB, which is 100 B a room: whatever is kept of
		// one is more.
		harness.Eventually(t, time.Minute+4*lease+soon, "memory and goroutines are back", func() bool {
			now = measure(t, n)
			return now.goroutines <= was.goroutines*1.1+2 && now.heap <= was.heap*1.1+1<<20
		})
		t.Logf("node %d: goroutines %g before and %g after, heap %.0f and %.0f KiB", i+1, was.goroutines, now.goroutines, was.heap/1024, now.heap/1024)
	}
	for _, k := range keys(r, false) {
		if ttl := r.store.do("TTL", k).int(); ttl <= 0 && !strings.HasSuffix(k, "secret") {
			t.Errorf("key %q lives for ever", k)
		}
	}
	if n := r.store.do("PUBSUB", "NUMPAT").int(); n != 0 {
		t.Errorf("%d patterns are subscribed to", n)
	}
}
