package client_test

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/client"
	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

// TestBackEndKicksAndDisconnects runs the calls of a back end against a server.
func TestBackEndKicksAndDisconnects(t *testing.T) {
	keys, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: "sk_0123456789abcdefghijklmnop"})
	if err != nil {
		t.Fatal(err)
	}
	memory := store.NewMemory(store.MemoryOptions{Settled: true})
	presence, err := server.New(server.Options{Store: memory, Auth: auth.Chain(keys, auth.Guests{}), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(presence)
	t.Cleanup(func() {
		presence.Close()
		memory.Close()
		http.Close()
	})
	c, err := client.New(client.Options{URL: http.URL, APIKey: "sk_0123456789abcdefghijklmnop"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	grant := func(room rollcall.RoomID) *rollcall.Error {
		r, err := memory.Apply(ctx, []rollcall.Op{{Kind: rollcall.OpGrant, Room: room, User: "a/b", Connection: "c", Status: rollcall.StatusIdle}})
		if err != nil {
			t.Fatal(err)
		}
		return r[0].Err
	}
	codeOf := func(err error) rollcall.Code {
		var e *rollcall.Error
		errors.As(err, &e)
		if e == nil {
			return ""
		}
		return e.Code
	}
	grant("lobby")
	grant("doc/42")
	u, err := c.LookupUser(ctx, "a/b")
	if err != nil || u.Status != rollcall.StatusIdle || !cmp.Equal(u.Rooms, []rollcall.RoomID{"doc/42", "lobby"}) || u.LastSeen == 0 {
		t.Errorf("user %+v, %v", u, err)
	}
	if err := c.Kick(ctx, "doc/42", "a/b", time.Minute); err != nil {
		t.Errorf("kick: %v", err)
	}
	if err := c.Kick(ctx, "doc/42", "a/b", 0); codeOf(err) != rollcall.CodeNotFound {
		t.Errorf("kick again: %v, want not found", err)
	}
	if e := grant("doc/42"); e == nil || e.Code != rollcall.CodeForbidden {
		t.Errorf("back after the kick: %v, want forbidden", e)
	}
	if err := c.Disconnect(ctx, "a/b", ""); err != nil {
		t.Errorf("disconnect: %v", err)
	}
	statuses, err := c.LookupUsers(ctx, "zoe", "a/b")
	if err != nil || len(statuses) != 2 || statuses[0] != (client.UserStatus{User: "zoe"}) || statuses[1].Status != rollcall.StatusUnset || statuses[1].LastSeen == 0 {
		t.Errorf("look-up %+v, %v", statuses, err)
	}
	for _, err := range []error{c.Kick(ctx, "r", "..", 0), c.Kick(ctx, "", "u", 0), c.Disconnect(ctx, "", "")} {
		if codeOf(err) != rollcall.CodeBadRequest {
			t.Errorf("an id that is none: %v, want bad request", err)
		}
	}
}
