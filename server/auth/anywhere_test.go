package auth

import "testing"

func TestGrantsAnywhereAndEverywhere(t *testing.T) {
	grants := func(rooms map[string][]Capability) Grants {
		g, err := NewGrants(rooms)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		name                 string
		g                    Grants
		c                    Capability
		anywhere, everywhere bool
	}{
		{"nothing", Grants{}, Read, false, false},
		{"everything", Everything, Contacts, true, true},
		{"one room", grants(map[string][]Capability{"a": {Contacts}}), Contacts, true, false},
		{"one room, another capability", grants(map[string][]Capability{"a": {Presence}}), Contacts, false, false},
		{"a prefix", grants(map[string][]Capability{"a:*": {Presence}}), Read, true, false},
		{"every room", grants(map[string][]Capability{"*": {Presence}}), Read, true, true},
		{"every room, less than asked", grants(map[string][]Capability{"*": {Count}, "a": {Read}}), Read, true, false},
		{"a room whose name is a star", grants(map[string][]Capability{`\*`: {Read}}), Read, true, false},
	} {
		if got := c.g.Anywhere(c.c); got != c.anywhere {
			t.Errorf("%s: anywhere %v, want %v", c.name, got, c.anywhere)
		}
		if got := c.g.Everywhere(c.c); got != c.everywhere {
			t.Errorf("%s: everywhere %v, want %v", c.name, got, c.everywhere)
		}
	}
}
