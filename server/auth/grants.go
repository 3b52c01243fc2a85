package auth

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"rollcall"
)

// Grants is what somebody may do, by room. The zero value allows nothing. A
// Grants is immutable, small to copy, and safe for concurrent use.
//
// It is compiled from patterns. A pattern is the id of a room, or the beginning
// of ids followed by `*`; `*` alone is every room. A room whose id ends in a
// star is written with `\*` at the end. A star or a backslash anywhere else
// stands for itself (so ids that begin with something that ends in a backslash
// have no pattern of their own). When several patterns match a room, what they
// give adds up.
type Grants struct{ set *grantSet }

// grantSet is static after compile.
type grantSet struct {
	exact    []exactGrant  // by room
	prefixes []prefixGrant // by prefix
	unknown  []string
}

type exactGrant struct {
	room string
	can  capabilities
}

type prefixGrant struct {
	prefix string
	can    capabilities // with what the shorter prefixes of this prefix give
	parent int          // the longest of those, or -1
}

// Everything allows every capability in every room.
var Everything = mustGrants(map[string][]Capability{"*": {Presence, Contacts, Signal, Admin}})

func mustGrants(rooms map[string][]Capability) Grants {
	g, err := NewGrants(rooms)
	if err != nil {
		panic(err)
	}
	return g
}

// NewGrants compiles patterns with their capabilities. The error is a
// [*rollcall.Error] with [rollcall.CodeUnauthorized]: a pattern that can match
// no room (empty, ".", "..", not UTF-8, longer than [rollcall.MaxID]) is a
// mistake of whoever wrote the token and is not passed over.
func NewGrants(rooms map[string][]Capability) (Grants, error) {
	sets := make(map[string]capabilities, len(rooms))
	for pattern, list := range rooms {
		var s capabilities
		for _, c := range list {
			if c.String() == "" {
				return Grants{}, rollcall.Errorf(rollcall.CodeUnauthorized, "rooms: %d is not a capability", c)
			}
			s |= included[c]
		}
		sets[pattern] = s
	}
	return compile(sets, nil)
}

// ParseGrants reads the `rooms` claim of a token: a list of patterns, each of
// which gives presence (with what it includes, and nothing else), or an object
// from pattern to a list of capabilities. An absent claim (empty, or null)
// allows nothing.
//
// Words that are not capabilities are ignored, as the protocol ignores unknown
// fields: an application may write a word of a later version into its tokens
// while older nodes still run, and ignoring a word can only allow less.
// [Grants.Unknown] tells them, for a hint where something is refused. Everything
// else that is not of this shape is an error with [rollcall.CodeUnauthorized].
func ParseGrants(claim json.RawMessage) (Grants, error) {
	if why := checkText(claim); why != "" {
		return Grants{}, rollcall.Errorf(rollcall.CodeUnauthorized, "rooms: %s", why)
	}
	claim = bytes.TrimSpace(claim)
	if len(claim) == 0 || string(claim) == "null" {
		return Grants{}, nil
	}
	switch claim[0] {
	case '[':
		var list []*string
		if err := json.Unmarshal(claim, &list); err != nil {
			break
		}
		sets := make(map[string]capabilities, len(list))
		for _, pattern := range list {
			if pattern == nil {
				return Grants{}, errRoomsShape
			}
			sets[*pattern] = included[Presence]
		}
		return compile(sets, nil)
	case '{':
		var object map[string][]*string
		if err := json.Unmarshal(claim, &object); err != nil {
			break
		}
		return parseGrantObject(object)
	}
	return Grants{}, errRoomsShape
}

var errRoomsShape = rollcall.Errorf(rollcall.CodeUnauthorized,
	"rooms: must be a list of patterns, or an object from pattern to a list of capabilities")

