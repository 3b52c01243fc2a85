package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"rollcall"
	"rollcall/store"
)

// TestRestoredStateIsTheSameToTheByte: an encoder that escapes what it is given
// makes six bytes of one, and the next merge is too large.
func TestRestoredStateIsTheSameToTheByte(t *testing.T) {
	ctx := context.Background()
	m := store.NewMemory(store.MemoryOptions{})
	op := rollcall.Op{
		Kind: rollcall.OpGrant, Room: "a<b&c\u2028", User: "u>v", Connection: "c<1>", Status: rollcall.StatusIdle,
		Info: json.RawMessage(`{"name":"<Ana & Bo>` + "\u2028" + `"}`), Data: json.RawMessage(`{"<":1e400,"a":null}`),
	}
	if r, err := m.Apply(ctx, []rollcall.Op{op}); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	query := rollcall.Query{Want: rollcall.WantSnapshot, Room: op.Room}
	before, _ := m.Read(ctx, query)
	var saved bytes.Buffer
	if err := m.Save(&saved); err != nil {
		t.Fatal(err)
	}
	restored, err := store.RestoreMemory(store.MemoryOptions{}, &saved)
	if err != nil {
		t.Fatal(err)
	}
	after, _ := restored.Read(ctx, query)
	if len(after.Members) != 1 || after.Version != before.Version || after.Epoch != before.Epoch {
		t.Fatalf("got %+v, want %+v", after, before)
	}
	got, want := after.Members[0], before.Members[0]
	if got.User != want.User || got.Status != want.Status || got.Since != want.Since || string(got.Info) != string(want.Info) || string(got.Data) != string(want.Data) {
		t.Errorf("got %+v info %s data %s, want %+v info %s data %s", got, got.Info, got.Data, want, want.Info, want.Data)
	}
	held := restored.Restored()
	if len(held) != 1 || held[0].Lease.Connection != op.Connection || held[0].Lease.User != op.User {
		t.Fatalf("restored %+v", held)
	}
	renewals := []rollcall.Renewal{{Lease: &held[0].Lease}}
	if err := restored.Renew(ctx, renewals); err != nil || renewals[0].Outcome != rollcall.Renewed {
		t.Errorf("renewal of a restored lease: %v, outcome %d", err, renewals[0].Outcome)
	}
}
