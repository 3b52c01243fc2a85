package rollcall

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// RoomSettings are what an operator may set of rooms by the pattern of their ids.
type RoomSettings struct {
	Modes   Modes
	Signals SignalScope
	// Estimate has a room hold no leases and name nobody: how many are there is
	// told, and may be an estimate.
	Estimate bool
}

// SignalScope is who is told the signals of a room in counts mode. In full mode
// everybody is who is shown the room.
type SignalScope uint8

// The scopes.
const (
	// SignalsScoped tells those whose open page or contacts name the sender.
	SignalsScoped SignalScope = iota
	// SignalsAll tells everybody, as in full mode.
	SignalsAll
	// SignalsNone tells nobody.
	SignalsNone
)

// RoomRules are settings of rooms by pattern, on top of those of all rooms. The
// zero value has no rules. It is immutable, and safe for concurrent use.
type RoomRules struct {
	rules []roomRule // the least specific first
}

// roomRule is one setting of the rooms that a pattern names.
type roomRule struct {
	text   string // the id, or the beginning of the ids
	prefix bool
	name   string
	set    func(*RoomSettings)
}

// roomSetting is a setting that a rule may make.
type roomSetting struct {
	name string
	must string // what its value is, for errors
	read func(value string) (set func(*RoomSettings), ok bool)
}

// roomSettings are the settings that there are; static.
var roomSettings = []roomSetting{
	{"counts-above", "a number of members, 1 or more", func(value string) (func(*RoomSettings), bool) {
		n, err := strconv.Atoi(value)
		return func(s *RoomSettings) { s.Modes.Above = n }, err == nil && n >= 1
	}},
	{"counts-below", "a number of members, 1 or more", func(value string) (func(*RoomSettings), bool) {
		n, err := strconv.Atoi(value)
		return func(s *RoomSettings) { s.Modes.Below = n }, err == nil && n >= 1
	}},
	{"count-every", "a time of 50ms or more", func(value string) (func(*RoomSettings), bool) {
		d, err := time.ParseDuration(value)
		return func(s *RoomSettings) { s.Modes.Every = d }, err == nil && d >= MinCountEvery
	}},
	{"estimate", "on or off", func(value string) (func(*RoomSettings), bool) {
		return func(s *RoomSettings) { s.Estimate = value == "on" }, value == "on" || value == "off"
	}},
	{"signals", "all, scope or none", func(value string) (func(*RoomSettings), bool) {
		scope, ok := map[string]SignalScope{"all": SignalsAll, "scope": SignalsScoped, "none": SignalsNone}[value]
		return func(s *RoomSettings) { s.Signals = scope }, ok
	}},
}

// MinCountEvery is the least time between two counts that can be asked for.
const MinCountEvery = 50 * time.Millisecond

// ParseRoomRules reads rules of the form PATTERN:setting=value, such as
// `live:*:counts-above=500`. A pattern is the id of a room, or the beginning of
// ids and `*`; an id that ends in a star is written with `\*`. What is before the
// last colon is the pattern. Of the rules that name a room and a setting the most
// specific one counts: an id, then the longest beginning. base are the settings of
// all rooms. The errors are for whoever wrote the rules.
func ParseRoomRules(lines []string, base RoomSettings) (RoomRules, error) {
	var r RoomRules
	for _, line := range lines {
		rule, err := parseRoomRule(line)
		if err != nil {
			return RoomRules{}, err
		}
		for _, other := range r.rules {
			if other.text == rule.text && other.prefix == rule.prefix && other.name == rule.name {
				return RoomRules{}, fmt.Errorf("%q: there is another %s of the same pattern", line, rule.name)
			}
		}
		r.rules = append(r.rules, rule)
	}
	slices.SortStableFunc(r.rules, func(a, b roomRule) int {
		if a.prefix != b.prefix {
			return map[bool]int{true: -1, false: 1}[a.prefix]
		}
		return len(a.text) - len(b.text)
	})
	// Whatever the rules come to for any room, they come to for the most specific
	// of its patterns.
	for i := range r.rules {
		m := r.of(r.rules[i].text, !r.rules[i].prefix, base).Modes
		if m.Below > m.Above {
			return RoomRules{}, fmt.Errorf("rooms %q: counts-below %d is more than counts-above %d", r.rules[i].pattern(), m.Below, m.Above)
		}
	}
	return r, nil
}

func parseRoomRule(line string) (rule roomRule, err error) {
	i := strings.LastIndexByte(line, ':')
	name, value, ok := strings.Cut(line[i+1:], "=")
	if name == "estimate" && !ok {
		value, ok = "on", true // PATTERN:estimate
	}
	if i < 0 || !ok {
		return rule, fmt.Errorf("%q is not PATTERN:setting=value", line)
	}
	rule.name = name
	if text, ok := strings.CutSuffix(line[:i], `\*`); ok {
		rule.text = text + "*"
	} else {
		rule.text, rule.prefix = strings.CutSuffix(line[:i], "*")
	}
	if rule.prefix && (len(rule.text) > MaxID || !utf8.ValidString(rule.text)) || !rule.prefix && !ValidID(rule.text) {
		return rule, fmt.Errorf("%q: the pattern names no room: write an id, or the beginning of ids and *", line)
	}
	var known []string
	for _, s := range roomSettings {
		if s.name != name {
			known = append(known, s.name)
			continue
		}
		if rule.set, ok = s.read(value); !ok {
			return rule, fmt.Errorf("%q: %s must be %s", line, name, s.must)
		}
		return rule, nil
	}
	return rule, fmt.Errorf("%q: %q is not a setting of rooms; those are %s", line, name, strings.Join(known, ", "))
}

// Of is the settings of a room; base are those of all rooms.
func (r RoomRules) Of(room RoomID, base RoomSettings) RoomSettings {
	return r.of(string(room), true, base)
}

// of is the settings of a room, or of rooms whose id has a beginning.
func (r RoomRules) of(text string, whole bool, base RoomSettings) RoomSettings {
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.prefix && strings.HasPrefix(text, rule.text) || whole && !rule.prefix && rule.text == text {
			rule.set(&base)
		}
	}
	return base
}

// pattern is as it was written.
func (r *roomRule) pattern() string {
	switch {
	case r.prefix:
		return r.text + "*"
	case strings.HasSuffix(r.text, "*"):
		return r.text[:len(r.text)-1] + `\*`
	}
	return r.text
}
