package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/client"
	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

// node is a real server for guests.
type node struct {
	server *server.Server
	store  *store.Memory
	http   *httptest.Server
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{store: store.NewMemory(store.MemoryOptions{Settled: true})}
	var err error
	if n.server, err = server.New(server.Options{Store: n.store, Auth: auth.Guests{}}); err != nil {
		t.Fatal(err)
	}
	n.http = httptest.NewServer(n.server)
	t.Cleanup(func() {
		n.server.Close()
		n.store.Close()
		n.http.Close()
	})
	return n
}

// wires is a client's connections, to cut them.
type wires struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.mu.Lock()
		w.conns = append(w.conns, c)
		w.mu.Unlock()
	}
	return c, err
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (n *node) client(t *testing.T, user rollcall.UserID) (*client.Client, *wires) {
	t.Helper()
	w := &wires{}
	transport := &http.Transport{DialContext: w.dial}
	c, err := client.New(client.Options{URL: n.http.URL, User: user, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		transport.CloseIdleConnections()
	})
	return c, w
}

func enter(t *testing.T, c *client.Client, room rollcall.RoomID, o client.EnterOptions) *client.Room {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := c.Enter(ctx, room, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// until reads changes up to one of a kind about a user.
func until(t *testing.T, changes <-chan client.Change, kind client.Kind, user rollcall.UserID) client.Change {
	t.Helper()
	var seen []string
	timeout := time.After(20 * time.Second)
	for {
		select {
		case c, ok := <-changes:
			if !ok {
				t.Fatalf("changes are over before %v %s; seen %v", kind, user, seen)
			}
			if c.Kind == kind && (user == "" || c.Member != nil && c.Member.User == user) {
				return c
			}
			who := ""
			if c.Member != nil {
				who = string(c.Member.User)
			}
			seen = append(seen, fmt.Sprint(c.Kind, " ", who, " ", c.State))
		case <-timeout:
			t.Fatalf("no %v %s; seen %v", kind, user, seen)
		}
	}
}

func TestTwoPeopleMeet(t *testing.T) {
	n := newNode(t)
	ana, _ := n.client(t, "ana")
	bob, _ := n.client(t, "bob")
	ctx := t.Context()

	atAna := enter(t, ana, "r", client.EnterOptions{})
	changes := atAna.Changes()
	until(t, changes, client.KindSnapshot, "")
	atBob := enter(t, bob, "r", client.EnterOptions{Status: rollcall.StatusIdle, Data: json.RawMessage(`{"page":1}`)})
	if joined := until(t, changes, client.KindJoin, "bob").Member; joined.Status != rollcall.StatusIdle || string(joined.Data) != `{"page":1}` {
		t.Errorf("%+v", joined)
	}
	if atBob.Count() != 2 || atBob.Self() == nil || atBob.Member("ana") == nil {
		t.Errorf("bob sees %d, self %v", atBob.Count(), atBob.Self())
	}
	if err := atBob.Set(ctx, json.RawMessage(`{"mood":null}`)); err != nil {
		t.Fatal(err)
	}
	if m := until(t, changes, client.KindUpdate, "bob").Member; string(m.Data) != `{"mood":null,"page":1}` {
		t.Errorf("data %s", m.Data)
	}
	if err := atBob.Replace(ctx, json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	if m := until(t, changes, client.KindUpdate, "bob").Member; string(m.Data) != `{}` {
		t.Errorf("data %s", m.Data)
	}
	if err := atBob.SetStatus(ctx, rollcall.StatusActive); err != nil {
		t.Fatal(err)
	}
	if m := until(t, changes, client.KindUpdate, "bob").Member; m.Status != rollcall.StatusActive {
		t.Errorf("status %v", m.Status)
	}
	big, _ := json.Marshal(map[string]string{"text": string(make([]byte, 2000))})
	var refused *rollcall.Error
	if err := atBob.Set(ctx, big); !errors.As(err, &refused) || refused.Code != rollcall.CodeTooLarge || refused.Limit != 1024 {
		t.Errorf("too much data: %v", err)
	}

	if info, err := bob.Room(ctx, "r"); err != nil || info.Count != 2 {
		t.Errorf("room %+v, %v", info, err)
	}
	if counts, err := bob.Counts(ctx, "r", "empty"); err != nil || counts["r"] != 2 || len(counts) != 2 {
		t.Errorf("counts %v, %v", counts, err)
	}
	page, err := bob.Members(ctx, "r", "", 1)
	if err != nil || len(page.Members) != 1 || page.Members[0].User != "bob" || page.NextCursor == "" {
		t.Errorf("page %+v, %v", page, err)
	}
	if page, err = bob.Members(ctx, "r", page.NextCursor, 1); err != nil || page.Members[0].User != "ana" || page.NextCursor != "" {
		t.Errorf("page %+v, %v", page, err)
	}
	if m, err := bob.Member(ctx, "r", "ana"); err != nil || m.User != "ana" {
		t.Errorf("member %v, %v", m, err)
	}
	if _, err := bob.Member(ctx, "r", "zoe"); !errors.As(err, &refused) || refused.Code != rollcall.CodeNotFound {
		t.Errorf("absent member: %v", err)
	}
	if present, err := bob.Lookup(ctx, "r", "ana", "zoe"); err != nil || len(present) != 1 {
		t.Errorf("lookup %v, %v", present, err)
	}

	if err := atBob.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if left := until(t, changes, client.KindLeave, "bob"); left.Reason != rollcall.ReasonLeft {
		t.Errorf("left for %v", left.Reason)
	}
	enter(t, bob, "r", client.EnterOptions{}) // and again, on the same connection
	until(t, changes, client.KindJoin, "bob")
	bob.Close()
	if left := until(t, changes, client.KindLeave, "bob"); left.Reason != rollcall.ReasonLeft {
		t.Errorf("left for %v", left.Reason)
	}
}

func TestReconnectInsideTheLeaseIsSeenByNobody(t *testing.T) {
	n := newNode(t)
	ana, _ := n.client(t, "ana")
	bob, wires := n.client(t, "bob")
	atAna := enter(t, ana, "r", client.EnterOptions{Observe: true})
	changes := atAna.Changes()
	atBob := enter(t, bob, "r", client.EnterOptions{Data: json.RawMessage(`{"a":1}`)})
	until(t, changes, client.KindJoin, "bob")
	connection := bob.Connection()
	atBobChanges := atBob.Changes()
	until(t, atBobChanges, client.KindSnapshot, "")
	for i := range 3 {
		wires.cut()
		if c := until(t, atBobChanges, client.KindState, ""); c.State != client.StateReconnecting {
			t.Fatalf("%+v", c)
		}
		if err := atBob.Set(t.Context(), json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))); err != nil {
			t.Fatal(err)
		}
		if c := until(t, atBobChanges, client.KindState, ""); c.State != client.StateLive {
			t.Fatalf("%+v", c)
		}
	}
	if bob.Connection() != connection {
		t.Error("not the same connection")
	}
	enter(t, bob, "r2", client.EnterOptions{})
	if err := atBob.Set(t.Context(), json.RawMessage(`{"last":true}`)); err != nil {
		t.Fatal(err)
	}
	for last := false; !last; {
		c := <-changes
		if c.Kind != client.KindUpdate {
			t.Fatalf("ana sees %v", c.Kind)
		}
		last = string(c.Member.Data) == `{"a":1,"last":true,"n":2}`
	}
	if atAna.Count() != 1 || atAna.Members()[0].Connections != 1 {
		t.Errorf("ana sees %d members, %d connections", atAna.Count(), atAna.Members()[0].Connections)
	}
}

func TestManyRoomsOnOneConnection(t *testing.T) {
	n := newNode(t)
	c, wires := n.client(t, "ana")
	watcher, _ := n.client(t, "bob")
	const rooms = 40
	var entered [rooms]*client.Room
	var all sync.WaitGroup
	for i := range entered {
		all.Go(func() {
			r, err := c.Enter(t.Context(), rollcall.RoomID(fmt.Sprint("r", i)), client.EnterOptions{})
			if err != nil {
				t.Error(err)
			}
			entered[i] = r
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	wires.cut()
	for _, r := range entered {
		changes := r.Changes()
		until(t, changes, client.KindSnapshot, "")
		for {
			if state, _ := r.State(); state == client.StateLive {
				break
			}
			until(t, changes, client.KindState, "")
		}
	}
	info, err := watcher.Room(t.Context(), "r7")
	if err != nil || info.Count != 1 || info.Connections != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestDrainingServerIsLeftAndTheLeaseKept(t *testing.T) {
	n := newNode(t)
	c, _ := n.client(t, "ana")
	r := enter(t, c, "r", client.EnterOptions{})
	changes := r.Changes()
	if err := n.server.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if c := until(t, changes, client.KindState, ""); c.State != client.StateReconnecting {
		t.Errorf("%+v", c)
	}
	if info, err := c.Room(t.Context(), "r"); err != nil || info.Count != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	c.Close() // without a stream: releases by HTTP
	if answer, err := n.store.Read(t.Context(), rollcall.Query{Room: "r"}); err != nil || answer.Count != 0 {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestKickedClientStaysAway(t *testing.T) {
	n := newNode(t)
	c, _ := n.client(t, "ana")
	r := enter(t, c, "r", client.EnterOptions{})
	other := enter(t, c, "other", client.EnterOptions{})
	changes := r.Changes()
	if _, err := n.store.Apply(t.Context(), []rollcall.Op{{Kind: rollcall.OpEndUser, Room: "r", User: "ana", Reason: rollcall.ReasonKicked}}); err != nil {
		t.Fatal(err)
	}
	if ended := until(t, changes, client.KindEnded, ""); ended.Reason != rollcall.ReasonKicked {
		t.Errorf("%+v", ended)
	}
	if over := until(t, changes, client.KindState, ""); over.State != client.StateOver || over.Err == nil {
		t.Errorf("%+v", over)
	}
	if err := other.SetStatus(t.Context(), rollcall.StatusAway); err != nil {
		t.Errorf("the other room: %v", err)
	}
	if info, err := c.Room(t.Context(), "r"); err != nil || info.Count != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestWebSocketOpensWhereHTTP2IsSpoken(t *testing.T) {
	n := newNode(t)
	secure := httptest.NewUnstartedServer(n.server)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	c, err := client.New(client.Options{URL: secure.URL, HTTPClient: secure.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Room(t.Context(), "r"); err != nil { // a connection of HTTP/2
		t.Fatal(err)
	}
	if r := enter(t, c, "r", client.EnterOptions{}); r.Count() != 1 {
		t.Errorf("%d members", r.Count())
	}
}
