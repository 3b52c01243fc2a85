package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall"
)

var allCapabilities = []Capability{Count, Read, Presence, Contacts, Signal, Admin}

// allowed is the words of what g allows in a room.
func allowed(g Grants, room rollcall.RoomID) string {
	var words []string
	for _, c := range allCapabilities {
		if g.Allows(room, c) {
			words = append(words, c.String())
		}
	}
	return strings.Join(words, " ")
}

func TestRoomsClaimAllowsWhatItSays(t *testing.T) {
	const presence = "count read presence"
	for _, tt := range []struct {
		rule, claim string
		want        map[rollcall.RoomID]string
	}{
		{"absent is no room", ``, map[rollcall.RoomID]string{"a": "", "*": ""}},
		{"null is no room", `null`, map[rollcall.RoomID]string{"a": ""}},
		{"an empty list is no room", `[]`, map[rollcall.RoomID]string{"a": ""}},
		{"an empty object is no room", `{}`, map[rollcall.RoomID]string{"a": ""}},
		{"a list means presence and what it includes, no more", `["a"]`, map[rollcall.RoomID]string{"a": presence, "A": "", "a ": "", "b": "", "aa": ""}},
		{"a trailing star is a beginning", `["doc:*"]`, map[rollcall.RoomID]string{"doc:1": presence, "doc:": presence, "doc:*": presence, "doc": "", "xdoc:1": ""}},
		{"a star alone is every room", `["*"]`, map[rollcall.RoomID]string{"a": presence, "*": presence, "\\*": presence}},
		{"a star in the middle is a star", `["a*b"]`, map[rollcall.RoomID]string{"a*b": presence, "aXb": "", "ab": ""}},
		{"an escaped star is a star", `["a\\*"]`, map[rollcall.RoomID]string{"a*": presence, "a": "", "ab": "", "a\\*": "", "a\\": ""}},
		{"an escaped star alone is the room of that name", `["\\*"]`, map[rollcall.RoomID]string{"*": presence, "a": ""}},
		{"two stars are what begins with a star", `["**"]`, map[rollcall.RoomID]string{"*": presence, "*a": presence, "a": ""}},
		{"a backslash elsewhere is a backslash", `["a\\b","c\\"]`, map[rollcall.RoomID]string{"a\\b": presence, "ab": "", "c\\": presence}},
		{"no other character is special", `["a.b","[x]","a?","(a|b)"]`, map[rollcall.RoomID]string{"a.b": presence, "axb": "", "x": "", "[x]": presence, "ab": "", "(a|b)": presence}},
		{"a lesser capability does not give a greater", `{"a":["count"],"b":["read"],"c":["presence"]}`, map[rollcall.RoomID]string{"a": "count", "b": "count read", "c": presence}},
		{"the others stand apart", `{"a":["contacts"],"b":["signal"],"c":["admin"]}`, map[rollcall.RoomID]string{"a": "contacts", "b": "signal", "c": "admin"}},
		{"an empty list of capabilities gives nothing", `{"a":[],"b":null}`, map[rollcall.RoomID]string{"a": "", "b": ""}},
		{"several matches add up", `{"doc:1":["admin"],"doc:*":["read"],"*":["signal"],"doc:1*":["contacts"]}`, map[rollcall.RoomID]string{
			"doc:1": "count read contacts signal admin", "doc:12": "count read contacts signal", "doc:2": "count read signal", "x": "signal"}},
		{"an unknown word gives nothing", `{"a":["fly","read"],"b":["Presence"]}`, map[rollcall.RoomID]string{"a": "count read", "b": ""}},
		{"ids are bytes", `["é"]`, map[rollcall.RoomID]string{"é": presence, "e\u0301": ""}},
	} {
		g, err := ParseGrants(json.RawMessage(tt.claim))
		if err != nil {
			t.Errorf("%s: %s: %v", tt.rule, tt.claim, err)
			continue
		}
		for room, want := range tt.want {
			if got := allowed(g, room); got != want {
				t.Errorf("%s: %s: room %q: got %q, want %q", tt.rule, tt.claim, room, got, want)
			}
		}
	}
}

func TestMalformedRoomsClaimIsRefused(t *testing.T) {
	long := strings.Repeat("x", rollcall.MaxID+1)
	for _, claim := range []string{
		`"*"`, `true`, `1`, `[1]`, `[null]`, `[["a"]]`, `{"a":"presence"}`, `{"a":[1]}`, `{"a":[null]}`, `{"a":true}`, `[`, `x`, "\x00",
		`[""]`, `["."]`, `[".."]`, `{"":[]}`, `["` + long + `"]`, `["` + long + `*"]`, `["\ud800"]`, `["a\udc00*"]`, "[\"\xff\"]",
		strings.Repeat("[", 40) + strings.Repeat("]", 40),
	} {
		_, err := ParseGrants(json.RawMessage(claim))
		told, ok := errors.AsType[*rollcall.Error](err)
		if !ok || told.Code != rollcall.CodeUnauthorized {
			t.Errorf("%.40s: got %v, want an unauthorized error", claim, err)
		}
	}
	if g, err := ParseGrants(json.RawMessage(`["` + long[1:] + `*"]`)); err != nil || allowed(g, rollcall.RoomID(long[1:])) == "" {
		t.Errorf("a beginning as long as an id: got %v", err)
	}
}

