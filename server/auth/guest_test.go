package auth

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"rollcall"
)

func asGuest(query url.Values) (*Identity, error) {
	r := httptest.NewRequest("GET", "/v1/ws?"+query.Encode(), nil)
	return Guests{}.Authenticate(context.Background(), CredentialsOf(r))
}

type profile struct{ Name, Color string }

func profileOf(t *testing.T, id *Identity) (p profile) {
	t.Helper()
	if err := json.Unmarshal(id.Info, &p); err != nil {
		t.Fatalf("%s: %v", id.Info, err)
	}
	return p
}

func TestGuestIsWhoItSays(t *testing.T) {
	id, err := asGuest(url.Values{"user": {"ana|1"}, "name": {" Ana <& é> "}})
	if err != nil {
		t.Fatal(err)
	}
	if got := profileOf(t, id); id.User != "ana|1" || got.Name != "Ana <& é>" {
		t.Errorf("got %q, %+v", id.User, got)
	}
	if !strings.Contains(string(id.Info), `"Ana <& é>"`) {
		t.Errorf("got %s, want text as it is", id.Info)
	}
	if !id.Guest || id.Server() || id.Hidden || !id.Expires.IsZero() {
		t.Errorf("got %+v", id)
	}
	for _, c := range allCapabilities {
		if !id.Can("any room", c) {
			t.Errorf("may not %v", c)
		}
	}
}

func TestGuestWithoutANameIsCalledByItsID(t *testing.T) {
	for user, want := range map[string]string{"ana": "ana", strings.Repeat("é", 120): strings.Repeat("é", 100)} {
		id, err := asGuest(url.Values{"user": {user}})
		if err != nil {
			t.Fatal(err)
		}
		if got := profileOf(t, id).Name; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRandomGuestKeepsItsNameWhenOnlyItsIDIsKnown(t *testing.T) {
	names, users := map[string]bool{}, map[rollcall.UserID]bool{}
	for range 200 {
		id, err := Guests{}.Authenticate(context.Background(), Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(id.User), GuestPrefix) || len(id.User) != len(GuestPrefix)+10 || !rollcall.ValidID(string(id.User)) {
			t.Fatalf("got %q", id.User)
		}
		again := GuestIdentity(id.User)
		if string(again.Info) != string(id.Info) || again.User != id.User || !again.Guest || !again.Can("x", Admin) || again.Server() {
			t.Fatalf("got %+v, want %+v", again, id)
		}
		if name := profileOf(t, id).Name; strings.Count(name, " ") != 1 || strings.Contains(name, "guest") {
			t.Fatalf("got %q, want a friendly name", name)
		}
		users[id.User], names[profileOf(t, id).Name] = true, true
	}
	if len(users) != 200 || len(names) < 150 {
		t.Errorf("got %d users and %d names of 200 guests", len(users), len(names))
	}
}

func TestGuestNamesDoNotChangeBetweenVersions(t *testing.T) {
	for user, want := range map[rollcall.UserID]string{
		"guest-aaaaaaaaaa": `{"name":"Silver Tapir","color":"#1565c0"}`,
		"guest-k3m5n7p2qx": `{"name":"Clever Moose","color":"#00706a"}`,
		"ana":              `{"name":"ana","color":"#1b7340"}`,
	} {
		if got := string(GuestIdentity(user).Info); got != want {
			t.Errorf("%s: got %s, want %s", user, got, want)
		}
	}
}

func TestGuestKeepsItsColorWhateverItsName(t *testing.T) {
	a, err := asGuest(url.Values{"user": {"ana"}, "name": {"Ana"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := profileOf(t, a).Color, profileOf(t, GuestIdentity("ana")).Color; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestImpossibleGuestsAreRefused(t *testing.T) {
	for _, query := range []url.Values{
		{"user": {"."}}, {"user": {".."}}, {"user": {"\xff"}}, {"user": {strings.Repeat("x", 257)}},
		{"name": {strings.Repeat("é", 101)}}, {"name": {"\xff"}}, {"name": {"a\x00b"}}, {"name": {"a\nb"}}, {"user": {"ana"}, "name": {"a\u0085x"}},
	} {
		_, err := asGuest(query)
		if told, ok := errors.AsType[*rollcall.Error](err); !ok || told.Code != rollcall.CodeBadRequest {
			t.Errorf("%q: got %v, want bad_request", query, err)
		}
	}
	id, err := asGuest(url.Values{"name": {strings.Repeat("😀", 100)}})
	if err != nil || utf8.RuneCountInString(profileOf(t, id).Name) != 100 || len(id.Info) > rollcall.DefaultLimits().Info {
		t.Errorf("a name of 100 characters: %v", err)
	}
}

func TestTokenIsNoGuestButAStrayCookieMayBe(t *testing.T) {
	for from, guest := range map[Source]bool{Header: false, Subprotocol: false, Query: false, Message: false, Cookie: true} {
		_, err := Guests{}.Authenticate(context.Background(), Credentials{Token: "x", From: from})
		if guest != (err == nil) || !guest && !errors.Is(err, ErrNotMine) {
			t.Errorf("a token from %v: got %v", from, err)
		}
	}
}

func TestGuestsMayBeAllowedLess(t *testing.T) {
	g, err := NewGrants(map[string][]Capability{"lobby": {Presence}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := Guests{Grants: g}.Authenticate(context.Background(), Credentials{})
	if err != nil || !id.Can("lobby", Presence) || id.Can("lobby", Admin) || id.Can("x", Count) {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestGuestColorsCanBeRead(t *testing.T) {
	linear := func(hex string) float64 {
		v, err := strconv.ParseUint(hex, 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if c := float64(v) / 255; c > 0.04045 {
			return math.Pow((c+0.055)/1.055, 2.4)
		} else {
			return c / 12.92
		}
	}
	for _, c := range guestColors {
		luminance := 0.2126*linear(c[1:3]) + 0.7152*linear(c[3:5]) + 0.0722*linear(c[5:7])
		if contrast := 1.05 / (luminance + 0.05); contrast < 4.5 { // WCAG 2, against white
			t.Errorf("%s has a contrast of %.2f", c, contrast)
		}
	}
}
