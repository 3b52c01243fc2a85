//go:build faults && linux && amd64

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall"
	"rollcall/test/harness"
)

// everywhere is how long a word of the back end may take to every node.
const everywhere = time.Second

func tokens(t *testing.T, nodes int) *rig {
	return newRig(t, plan{nodes: nodes, config: harness.Config{Tokens: true}})
}

// at asks a node as the back end, or with a token.
func at(t *testing.T, n *harness.Server, method, path, token, body string) (int, string) {
	t.Helper()
	a := n.Do(harness.Call{Method: method, Path: path, Token: token, Body: body})
	if a.Err != nil {
		t.Fatalf("%s %s: %v", method, path, a.Err)
	}
	return a.Status, string(a.Body)
}

func want(t *testing.T, status int, n *harness.Server, method, path, token, body string) string {
	t.Helper()
	got, answer := at(t, n, method, path, token, body)
	if got != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

// sentAway waits until the last stream of a client has ended with a goodbye that
// asks nobody back.
func sentAway(t *testing.T, c *harness.Client, since time.Time, reason string, code int) {
	c.Until(soon, "is told "+reason, func() bool { return len(c.Ends()) > 0 })
	ends := c.Ends()
	if e := ends[len(ends)-1]; e.Bye != reason || e.Back != nil || c.Over == harness.WS && e.Code != code {
		t.Errorf("the stream ended with %+v, want bye %s and %d", e, reason, code)
	} else if took := e.At.Sub(since); took > everywhere {
		t.Errorf("that took %v, more than %v", took, everywhere)
	}
}

func TestKickReachesEveryNode(t *testing.T) {
	t.Parallel()
	r := tokens(t, 3)
	r.watch(room)
	token := r.nodes[0].Token(harness.Claims{User: "ana"})
	var streams []*harness.Client
	for i, n := range r.nodes {
		for _, over := range []harness.Transport{harness.SSE, harness.WS} {
			o := harness.Options{User: "ana", Token: token}
			if i == 2 {
				o.Rooms = []string{room, "bar"}
				n.Know("bar", "ana")
			}
			streams = append(streams, r.member(n, over, o))
		}
	}
	r.member(r.nodes[1], harness.WS, harness.Options{User: "ben", Token: r.nodes[0].Token(harness.Claims{User: "ben"})})
	r.see(soon, "ana", "ben")
	r.calm()

	member := harness.RoomPath(room, "/members/ana")
	began := time.Now()
	want(t, 204, r.nodes[1], "POST", member+"/kick", "", `{"banMs":4000}`)
	for i, c := range streams {
		if i < 4 {
			sentAway(t, c, began, "kicked", 4403)
			continue
		}
		c.Until(soon, "ended in the room", func() bool { return len(c.Events("ended")) == 1 })
		if e := c.Events("ended")[0]; !strings.Contains(string(e.Data), `"reason":"kicked"`) || len(c.Ends()) > 0 {
			t.Errorf("a stream with another room was told %s and ended %v", e.Data, c.Ends())
		}
	}
	r.see(soon, "ben")
	for _, w := range r.watchers {
		if l := w.Leaves(room, "ana"); len(l) != 1 || l[0].Reason != "kicked" {
			t.Errorf("a watcher was told %+v, want one leave, kicked", l)
		}
	}
	for _, n := range r.nodes {
		want(t, 404, n, "POST", member+"/kick", "", "")
		answer := want(t, 403, n, "POST", harness.RoomPath(room, "/connections"), token, "")
		if !strings.Contains(answer, "may come back after") {
			t.Errorf("the refusal does not tell until when: %s", answer)
		}
	}
	var lease struct{ Connection, Resume string }
	back := false
	for !back && time.Since(began) < 4*time.Second+soon {
		status, answer := at(t, r.nodes[2], "POST", harness.RoomPath(room, "/connections"), token, "")
		if back = status == 201; back {
			json.Unmarshal([]byte(answer), &lease)
		} else {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if took := time.Since(began); !back || took < 3500*time.Millisecond {
		t.Errorf("ana was let back in (%v) after %v, want after 4 s", back, took)
	}
	for _, c := range streams[:4] {
		c.Close()
	}
	r.cast = []string{"ana", "ben"}
}

// A48.
func TestDisconnectReachesEveryNodeAndOutlivesThem(t *testing.T) {
	t.Parallel()
	r := tokens(t, 3)
	r.watch(room)
	old := r.nodes[0].Token(harness.Claims{User: "ana"})
	var streams []*harness.Client
	for i, n := range r.nodes {
		o := harness.Options{User: "ana", Token: old, Observe: i == 2}
		for _, over := range []harness.Transport{harness.SSE, harness.WS} {
			streams = append(streams, r.member(n, over, o))
		}
	}
	var lease struct{ Connection, Resume string }
	json.Unmarshal([]byte(want(t, 201, r.nodes[2], "POST", harness.RoomPath(room, "/connections"), old, "")), &lease)
	ben := r.nodes[0].Token(harness.Claims{User: "ben"})
	r.member(r.nodes[1], harness.WS, harness.Options{User: "ben", Token: ben})
	r.see(soon, "ana", "ben")
	r.calm()

	began := time.Now()
	want(t, 403, r.nodes[1], "POST", "/v1/users/ana/disconnect", ben, "")
	want(t, 204, r.nodes[1], "POST", "/v1/users/ana/disconnect", "", "")
	for _, n := range r.nodes {
		want(t, 401, n, "GET", harness.RoomPath(room, ""), old, "")
		want(t, 401, n, "POST", harness.RoomPath(room, "/connections"), old, "")
		want(t, 200, n, "GET", harness.RoomPath(room, ""), ben, "")
	}
	for _, c := range streams {
		sentAway(t, c, began, "revoked", 4401)
	}
	r.see(soon, "ben")
	for _, w := range r.watchers {
		if l := w.Leaves(room, "ana"); len(l) != 1 || l[0].Reason != "revoked" {
			t.Errorf("a watcher was told %+v, want one leave, revoked", l)
		}
	}
	for _, n := range r.nodes {
		a := n.Do(harness.Call{Method: "PUT", Path: harness.ConnectionPath(room, lease.Connection), Resume: lease.Resume})
		if a.Status != 410 && a.Status != 401 {
			t.Errorf("the lease without a stream goes on: %d %s", a.Status, a.Body)
		}
	}

	// Issuers tell whole seconds, so a new token is one of the next.
	fresh := r.nodes[0].Token(harness.Claims{User: "ana", IssuedAt: time.Now().Add(time.Second)})
	for _, n := range r.nodes {
		want(t, 200, n, "GET", harness.RoomPath(room, ""), fresh, "")
	}
	r.nodes[0].Signal(syscall.SIGKILL)
	r.nodes[0].Exited(soon)
	started := r.node(r.store.url())
	want(t, 401, started, "GET", harness.RoomPath(room, ""), old, "")
	want(t, 200, started, "GET", harness.RoomPath(room, ""), fresh, "")
	for _, c := range streams {
		c.Close()
	}
	again := r.member(started, harness.WS, harness.Options{User: "ana", Token: fresh})
	for _, w := range r.watchers[2:] {
		w.Until(soon, "ana again", func() bool { return w.Has(room, "ana") })
	}
	again.Leave(room)
	for _, w := range r.watchers[:2] {
		w.Close()
	}
	r.watchers = r.watchers[2:]
	r.cast = []string{"ben"}
}

// A17: the status of who died is judged by the server, by time alone, and who
// watches is told. The second time the node dies along.
func TestWhoDiedIsOfflineOnEveryNode(t *testing.T) {
	t.Parallel()
	r := tokens(t, 3)
	watcher := r.nodes[2].Token(harness.Claims{User: "ben"})
	ben := r.member(r.nodes[2], harness.WS, harness.Options{User: "ben", Token: watcher, Rooms: []string{"bar"}})
	users := []string{"ana", "carl"}
	if a := ben.Ask(`{"type":"users","users":["ana","carl"]}`); !a.OK || !strings.Contains(string(a.Raw), `"present":[]`) {
		t.Fatalf("watch: %s", a.Raw)
	}
	told := func(user, status string, within time.Duration) {
		t.Helper()
		ben.Until(within, fmt.Sprintf("told that %s is %s", user, status), func() bool {
			last := "absent"
			for _, e := range ben.Events("users") {
				var c struct {
					Present []struct{ User, Status string }
					Absent  []string
				}
				json.Unmarshal(e.Data, &c)
				for _, u := range c.Present {
					if u.User == user {
						last = u.Status
					}
				}
				for _, u := range c.Absent {
					if u == user {
						last = "absent"
					}
				}
			}
			return last == status
		})
	}
	clients := make(map[string]*harness.Client)
	for i, user := range users {
		clients[user] = r.member(r.nodes[i], harness.WS, harness.Options{
			User: user, Token: r.nodes[0].Token(harness.Claims{User: rollcall.UserID(user)}), Rooms: []string{"x" + user}, Status: "idle",
		})
	}
	for _, user := range users {
		told(user, "idle", 2*time.Second)
	}
	for _, n := range r.nodes {
		ben.Until(soon, "reads that both are idle", func() bool {
			_, answer := at(t, n, "POST", "/v1/users/lookup", "", `{"users":["ana","carl","zoe"]}`)
			return strings.Count(answer, `"status":"idle","lastSeen":`) == 2 && strings.Contains(answer, `{"user":"zoe","status":null}`)
		})
	}
	// Longer than what is not repeated is believed.
	ben.Never(2*lease+2*time.Second, "told that somebody who lives is gone", func() bool {
		for _, e := range ben.Events("users") {
			if !strings.Contains(string(e.Data), `"absent":[]`) {
				return true
			}
		}
		return false
	})

	clients["ana"].Freeze()
	clients["carl"].Freeze()
	died := time.Now()
	r.nodes[1].Signal(syscall.SIGKILL)
	r.nodes[1].Exited(soon)
	told("ana", "absent", gone)
	told("carl", "absent", gone)
	t.Logf("both were known to be gone after %v", time.Since(died))
	for _, n := range []*harness.Server{r.nodes[0], r.nodes[2]} {
		for _, user := range users {
			var u struct {
				Status   *string
				Rooms    []string
				LastSeen int64
			}
			answer := want(t, 200, n, "GET", "/v1/users/"+user, "", "")
			json.Unmarshal([]byte(answer), &u)
			if off := died.Sub(time.UnixMilli(u.LastSeen)).Abs(); u.Status != nil || len(u.Rooms) > 0 || u.LastSeen == 0 || off > 2*lease {
				t.Errorf("%s: %s, which is %v off", user, answer, off)
			}
		}
	}
	for _, c := range clients {
		c.Thaw()
		c.Kill()
	}
}

// A49.
func TestHiddenUserIsNowhereOnAnyNode(t *testing.T) {
	t.Parallel()
	r := tokens(t, 2)
	r.watch(room)
	benToken := r.nodes[0].Token(harness.Claims{User: "ben"})
	ben := r.member(r.nodes[0], harness.WS, harness.Options{User: "ben", Token: benToken, Status: "idle"})
	r.see(soon, "ben")
	if a := ben.Ask(`{"type":"users","users":["ana"]}`); !a.OK {
		t.Fatalf("watch: %s", a.Raw)
	}
	r.calm()
	look := func(n *harness.Server) (all string) {
		for _, path := range []string{"/v1/users/ana", harness.RoomPath(room, ""), harness.RoomPath(room, "/members?connections=1")} {
			all += want(t, 200, n, "GET", path, benToken, "") + "\n"
		}
		all += want(t, 200, n, "POST", "/v1/users/lookup", "", `{"users":["ana"]}`) + "\n"
		return all + want(t, 200, n, "POST", harness.RoomPath(room, "/members/lookup"), benToken, `{"users":["ana"]}`)
	}
	without := look(r.nodes[1])
	hidden := r.nodes[0].Token(harness.Claims{User: "ana", Hidden: true})
	var streams []*harness.Client
	for i, n := range r.nodes {
		streams = append(streams, r.nodes[i].Open(t, harness.WS, harness.Options{Rooms: []string{room}, User: "ana", Hidden: true, Token: hidden}))
		want(t, 201, n, "POST", harness.RoomPath(room, "/connections"), hidden, `{"status":"active"}`)
	}
	ben.Never(lease+time.Second, "told of the hidden user", func() bool {
		return len(ben.Events("users", "diff")) > 0 || look(r.nodes[0]) != without || look(r.nodes[1]) != without
	})
	for _, c := range streams {
		c.Close()
	}
	ben.Never(2*time.Second, "told that the hidden user went", func() bool {
		return len(ben.Events("users", "diff")) > 0 || look(r.nodes[1]) != without
	})
	r.unmoved()
}
