package store_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/store"
)

func userOf(t *testing.T, m *store.Memory, user rollcall.UserID) rollcall.Whereabouts {
	t.Helper()
	a, err := m.Users(context.Background(), []rollcall.UserID{user})
	if err != nil {
		t.Fatal(err)
	}
	return a.Users[0]
}

func visit(t *testing.T, m *store.Memory, user rollcall.UserID) {
	t.Helper()
	grant := rollcall.Op{Kind: rollcall.OpGrant, Room: "r", User: user, Connection: "c"}
	end := grant
	end.Kind, end.Reason = rollcall.OpEnd, rollcall.ReasonLeft
	for _, r := range must(m.Apply(context.Background(), []rollcall.Op{grant, end})) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestLastSeenIsKeptForThirtyDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := store.NewMemory(store.MemoryOptions{})
		visit(t, m, "ana")
		time.Sleep(rollcall.SeenKept - time.Minute)
		if userOf(t, m, "ana").Seen == 0 {
			t.Error("forgotten before 30 days")
		}
		time.Sleep(2 * time.Minute)
		if w := userOf(t, m, "ana"); w.Seen != 0 {
			t.Errorf("after 30 days: seen %d, want forgotten", w.Seen)
		}
	})
}

// TestOldestDeparturesAreForgottenFirst: memory is bounded, however many come once
// and never again, and whoever is here is never forgotten.
func TestOldestDeparturesAreForgottenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := rollcall.DefaultLimits()
		limits.SeenUsers = 2 * rollcall.Partitions
		m := store.NewMemory(store.MemoryOptions{Limits: limits})
		must(m.Apply(context.Background(), []rollcall.Op{{Kind: rollcall.OpGrant, Room: "r", User: "here", Connection: "c"}}))
		const n = 2000
		for i := range n {
			visit(t, m, rollcall.UserID(fmt.Sprint("u", i)))
			visit(t, m, "again") // who comes and goes takes one place
			time.Sleep(time.Millisecond)
		}
		known := 0
		for i := range n {
			if userOf(t, m, rollcall.UserID(fmt.Sprint("u", i))).Seen != 0 {
				known++
			}
		}
		if known > limits.SeenUsers || known < limits.SeenUsers/2 {
			t.Errorf("%d users are known, want at most %d", known, limits.SeenUsers)
		}
		if userOf(t, m, "again").Seen == 0 || userOf(t, m, rollcall.UserID(fmt.Sprint("u", n-1))).Seen == 0 {
			t.Error("the newest are forgotten")
		}
		if userOf(t, m, "here").Status != rollcall.StatusActive {
			t.Error("who is here is forgotten")
		}
	})
}

// TestRestoredMemoryKeepsBansAndRevocations: a restart lets nobody back in.
func TestRestoredMemoryKeepsBansAndRevocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		m := store.NewMemory(store.MemoryOptions{})
		grant := rollcall.Op{Kind: rollcall.OpGrant, Room: "r", User: "ana", Connection: "c"}
		kick := rollcall.Op{Kind: rollcall.OpEndUser, Room: "r", User: "ana", Reason: rollcall.ReasonKicked, Ban: time.Minute}
		must(m.Apply(ctx, []rollcall.Op{grant, kick, {Kind: rollcall.OpGrant, Room: "r", User: "bo", Connection: "d", Status: rollcall.StatusIdle}}))
		issued := time.Now()
		if err := m.Revoke(ctx, rollcall.Revocation{User: "ana", Session: "phone"}); err != nil {
			t.Fatal(err)
		}
		seen := userOf(t, m, "ana").Seen
		var saved bytes.Buffer
		if err := m.Save(&saved); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		m = must(store.RestoreMemory(store.MemoryOptions{}, &saved))
		if r := must(m.Apply(ctx, []rollcall.Op{grant}))[0]; r.Err == nil || r.Err.Code != rollcall.CodeForbidden {
			t.Errorf("the ban is forgotten: %+v", r)
		}
		if r := must(m.Revoked(ctx, []rollcall.UserID{"ana"}))[0]; !r.Refuses(issued, "phone") || r.Refuses(issued, "") {
			t.Errorf("the revocation is not as it was: %+v", r)
		}
		if w := userOf(t, m, "ana"); w.Seen != seen || w.Status != rollcall.StatusUnset {
			t.Errorf("ana: %+v, want seen %d", w, seen)
		}
		if w := userOf(t, m, "bo"); w.Status != rollcall.StatusIdle || len(w.Rooms) != 1 {
			t.Errorf("bo: %+v, want idle in the room", w)
		}
		for range 61 {
			time.Sleep(time.Second)
			m.Tick(ctx)
		}
		if r := must(m.Apply(ctx, []rollcall.Op{grant}))[0]; r.Err != nil {
			t.Errorf("after the ban: %v", r.Err)
		}
		// Kept for the longest life of a token, on the lease clock.
		for range int(24 * time.Hour / (2 * time.Second)) {
			time.Sleep(2 * time.Second)
			m.Tick(ctx)
		}
		if r := must(m.Revoked(ctx, []rollcall.UserID{"ana"}))[0]; r.Refuses(issued, "phone") {
			t.Error("the revocation is kept for ever")
		}
	})
}
