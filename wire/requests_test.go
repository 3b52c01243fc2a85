package wire_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

// readers of bodies, by name, with what they make of a body as one value.
var bodyReaders = map[string]func(raw []byte) (any, error){
	"beat":    func(raw []byte) (any, error) { return wire.DecodeBeat(raw) },
	"release": func(raw []byte) (any, error) { return wire.DecodeRelease(raw) },
	"token":   func(raw []byte) (any, error) { return wire.DecodeToken(raw) },
	"lease":   func(raw []byte) (any, error) { return wire.DecodeLease(raw, &limits) },
	"patch":   func(raw []byte) (any, error) { return wire.DecodePatch(raw, &limits) },
	"kick":    func(raw []byte) (any, error) { return wire.DecodeKick(raw) },
	"watch":   func(raw []byte) (any, error) { return wire.DecodeWatch(raw, 3) },

	"page":       func(raw []byte) (any, error) { return wire.DecodePage(raw) },
	"contacts":   func(raw []byte) (any, error) { return wire.DecodeContacts(raw) },
	"disconnect": func(raw []byte) (any, error) { return wire.DecodeDisconnect(raw) },

	"signals": func(raw []byte) (any, error) { return wire.DecodeSignals(raw, &limits) },

	"users": func(raw []byte) (any, error) { return wire.DecodeUsers(raw, 3) },
	"rooms": func(raw []byte) (any, error) { return wire.DecodeRooms(raw, 3) },
}

func TestRequestBodies(t *testing.T) {
	data := json.RawMessage(`{"a":1}`)
	for _, c := range []struct {
		reader, raw string
		want        any
	}{
		{"beat", ``, wire.Beat{}},
		{"beat", ` `, wire.Beat{}},
		{"beat", `{}`, wire.Beat{}},
		{"beat", `{"n":3,"resume":"r"}`, wire.Beat{N: 3, Resume: "r"}},
		{"beat", `{"N":3,"Resume":"r","resumé":5}`, wire.Beat{}},
		{"release", ``, wire.Release{}},
		{"release", `{"closing":true,"resume":"r"}`, wire.Release{Closing: true, Resume: "r"}},
		{"token", `{"token":"t","resume":"r"}`, wire.Token{Token: "t", Resume: "r"}},
		{"lease", ``, wire.LeaseRequest{}},
		{"lease", `{"ttlMs":0}`, wire.LeaseRequest{HasTTL: true}},
		{"lease", `{"ttlMs":9007199254740991}`, wire.LeaseRequest{HasTTL: true, TTL: math.MaxInt64 / time.Millisecond * time.Millisecond}},
		{
			"lease", `{"status":"idle","data":{ "a": 1 },"ttlMs":60000,"user":"u","info":{"a":1},"resume":"r","connection":"c"}`,
			wire.LeaseRequest{Status: rollcall.StatusIdle, Data: data, HasTTL: true, TTL: time.Minute, User: "u", Info: data, Resume: "r", Connection: "c"},
		},
		{"patch", `{}`, wire.Patch{}},
		{"patch", `{"status":"away","data":{"a":1},"replace":true,"resume":"r"}`, wire.Patch{Status: rollcall.StatusAway, Data: data, Replace: true, Resume: "r"}},
		{"kick", ``, time.Minute},
		{"kick", `{"banMs":0}`, time.Duration(0)},
		{"kick", `{"banMs":5000}`, 5 * time.Second},
		{"watch", `{"users":["b","a","b"],"resume":"r"}`, wire.Watch{Users: []rollcall.UserID{"b", "a"}, Resume: "r"}},
		{"watch", `{"users":[]}`, wire.Watch{Users: []rollcall.UserID{}}},
		{"page", ``, wire.PageRequest{}},
		{"page", `{"cursor":"x","limit":50,"resume":"r"}`, wire.PageRequest{Cursor: "x", Limit: 50, Resume: "r"}},
		{"page", `{"limit":9007199254740991}`, wire.PageRequest{Limit: 1 << 30}},
		{"contacts", `{"users":["b","a","b"],"resume":"r"}`, wire.Watch{Users: []rollcall.UserID{"b", "a"}, Resume: "r"}},
		{"disconnect", ``, ""},
		{"disconnect", `{"session":"s1"}`, "s1"},
		{
			"signals", `{"kind":"cursor","data":{ "x": 1 },"docVersion":482,"ttlMs":0,"resume":"r"}`,
			wire.SignalsRequest{Resume: "r", Signals: []rollcall.Signal{{Kind: "cursor", Data: json.RawMessage(`{"x":1}`), DocVersion: json.RawMessage("482"), TTL: time.Millisecond}}},
		},
		{
			"signals", `[{"kind":"typing","data":null}, {"kind":"a","data":true,"ttlMs":5000}]`,
			wire.SignalsRequest{Signals: []rollcall.Signal{{Kind: "typing"}, {Kind: "a", Data: json.RawMessage("true"), TTL: 5 * time.Second}}},
		},
		{"signals", `[]`, wire.SignalsRequest{}},
		{"users", `{"users":[]}`, []rollcall.UserID{}},
		{"users", `{"users":["b","a","b"]}`, []rollcall.UserID{"b", "a"}},
		{"users", `{"users":["a|b","__proto__","\u0061"]}`, []rollcall.UserID{"a|b", "__proto__", "a"}},
		{"rooms", `{"rooms":["doc/42"]}`, []rollcall.RoomID{"doc/42"}},
	} {
		got, err := bodyReaders[c.reader]([]byte(c.raw))
		if err != nil {
			t.Errorf("%s %s: %v", c.reader, c.raw, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.reader, c.raw, diff)
		}
	}
}

