package redis

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/store"
)

// inspectable is a store whose leases can be looked at.
type inspectable interface {
	store.Store
	store.Inspector
}

// peopled has some people in a room of the store.
func peopled(t *testing.T, s inspectable) {
	t.Helper()
	s.Feed(func(*rollcall.Frame) {})
	const room = "doc/42 \x00ü"
	results, err := s.Apply(t.Context(), []rollcall.Op{
		{Kind: rollcall.OpGrant, Room: room, User: "ana", Connection: "c1", Info: json.RawMessage(`{"name":"Ana"}`), Status: rollcall.StatusIdle, Data: json.RawMessage(`{"a":1}`)},
		{Kind: rollcall.OpGrant, Room: room, User: "ana", Connection: "c2", Status: rollcall.StatusActive, TTL: time.Minute},
		{Kind: rollcall.OpGrant, Room: room, User: "bob", Connection: "c3", Age: 10 * time.Second},
		{Kind: rollcall.OpClose, Room: room, User: "bob", Connection: "c3", Grace: 5 * time.Second},
		{Kind: rollcall.OpGrant, Room: "other", User: "eve", Connection: "c4"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// sameTimes takes what two stores need not have in common out of an inspection,
// and rounds times down to ten seconds.
func sameTimes(in *rollcall.Inspection) *rollcall.Inspection {
	c := *in
	c.Epoch, c.Version, c.SettlingMs = "", 0, c.SettlingMs/10_000
	c.Users = nil
	for _, u := range in.Users {
		u.Since, u.Joined = 0, 0
		leases := u.Leases
		u.Leases = nil
		for _, l := range leases {
			l.Generation, l.EndsInMs = 0, (l.EndsInMs+100)/1000
			u.Leases = append(u.Leases, l)
		}
		c.Users = append(c.Users, u)
	}
	return &c
}

func TestInspectTellsWhyMembersAreHere(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	shared, err := Open(t.Context(), Options{URL: "redis://" + addr, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	want := &rollcall.Inspection{Room: "doc/42 \x00ü", Mode: "full", Count: 2, Connections: 3, SettlingMs: 2, Users: []rollcall.InspectedUser{
		{User: "bob", Status: "active", Leases: []rollcall.InspectedLease{
			{Connection: "c3", State: "closing", Status: "active", LeaseMs: 30_000, EndsInMs: 5},
		}},
		{User: "ana", Info: json.RawMessage(`{"name":"Ana"}`), Status: "active", Leases: []rollcall.InspectedLease{
			{Connection: "c1", State: "live", Status: "idle", Data: json.RawMessage(`{"a":1}`), LeaseMs: 30_000, EndsInMs: 30},
			{Connection: "c2", State: "live", Status: "active", LeaseMs: 60_000, EndsInMs: 60},
		}},
	}}
	for name, s := range map[string]inspectable{"memory": memory, "redis": shared} {
		peopled(t, s)
		in, err := s.Inspect(t.Context(), want.Room, "")
		if err != nil {
			t.Fatal(name, err)
		}
		if in.Epoch == "" || in.Version == 0 || in.Users[0].Leases[0].Generation == 0 || in.Users[0].Since == 0 {
			t.Errorf("%s: something is missing: %+v", name, in)
		}
		if d := cmp.Diff(want, sameTimes(in)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		one, err := s.Inspect(t.Context(), want.Room, "ana")
		if err != nil || len(one.Users) != 1 || one.Users[0].User != "ana" || one.Count != 2 {
			t.Errorf("%s: of one user: %+v, %v", name, one, err)
		}
		none, err := s.Inspect(t.Context(), want.Room, "eve")
		if err != nil || len(none.Users) != 0 {
			t.Errorf("%s: of a user who is elsewhere: %+v, %v", name, none, err)
		}
		empty, err := s.Inspect(t.Context(), "nobody", "")
		if err != nil || empty.Count != 0 || empty.Users == nil {
			t.Errorf("%s: of an empty room: %+v, %v", name, empty, err)
		}
	}
}

// TestInspectWritesNothing: whoever looks must not keep anybody alive, nor let the
// lease clock run.
func TestInspectWritesNothing(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	s, err := Open(t.Context(), Options{URL: "redis://" + addr, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if in, err := s.Inspect(t.Context(), "r", ""); err != nil || in.Epoch != "" {
		t.Errorf("of a store that nobody has used: %+v, %v", in, err)
	}
	digest := func() string {
		t.Helper()
		var b strings.Builder
		keys, err := s.client.Do(t.Context(), s.client.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		values, err := s.client.Do(t.Context(), s.client.B().Arbitrary("DEBUG", "DIGEST").Build()).ToString()
		if err != nil {
			values = err.Error() // not allowed: then the head of the partition has to do
		}
		head, _ := s.client.Do(t.Context(), s.client.B().Hgetall().Key(s.parts[rollcall.PartitionOf("doc/42 \x00ü")].head).Build()).AsStrMap()
		raw, _ := json.Marshal(head)
		b.WriteString(strings.Join([]string{values, string(raw)}, "\n"))
		if len(keys) == 0 {
			b.WriteString("empty")
		}
		return b.String()
	}
	before := digest()
	if !strings.HasSuffix(before, "empty") {
		t.Errorf("it left something: %s", before)
	}
	peopled(t, s)
	before = digest()
	for range 3 {
		if _, err := s.Inspect(context.Background(), "doc/42 \x00ü", ""); err != nil {
			t.Fatal(err)
		}
	}
	if after := digest(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestInspectOfALargeRoomIsBounded(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	shared, err := Open(t.Context(), Options{URL: "redis://" + addr, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	const n = rollcall.MaxInspected + 500
	for name, s := range map[string]inspectable{"memory": memory, "redis": shared} {
		s.Feed(func(*rollcall.Frame) {})
		var ops []rollcall.Op
		for i := range n {
			id := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			ops = append(ops, rollcall.Op{Kind: rollcall.OpGrant, Room: "r", User: rollcall.UserID(id), Connection: rollcall.ConnectionID("c" + id)})
		}
		for len(ops) > 0 {
			k := min(len(ops), 100)
			if _, err := s.Apply(t.Context(), ops[:k]); err != nil {
				t.Fatal(name, err)
			}
			ops = ops[k:]
		}
		in, err := s.Inspect(t.Context(), "r", "")
		if err != nil {
			t.Fatal(name, err)
		}
		if in.Count != n || in.Mode != "counts" || len(in.Users) > rollcall.MaxInspected || len(in.Users) < rollcall.MaxInspected/2 {
			t.Errorf("%s: %d users of %d, mode %s", name, len(in.Users), in.Count, in.Mode)
		}
		last := rollcall.UserID(string(rune('a'+(n-1)%26)) + strings.Repeat("x", (n-1)/26))
		if one, err := s.Inspect(t.Context(), "r", last); err != nil || len(one.Users) != 1 {
			t.Errorf("%s: %q: %+v, %v", name, last, one, err)
		}
	}
}
