package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A back end calls about a connection on a node where its stream is not.
func TestABackEndReachesAConnectionOnAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", lobby, nil)
		eve := one.arrive("eve", lobby, nil)
		live(time.Second, ana, eve)
		ana.conn.take()
		path := "/connections/" + string(ana.st.c.id)
		if code, body := two.call("PATCH", "/v1/rooms/lobby"+path, testKey, `{"status":"idle","data":{"a":1}}`); code != http.StatusOK || !strings.Contains(body, `"status":"idle"`) {
			t.Errorf("PATCH: %d %s", code, body)
		}
		if code, body := two.call("PUT", "/v1/rooms/kitchen"+path, testKey, `{"user":"ana"}`); code != http.StatusOK {
			t.Errorf("PUT: %d %s", code, body)
		}
		live(time.Second, ana, eve)
		said, _ := ana.conn.take()
		if !strings.Contains(said, `"update":[{"user":"ana"`) || !strings.Contains(said, "event: snapshot\ndata: {\"room\":\"kitchen\"") {
			t.Errorf("the stream was told %q, want the update and the new room", said)
		}
		for range 2 {
			if code, body := two.call("DELETE", "/v1/rooms/lobby"+path, testKey, ""); code != http.StatusNoContent {
				t.Errorf("DELETE: %d %s", code, body)
			}
			if here := two.here("lobby"); !slices.Equal(here, []string{"eve"}) {
				t.Errorf("here: %q, want eve", here)
			}
		}
		live(time.Second, ana, eve)
		if said, _ := ana.conn.take(); strings.Count(said, `{"room":"lobby","reason":"left"}`) != 1 || strings.Contains(said, "bye") {
			t.Errorf("ana was told %q, want one end of the lobby", said)
		}
		if here := two.here("kitchen"); !slices.Equal(here, []string{"ana"}) {
			t.Errorf("in the kitchen: %q, want ana", here)
		}
	})
}

// A back end ends a lease that no node knows any more, and one that another node
// remembers from before.
func TestABackEndEndsWhatNoNodeHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		path := "/v1/rooms/lobby/connections/bot"
		for _, w := range []*world{one, two} {
			if code, body := w.call("PUT", path, testKey, `{"user":"bot","ttlMs":600000}`); code != http.StatusOK {
				t.Fatalf("PUT: %d %s", code, body)
			}
		}
		c := one.h.connections.get("bot")
		if c == nil || two.h.connections.get("bot") != nil {
			t.Fatal("the lease went to another node")
		}
		one.h.connections.remove(c) // as if that node had died
		if code, body := two.call("PATCH", path, testKey, `{"status":"idle"}`); code != http.StatusGone {
			t.Errorf("PATCH: %d %s, want 410", code, body)
		}
		began := time.Now()
		if code, body := two.call("DELETE", path, testKey, ""); code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", code, body)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v, though every node has answered", took)
		}
		if here := one.here("lobby"); len(here) != 0 {
			t.Errorf("here: %q, want nobody", here)
		}
	})
}
