package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/client"
)

// signalled waits for the next changes of signals and returns one.
func signalled(t *testing.T, changes <-chan client.Change) rollcall.Signal {
	t.Helper()
	c := until(t, changes, client.KindSignals, "")
	if len(c.Signals) != 1 {
		t.Fatalf("%d signals changed: %+v", len(c.Signals), c.Signals)
	}
	return c.Signals[0]
}

func TestSignalsAreToldAndSaidAgain(t *testing.T) {
	n := newNode(t)
	ana, wires := n.client(t, "ana")
	bob, _ := n.client(t, "bob")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	atAna := enter(t, ana, "r", client.EnterOptions{})
	atBob := enter(t, bob, "r", client.EnterOptions{})
	changes, own := atBob.Changes(), atAna.Changes()
	until(t, own, client.KindSnapshot, "")

	o := client.SignalOptions{DocVersion: json.RawMessage("482")}
	if err := atAna.Signal(ctx, rollcall.SignalSelection, json.RawMessage(`{ "line": 12 }`), o); err != nil {
		t.Fatal(err)
	}
	got := signalled(t, changes)
	if got.User != "ana" || got.Kind != "selection" || string(got.Data) != `{"line":12}` || string(got.DocVersion) != "482" || got.TTL != 0 {
		t.Errorf("bob was told %+v", got)
	}
	if live := atBob.Signals(); len(live) != 1 || len(atAna.Signals()) != 0 {
		t.Errorf("bob holds %v, ana %v", live, atAna.Signals())
	}
	// A newcomer is told; after a lost connection it is said again, and nobody
	// sees a difference.
	cleo, _ := n.client(t, "cleo")
	atCleo := enter(t, cleo, "r", client.EnterOptions{Observe: true})
	for len(atCleo.Signals()) == 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	wires.cut()
	until(t, own, client.KindState, "")
	for s, _ := atAna.State(); s != client.StateLive && ctx.Err() == nil; s, _ = atAna.State() {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(2500 * time.Millisecond) // longer than what is not said again lives
	if live := atBob.Signals(); len(live) != 1 {
		t.Errorf("after the connection was lost bob holds %v", live)
	}
	if err := atAna.Signal(ctx, rollcall.SignalSelection, nil, client.SignalOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := signalled(t, changes); got.Data != nil {
		t.Errorf("bob was told %+v", got)
	}
	// What is refused is an error, and only that.
	err := atAna.Signal(ctx, "big", json.RawMessage(`"`+strings.Repeat("x", 2000)+`"`), client.SignalOptions{})
	var refused *rollcall.Error
	if !errors.As(err, &refused) || refused.Code != rollcall.CodeTooLarge || refused.Limit != 1024 {
		t.Errorf("2000 bytes: %v", err)
	}
	if err := atCleo.Signal(ctx, "cursor", json.RawMessage("1"), client.SignalOptions{}); !errors.As(err, &refused) || refused.Code != rollcall.CodeForbidden {
		t.Errorf("an observer: %v", err)
	}
	if err := atAna.Signal(ctx, "cursor", json.RawMessage("1"), client.SignalOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := signalled(t, changes); got.Kind != "cursor" || got.TTL <= 0 {
		t.Errorf("bob was told %+v", got)
	}
	if err := atAna.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if got := signalled(t, changes); got.Data != nil || got.User != "ana" {
		t.Errorf("after ana left bob was told %+v", got)
	}
}