func parseGrantObject(object map[string][]*string) (Grants, error) {
	sets := make(map[string]capabilities, len(object))
	var unknown []string
	for pattern, words := range object {
		var s capabilities
		for _, word := range words {
			if word == nil {
				return Grants{}, errRoomsShape
			}
			if c, ok := ParseCapability(*word); ok {
				s |= included[c]
			} else {
				unknown = append(unknown, *word)
			}
		}
		sets[pattern] = s
	}
	slices.Sort(unknown)
	return compile(sets, slices.Compact(unknown))
}

func compile(sets map[string]capabilities, unknown []string) (Grants, error) {
	if len(sets) == 0 {
		return Grants{}, nil
	}
	g := &grantSet{unknown: unknown}
	for pattern, can := range sets {
		text, prefix := parsePattern(pattern)
		switch {
		case prefix && len(text) <= rollcall.MaxID && utf8.ValidString(text):
			g.prefixes = append(g.prefixes, prefixGrant{prefix: text, can: can})
		case !prefix && rollcall.ValidID(text):
			g.exact = append(g.exact, exactGrant{room: text, can: can})
		default:
			return Grants{}, rollcall.Errorf(rollcall.CodeUnauthorized,
				"rooms: a pattern of %d bytes matches no room: an id is 1 to %d bytes of UTF-8, and not a dot or two", len(pattern), rollcall.MaxID)
		}
	}
	slices.SortFunc(g.exact, func(a, b exactGrant) int { return strings.Compare(a.room, b.room) })
	slices.SortFunc(g.prefixes, func(a, b prefixGrant) int { return strings.Compare(a.prefix, b.prefix) })
	for i := range g.prefixes {
		// In order, the prefixes of a string stand before it; the longest of
		// them is the string before it or an ancestor of that.
		p := i - 1
		for p >= 0 && !strings.HasPrefix(g.prefixes[i].prefix, g.prefixes[p].prefix) {
			p = g.prefixes[p].parent
		}
		g.prefixes[i].parent = p
		if p >= 0 {
			g.prefixes[i].can |= g.prefixes[p].can
		}
	}
	return Grants{g}, nil
}

// parsePattern is the id that a pattern names, or the beginning of the ids.
func parsePattern(pattern string) (text string, prefix bool) {
	if text, ok := strings.CutSuffix(pattern, `\*`); ok {
		return text + "*", false
	}
	return strings.CutSuffix(pattern, "*")
}

// Allows reports whether c is allowed in a room, whose id is taken to be valid.
// It does not allocate; it costs two binary searches, however many patterns
// there are.
func (g Grants) Allows(room rollcall.RoomID, c Capability) bool {
	return g.set != nil && g.set.of(string(room)).has(c)
}

// Empty reports whether nothing is allowed in any room.
func (g Grants) Empty() bool {
	if g.set == nil {
		return true
	}
	for _, e := range g.set.exact {
		if e.can != 0 {
			return false
		}
	}
	for _, p := range g.set.prefixes {
		if p.can != 0 {
			return false
		}
	}
	return true
}

// Unknown is the words of the claim that were not capabilities, in order; nil if
// there were none. The caller does not change it.
func (g Grants) Unknown() []string {
	if g.set == nil {
		return nil
	}
	return g.set.unknown
}

func (s *grantSet) of(room string) capabilities {
	var can capabilities
	if i, ok := slices.BinarySearchFunc(s.exact, room, func(e exactGrant, room string) int { return strings.Compare(e.room, room) }); ok {
		can = s.exact[i].can
	}
	// The longest prefix of room is the last one that is not greater than room,
	// or an ancestor of that: whatever lies between a prefix and room begins
	// with that prefix.
	i, ok := slices.BinarySearchFunc(s.prefixes, room, func(p prefixGrant, room string) int { return strings.Compare(p.prefix, room) })
	if !ok {
		i--
	}
	for ; i >= 0; i = s.prefixes[i].parent {
		if strings.HasPrefix(room, s.prefixes[i].prefix) {
			return can | s.prefixes[i].can
		}
	}
	return can
}
