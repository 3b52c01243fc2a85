package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

type backendVector struct {
	Name  string     `json:"name"`
	Event wire.Event `json:"event"`
	Body  string     `json:"body"`
	SSE   string     `json:"sse"`
}

// appendHappening writes an event of the feed for back ends.
func appendHappening(h *wire.Happening) []byte {
	ch := &rollcall.Change{Room: h.Room, Version: h.Version, Count: h.Count}
	switch h.Event {
	case wire.EventReset:
		return wire.AppendReset(nil, h.Reset, h.Now)
	case wire.EventJoin:
		m := h.Member
		if m == nil {
			m = &rollcall.Member{User: h.User}
		}
		return wire.AppendJoin(nil, h.Epoch, ch, m, h.Member != nil)
	case wire.EventLeave:
		return wire.AppendLeave(nil, h.Epoch, ch, rollcall.Leave{User: h.User, Reason: h.Reason})
	case wire.EventBye:
		return wire.AppendBye(nil, h.Bye.Reason, h.Bye.Reconnect)
	}
	return wire.AppendOccupancy(nil, h.Room, h.Epoch, h.Version)
}

func TestEventsForBackEndsAreTheseBytes(t *testing.T) {
	var list []backendVector
	readVectors(t, "backend.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			h, err := wire.DecodeHappening(v.Event, []byte(v.Body))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(appendHappening(h)); got != v.Body {
				t.Errorf("read and written:\n got %s\nwant %s", got, v.Body)
			}
			if got := string(wire.AppendSSE(nil, v.Event, []byte(v.Body))); got != v.SSE {
				t.Errorf("as SSE:\n got %q\nwant %q", got, v.SSE)
			}
		})
	}
}

func TestEventsForBackEndsSayWhatTheyMean(t *testing.T) {
	got, err := wire.DecodeHappening(wire.EventJoin, []byte(`{"user":"ana","new":1,"count":3,"version":2,"epoch":"e","room":"r","member":{"user":"ana","status":"idle"}}`))
	want := &wire.Happening{
		Event: wire.EventJoin, Room: "r", Epoch: "e", Version: 2, Count: 3, User: "ana",
		Member: &rollcall.Member{User: "ana", Status: rollcall.StatusIdle, Connections: 1},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("join: %v (-want +got):\n%s", err, d)
	}
	if h, err := wire.DecodeHappening("later", []byte(`{}`)); h != nil || err != nil {
		t.Errorf("an event of a later release: %v, %v", h, err)
	}
	for event, raw := range map[wire.Event]string{
		wire.EventJoin: `{"room":"r","epoch":"e","version":2,"count":3}`, wire.EventLeave: `{"room":"r","version":2,"count":3,"user":"u"}`,
		wire.EventOccupied: `{"room":"..","epoch":"e","version":2}`, wire.EventVacated: `[]`, wire.EventBye: `7`,
	} {
		if h, err := wire.DecodeHappening(event, []byte(raw)); err == nil {
			t.Errorf("%s %s: read as %+v", event, raw, h)
		}
	}
}

func FuzzDecodeHappening(f *testing.F) {
	for _, e := range []wire.Event{wire.EventReset, wire.EventJoin, wire.EventLeave, wire.EventOccupied, wire.EventBye} {
		f.Add(string(e), `{"room":"r","epoch":"e","version":2,"count":3,"user":"u","reason":"left"}`)
	}
	f.Fuzz(func(t *testing.T, event, raw string) {
		h, err := wire.DecodeHappening(wire.Event(event), []byte(raw))
		if h == nil || err != nil || h.Event == wire.EventBye {
			return
		}
		if again := appendHappening(h); !json.Valid(again) {
			t.Errorf("%s %s is written as %s", event, raw, again)
		}
	})
}