func TestUnknownWordsAreTold(t *testing.T) {
	g, err := ParseGrants(json.RawMessage(`{"a":["presense","read"],"b":["fly","presense"]}`))
	if diff := cmp.Diff([]string{"fly", "presense"}, g.Unknown()); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got := (Grants{}).Unknown(); got != nil {
		t.Errorf("got %q, want none", got)
	}
}

func TestNoCapabilityIsNeverAllowed(t *testing.T) {
	for _, c := range []Capability{0, Admin + 1, 8, 200, 255} {
		if Everything.Allows("a", c) {
			t.Errorf("capability %d is allowed", c)
		}
		if c.String() != "" {
			t.Errorf("capability %d is called %q", c, c)
		}
	}
	if _, err := NewGrants(map[string][]Capability{"a": {0}}); err == nil {
		t.Error("granting no capability is not refused")
	}
	if _, ok := ParseCapability(""); ok {
		t.Error("the empty word is a capability")
	}
}

func TestEmptyGrants(t *testing.T) {
	for claim, want := range map[string]bool{``: true, `[]`: true, `{"a":[],"b*":["fly"]}`: true, `["a"]`: false, `{"a*":["signal"]}`: false} {
		g, err := ParseGrants(json.RawMessage(claim))
		if err != nil || g.Empty() != want {
			t.Errorf("%s: got %v, want %v (%v)", claim, g.Empty(), want, err)
		}
	}
}

// naiveAllows is the rule of the patterns, as one would say it.
func naiveAllows(rooms map[string][]string, room string, want Capability) bool {
	for pattern, words := range rooms {
		var match bool
		switch {
		case strings.HasSuffix(pattern, `\*`):
			match = room == strings.TrimSuffix(pattern, `\*`)+"*"
		case strings.HasSuffix(pattern, "*"):
			match = strings.HasPrefix(room, strings.TrimSuffix(pattern, "*"))
		default:
			match = room == pattern
		}
		if !match {
			continue
		}
		for _, word := range words {
			switch word {
			case want.String():
				return true
			case "presence":
				if want == Read || want == Count {
					return true
				}
			case "read":
				if want == Count {
					return true
				}
			}
		}
	}
	return false
}

func TestGrantsEqualTheNaiveRule(t *testing.T) {
	id := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\é`)), 1, 6, -1)
	pattern := rapid.OneOf(id, rapid.Map(id, func(s string) string { return s + "*" }), rapid.Just("*"))
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"count", "read", "presence", "contacts", "signal", "admin", "fly"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		rooms := rapid.MapOfN(pattern, words, 0, 12).Draw(t, "rooms")
		claim, err := json.Marshal(rooms)
		if err != nil {
			t.Fatal(err)
		}
		g, err := ParseGrants(claim)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			room := id.Draw(t, "room")
			for _, c := range allCapabilities {
				if got, want := g.Allows(rollcall.RoomID(room), c), naiveAllows(rooms, room, c); got != want {
					t.Fatalf("%s: room %q, %v: got %v, want %v", claim, room, c, got, want)
				}
			}
		}
	})
}

func manyGrants(t testing.TB) Grants {
	rooms := map[string][]Capability{}
	for i := range 200 {
		rooms[fmt.Sprintf("team:%d:*", i)] = []Capability{Read}
		rooms[fmt.Sprintf("doc:%d", i)] = []Capability{Presence}
	}
	g, err := NewGrants(rooms)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAskingGrantsDoesNotAllocate(t *testing.T) {
	id := &Identity{Grants: manyGrants(t)}
	room := rollcall.RoomID("team:77:plan")
	if n := testing.AllocsPerRun(100, func() {
		if !id.Can(room, Read) || id.Can(room, Presence) || !id.Can("doc:3", Presence) || id.Can("x", Count) {
			t.Error("wrong answer")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkAllows(b *testing.B) {
	g := manyGrants(b)
	for b.Loop() {
		if !g.Allows("team:77:plan", Read) {
			b.Fatal("not allowed")
		}
	}
}

func FuzzParseGrants(f *testing.F) {
	for _, seed := range []string{`["*"]`, `{"a*":["read","fly"]}`, `["\\*","**","\ud83d\ude00*"]`, `["\ud800"]`, `null`, ` [ ] `, `{"a":null}`, "[\"\xff\"]"} {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, claim, room string) {
		g, err := ParseGrants(json.RawMessage(claim))
		if err != nil {
			if _, ok := errors.AsType[*rollcall.Error](err); !ok || g != (Grants{}) {
				t.Fatalf("%q: %v", claim, err)
			}
			return
		}
		var list []string
		rooms := map[string][]string{}
		if json.Unmarshal([]byte(claim), &list) == nil {
			for _, p := range list {
				rooms[p] = []string{"presence"}
			}
		} else if claim != "" && json.Unmarshal([]byte(claim), &rooms) != nil {
			if strings.TrimSpace(claim) == "" {
				return
			}
			t.Fatalf("%q was read", claim)
		}
		for _, c := range allCapabilities {
			if got, want := g.Allows(rollcall.RoomID(room), c), naiveAllows(rooms, room, c); got != want {
				t.Fatalf("%q: room %q, %v: got %v, want %v", claim, room, c, got, want)
			}
		}
	})
}