func TestRequestBodiesThatAreRefusedNameTheField(t *testing.T) {
	bad := refusal{Code: rollcall.CodeBadRequest}
	large := func(limit int) refusal { return refusal{rollcall.CodeTooLarge, limit} }
	deep := strings.Repeat(`{"a":`, 32) + `{}` + strings.Repeat(`}`, 32)
	for _, c := range []struct {
		reader, raw, names string
		want               refusal
	}{
		{"beat", `[]`, "body", bad},
		{"beat", `{"n":1`, "body", bad},
		{"beat", `{"n":1}{}`, "body", bad},
		{"beat", `{"n":NaN}`, "body", bad},
		{"beat", `{"n":1,"n":2}`, "body", bad},
		{"beat", `{"n":"1"}`, "n ", bad},
		{"beat", `{"n":-1}`, "n ", bad},
		{"beat", `{"n":1.5}`, "n ", bad},
		{"beat", `{"n":1e3}`, "n ", bad},
		{"beat", `{"n":9007199254740992}`, "n ", bad},
		{"beat", `{"resume":5}`, "resume", bad},
		{"release", `{"closing":"true"}`, "closing", bad},
		{"watch", `{}`, "users", bad},
		{"watch", `{"users":["a","b","c","d"]}`, "users", large(3)},
		{"watch", `{"users":["."]}`, "users", bad},
		{"page", `{"limit":0}`, "limit", bad},
		{"page", `{"limit":"50"}`, "limit", bad},
		{"page", `{"cursor":null}`, "cursor", bad},
		{"contacts", `{}`, "users", bad},
		{"contacts", `{"users":[""]}`, "users", bad},
		{"disconnect", `{"session":5}`, "session", bad},
		{"disconnect", `{"session":""}`, "session", refusal{rollcall.CodeBadRequest, 256}},
		{"disconnect", `{"session":null}`, "session", bad},
		{"release", `{"closing":null}`, "closing", bad},
		{"token", ``, "token", bad},
		{"token", `{"token":""}`, "token", bad},
		{"token", `{"token":null}`, "token", bad},
		{"lease", `{"status":"offline"}`, "status", bad},
		{"lease", `{"data":null}`, "data", bad},
		{"lease", `{"data":[]}`, "data", bad},
		{"lease", `{"data":{"a":"` + strings.Repeat("x", 1017) + `"}}`, "data", large(1024)},
		{"lease", `{"info":{"a":"` + strings.Repeat("x", 2041) + `"}}`, "info", large(2048)},
		{"lease", `{"data":` + deep + `}`, "body", large(32)},
		{"lease", `{"unknown":` + deep + `}`, "body", large(32)},
		{"lease", `{"ttlMs":"5s"}`, "ttlMs", bad},
		{"lease", `{"ttlMs":-1}`, "ttlMs", bad},
		{"lease", `{"user":""}`, "user", bad},
		{"lease", `{"user":".."}`, "user", bad},
		{"lease", `{"connection":5}`, "connection", bad},
		{"patch", `{"replace":1}`, "replace", bad},
		{"kick", `{"banMs":null}`, "banMs", bad},
		{"signals", ``, "kind", bad},
		{"signals", `5`, "body", bad},
		{"signals", `[5]`, "body", bad},
		{"signals", `[{"kind":"a","data":1},{"kind":"b"}]`, "data", bad},
		{"signals", `{"kind":"a","data":"` + strings.Repeat("x", 1023) + `"}`, "data", large(1024)},
		{"signals", `[` + strings.Repeat(`{"kind":"a","data":1},`, 256) + `{"kind":"a","data":1}]`, "body", large(256)},
		{"users", `{}`, "users", bad},
		{"users", ``, "users", bad},
		{"users", `{"users":"a"}`, "users", bad},
		{"users", `{"users":["a",5]}`, "users", bad},
		{"users", `{"users":["a",""]}`, "users", bad},
		{"users", `{"users":["a","a","a","a"]}`, "users", large(3)},
		{"rooms", `{"rooms":[".."]}`, "rooms", bad},
		{"rooms", `{"rooms":["` + strings.Repeat("x", 257) + `"]}`, "rooms", bad},
	} {
		_, err := bodyReaders[c.reader]([]byte(c.raw))
		checkRefusal(t, err, &c.want)
		if err != nil && !strings.Contains(err.Error()+" ", c.names) {
			t.Errorf("%s %.80s: %v does not name %s", c.reader, c.raw, err, c.names)
		}
	}
}

