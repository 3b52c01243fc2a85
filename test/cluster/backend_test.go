//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"rollcall/test/harness"
)

// happening is one event for back ends.
type happening struct {
	Name    string
	Room    string
	User    string
	Version int64
}

// backend reads the events of a node for back ends.
type backend struct {
	mu  sync.Mutex
	all []happening // Guarded by mu.
}

func readEvents(t *testing.T, n *harness.Server) *backend {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+harness.APIKey)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("events: %v, %+v", err, res)
	}
	b := &backend{}
	ended := make(chan struct{}) // closed when the reader has
	go func() {
		defer close(ended)
		lines, name := bufio.NewScanner(res.Body), ""
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				h := happening{Name: name}
				json.Unmarshal([]byte(text), &h)
				b.mu.Lock()
				b.all = append(b.all, h)
				b.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		res.Body.Close()
	})
	harness.Eventually(t, soon, "the stream of events begins", func() bool { return len(b.of("reset")) == 1 })
	return b
}

// of are the events of a name so far.
func (b *backend) of(name string) (all []happening) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.all {
		if h.Name == name {
			all = append(all, h)
		}
	}
	return all
}
