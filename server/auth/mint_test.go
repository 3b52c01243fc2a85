package auth

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMintRefusesWhatWouldBeRefused(t *testing.T) {
	good := Claims{User: "ana"}
	change := func(f func(*Claims)) Claims { c := good; f(&c); return c }
	for name, c := range map[string]Claims{
		"no user":          {},
		"a dot":            change(func(c *Claims) { c.User = "." }),
		"not UTF-8":        change(func(c *Claims) { c.User = "\xff" }),
		"info a list":      change(func(c *Claims) { c.Info = raw(`[]`) }),
		"info broken":      change(func(c *Claims) { c.Info = raw(`{`) }),
		"info too large":   change(func(c *Claims) { c.Info = raw(`{"a":"` + strings.Repeat("x", 2048) + `"}`) }),
		"an empty pattern": change(func(c *Claims) { c.Rooms = []string{""} }),
		"no capability":    change(func(c *Claims) { c.Grants = map[string][]Capability{"a": {0}} }),
		"a long session":   change(func(c *Claims) { c.Session = strings.Repeat("x", 257) }),
		"a broken session": change(func(c *Claims) { c.Session = "\xff" }),
		"a broken kid":     change(func(c *Claims) { c.KeyID = "\xff" }),
		"too many rooms":   change(func(c *Claims) { c.Rooms = slices.Repeat([]string{strings.Repeat("r", 250)}, 40) }),
	} {
		if _, err := Mint(secret, c); err == nil {
			t.Errorf("%s: minted", name)
		}
	}
	if _, err := Mint(nil, good); err == nil {
		t.Error("an empty secret: minted")
	}
	// An info that is at its limit stays there, whatever characters it has.
	c := change(func(c *Claims) { c.Info = raw(`{"a":"` + strings.Repeat("<", 2040) + `"}`) })
	token, err := Mint(secret, c)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := authenticate(newJWT(t), token); err != nil || string(id.Info) != string(c.Info) {
		t.Errorf("got %v", err)
	}
}

func TestMintedTokenLivesAnHourByDefault(t *testing.T) {
	token, err := Mint(secret, Claims{User: "ana", Rooms: []string{"doc:*"}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := authenticate(newJWT(t), token)
	if err != nil {
		t.Fatal(err)
	}
	if got := id.Expires.Sub(id.IssuedAt); got != DefaultLife || time.Since(id.IssuedAt) > time.Minute {
		t.Errorf("got %v from %v", got, id.IssuedAt)
	}
	if got, want := allowed(id.Grants, "doc:1"), "count read presence"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