func TestClientsBodiesAreReadAsWritten(t *testing.T) {
	beat := wire.Beat{N: 3, Resume: "r\n"}
	release := wire.Release{Closing: true, Resume: "r"}
	token := wire.Token{Token: "t"}
	lease := wire.LeaseRequest{Status: rollcall.StatusIdle, Data: json.RawMessage(`{"a":1}`), HasTTL: true, TTL: time.Minute, User: "u|v", Info: json.RawMessage(`{}`), Connection: "c", Resume: "r"}
	signal := rollcall.Signal{Kind: "a\n", Data: json.RawMessage("[1]"), DocVersion: json.RawMessage(`"v"`), TTL: time.Minute}
	page := wire.PageRequest{Cursor: "x", Limit: 5, Resume: "r"}
	patch := wire.Patch{Data: json.RawMessage(`{}`), Replace: true}
	for _, c := range []struct {
		reader string
		raw    []byte
		want   any
	}{
		{"beat", beat.Append(nil), beat},
		{"beat", (&wire.Beat{}).Append(nil), wire.Beat{}},
		{"release", release.Append(nil), release},
		{"release", (&wire.Release{}).Append(nil), wire.Release{}},
		{"token", token.Append(nil), token},
		{"lease", lease.Append(nil), lease},
		{"lease", (&wire.LeaseRequest{}).Append(nil), wire.LeaseRequest{}},
		{"patch", patch.Append(nil), patch},
		{"page", page.Append(nil), page},
		{"page", (&wire.PageRequest{}).Append(nil), wire.PageRequest{}},
		{"kick", wire.AppendKick(nil, time.Hour), time.Hour},
		{"signals", wire.AppendSignal(nil, &signal), wire.SignalsRequest{Signals: []rollcall.Signal{signal}}},
		{"signals", wire.AppendSignal(nil, &rollcall.Signal{Kind: "a"}), wire.SignalsRequest{Signals: []rollcall.Signal{{Kind: "a"}}}},
		{"users", wire.AppendUsers(nil, []rollcall.UserID{"a", "b"}), []rollcall.UserID{"a", "b"}},
		{"rooms", wire.AppendRooms(nil, []rollcall.RoomID{"a"}), []rollcall.RoomID{"a"}},
	} {
		checkCompact(t, c.raw)
		got, err := bodyReaders[c.reader](c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.raw, diff)
		}
	}
}

func TestSince(t *testing.T) {
	for s, want := range map[string]wire.Since{
		"e1.17": {Epoch: "e1", Version: 17}, "e.1.0": {Epoch: "e.1", Version: 0}, "e.9007199254740991": {Epoch: "e", Version: 1<<53 - 1},
	} {
		got, err := wire.ParseSince(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%q: got %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "e1", ".1", "e1.", "e1.x", "e1.-1", "e1.9007199254740992", "e1.1.5x"} {
		_, err := wire.ParseSince(s)
		checkRefusal(t, err, &refusal{Code: rollcall.CodeBadRequest})
	}
}

func FuzzDecodeBodies(f *testing.F) {
	for _, s := range []string{
		`{"n":1,"resume":"r"}`, `{"closing":true}`, `{"token":"t"}`, `{"status":"idle","data":{},"ttlMs":1,"user":"u","info":{},"connection":"c"}`,
		`{"users":["a","b"]}`, `{"rooms":["a"]}`, `[{"kind":"a","data":[1]}]`, `{"kind":"a","data":null}`, `{"banMs":1}`, `{"cursor":"x","limit":1}`, ``, `[`, `{"users":[`, `{"data":{"a":"\ud83d"}}`, `{"replace":tru}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range bodyReaders {
			v, err := read(raw)
			if err != nil {
				continue
			}
			switch v := v.(type) {
			case wire.LeaseRequest:
				checkCompact(t, v.Append(nil))
			case wire.Patch:
				checkCompact(t, v.Append(nil))
			case wire.PageRequest:
				checkCompact(t, v.Append(nil))
			case wire.Beat:
				checkCompact(t, v.Append(nil))
			}
		}
		if s, err := wire.ParseSince(string(raw)); err == nil && s.Epoch == "" {
			t.Errorf("%q has no epoch", raw)
		}
		if d, err := wire.DecodeData(string(raw), limits.Data); err == nil && d != nil {
			checkCompact(t, d)
		}
		if d, err := wire.DecodeInfo(raw, limits.Info); err == nil && d != nil {
			checkCompact(t, d)
		}
	})
}
