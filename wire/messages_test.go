package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

type messageVector struct {
	Name     string           `json:"name"`
	Frame    string           `json:"frame"`
	FrameHex string           `json:"frameHex"`
	Messages []messageExpects `json:"messages"`
	Error    *refusal         `json:"error"`
}

// messageExpects is what a message must be read as; id and data are JSON texts.
type messageExpects struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Room    rollcall.RoomID `json:"room"`
	Status  string          `json:"status"`
	Data    string          `json:"data"`
	Replace bool            `json:"replace"`
	Observe bool            `json:"observe"`
	Tier    wire.Tier       `json:"tier"`
	Since   *sinceExpects   `json:"since"`
	Token   string          `json:"token"`
	Signal  *signalExpects  `json:"signal"`

	Users  []rollcall.UserID `json:"users"`
	Page   string            `json:"page"`
	Cursor string            `json:"cursor"`
	Limit  int               `json:"limit"`
	Error  *refusal          `json:"error"`
}

// signalExpects is a signal; data and docVersion are JSON texts, "" for null.
type signalExpects struct {
	Kind       string `json:"kind"`
	Data       string `json:"data"`
	DocVersion string `json:"docVersion"`
	TTLMs      int64  `json:"ttlMs"`
}

type sinceExpects struct {
	Epoch   rollcall.Epoch   `json:"epoch"`
	Version rollcall.Version `json:"version"`
}

func expects(m *wire.Message) messageExpects {
	e := messageExpects{
		Type: m.Type, ID: string(m.ID), Room: m.Room, Status: m.Status.String(), Data: string(m.Data),
		Replace: m.Replace, Observe: m.Observe, Tier: m.Tier, Token: m.Token, Users: m.Users,
		Page: m.Page, Cursor: m.Cursor, Limit: m.Limit,
	}
	if s := m.Signal; s != nil {
		e.Signal = &signalExpects{s.Kind, string(s.Data), string(s.DocVersion), s.TTL.Milliseconds()}
	}
	if m.Since != nil {
		e.Since = &sinceExpects{m.Since.Epoch, m.Since.Version}
	}
	return e
}

var limits = rollcall.DefaultLimits()

func TestClientMessages(t *testing.T) {
	var list []messageVector
	readVectors(t, "messages.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			raw := []byte(v.Frame)
			if v.FrameHex != "" {
				raw = fromHex(t, v.FrameHex)
			}
			got, err := wire.DecodeMessages(raw, &limits)
			clear(raw) // what was returned is not the input
			if checkRefusal(t, err, v.Error) {
				return
			}
			if len(got) != len(v.Messages) {
				t.Fatalf("got %d messages, want %d", len(got), len(v.Messages))
			}
			for i := range got {
				checkMessage(t, &got[i], v.Messages[i])
			}
		})
	}
}

func checkMessage(t *testing.T, got *wire.Message, want messageExpects) {
	t.Helper()
	if want.Error != nil {
		if got.Err == nil {
			t.Errorf("got %+v, want error %s", got, want.Error.Code)
			return
		}
		checkRefusal(t, got.Err, want.Error)
		// Who is to be answered; the rest is of no use.
		if string(got.ID) != want.ID || got.Type != want.Type && want.Type != "" {
			t.Errorf("got type %q, id %s of a bad message, want %q, %s", got.Type, got.ID, want.Type, want.ID)
		}
		return
	}
	if got.Err != nil {
		t.Errorf("got error %v", got.Err)
		return
	}
	if diff := cmp.Diff(want, expects(got)); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func FuzzDecodeMessages(f *testing.F) {
	for _, s := range []string{
		`{"type":"join","id":1,"room":"r","since":{"epoch":"e","version":1}}`,
		`[{"type":"set","id":"x","room":"r","data":{"a":[1,{}]},"status":"idle"},5,{"type":"x","id":{}}]`,
		`{"type":"set","data":{"x":NaN},"id":"late\u0061"}`, `[{}`, `[{"id":"\ud83d","type":1}]`, `{"id":"\`, `[[]]`, `{"a":}`, `{"type":"signal","room":"r","kind":"cursor","data":{"x":1},"docVersion":"v","ttlMs":5}`, `{"a"}`, `[,]`,
		`[{"type":"page","room":"r","page":"p","cursor":"x","limit":50},{"type":"closePage","room":"r","page":"p"},{"type":"contacts","room":"r","users":["a"]}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, err := wire.DecodeMessages(raw, &limits)
		if err != nil {
			return
		}
		for i := range messages {
			m := &messages[i]
			if m.ID != nil {
				checkCompact(t, m.ID)
				checkCompact(t, wire.AppendOK(nil, m.ID, []byte(`{"member":null}`)))
			}
			if m.Err != nil {
				checkCompact(t, wire.AppendError(nil, m.ID, m.Err))
				continue
			}
			if m.Room != "" && !rollcall.ValidID(string(m.Room)) {
				t.Errorf("room %q is not an id", m.Room)
			}
			written := m.Append(nil)
			checkCompact(t, written)
			again, err := wire.DecodeMessages(written, &limits)
			if err != nil || len(again) != 1 || again[0].Err != nil {
				t.Fatalf("%s: read again: %+v, %v", written, again, err)
			}
			if diff := cmp.Diff(expects(m), expects(&again[0])); diff != "" {
				t.Errorf("%s: read again (-first +again):\n%s", written, diff)
			}
			if !json.Valid(written) {
				t.Errorf("%q is not JSON", written)
			}
		}
	})
}
