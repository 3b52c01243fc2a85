package rollcall_test

import (
	"strings"
	"testing"
	"time"

	"rollcall"
)

func TestTheMostSpecificRoomRuleCounts(t *testing.T) {
	base := rollcall.RoomSettings{Modes: rollcall.DefaultModes()}
	rules, err := rollcall.ParseRoomRules([]string{
		"live:final:counts-above=900", `live:*:counts-above=500`, "live:*:counts-below=400", "live:f*:signals=all",
		"*:signals=none", `live:\*:counts-above=450`, "live:*:count-every=2s",
	}, base)
	if err != nil {
		t.Fatal(err)
	}
	settings := func(above, below int, every time.Duration, scope rollcall.SignalScope) rollcall.RoomSettings {
		return rollcall.RoomSettings{Modes: rollcall.Modes{Above: above, Below: below, Every: every}, Signals: scope}
	}
	for room, want := range map[rollcall.RoomID]rollcall.RoomSettings{
		"doc/42":       settings(200, 150, time.Second, rollcall.SignalsNone),
		"live:a":       settings(500, 400, 2*time.Second, rollcall.SignalsNone),
		"live:":        settings(500, 400, 2*time.Second, rollcall.SignalsNone),
		"live:final":   settings(900, 400, 2*time.Second, rollcall.SignalsAll),
		"live:finals":  settings(500, 400, 2*time.Second, rollcall.SignalsAll),
		"live:*":       settings(450, 400, 2*time.Second, rollcall.SignalsNone),
		"live":         settings(200, 150, time.Second, rollcall.SignalsNone),
		"counts-above": settings(200, 150, time.Second, rollcall.SignalsNone),
	} {
		if got := rules.Of(room, base); got != want {
			t.Errorf("%q: got %+v, want %+v", room, got, want)
		}
	}
	if got := (rollcall.RoomRules{}).Of("live:a", base); got != base {
		t.Errorf("without rules: %+v, want %+v", got, base)
	}
}

func TestWrongRoomRulesAreRefused(t *testing.T) {
	base := rollcall.RoomSettings{Modes: rollcall.DefaultModes()}
	for _, c := range []struct {
		lines string
		want  string // in the error
	}{
		{"", "not PATTERN:setting=value"},
		{"live", "not PATTERN:setting=value"},
		{"signals=all", "not PATTERN:setting=value"},
		{"live:*:signals", "not PATTERN:setting=value"},
		{":signals=all", "names no room"},
		{"..:signals=all", "names no room"},
		{strings.Repeat("x", 257) + ":signals=all", "names no room"},
		{strings.Repeat("x", 257) + "*:signals=all", "names no room"},
		{"\xff*:signals=all", "names no room"},
		{"a*:signal=all", `"signal" is not a setting`},
		{"a*:signals=some", "must be all, scope or none"},
		{"a*:counts-above=0", "1 or more"},
		{"a*:counts-above=many", "1 or more"},
		{"a*:counts-below=-1", "1 or more"},
		{"a*:count-every=1ms", "50ms or more"},
		{"a*:count-every=soon", "50ms or more"},
		{"a*:counts-above=100", "counts-below 150 is more than counts-above 100"},
		{"a*:counts-below=300\nab*:counts-above=400\na*:counts-above=300\nabc:counts-above=250", `rooms "abc": counts-below 300`},
		{"a*:estimate=maybe", "must be on or off"},
		{"a*:signals=all\na*:signals=none", "another signals of the same pattern"},
	} {
		_, err := rollcall.ParseRoomRules(strings.Split(c.lines, "\n"), base)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.lines, err, c.want)
		}
	}
	if _, err := rollcall.ParseRoomRules([]string{"a:signals=all", `a\*:signals=all`, "a*:signals=none"}, base); err != nil {
		t.Errorf("three patterns that differ: %v", err)
	}
}

func TestRoomsAreDeclaredEstimate(t *testing.T) {
	base := rollcall.RoomSettings{Modes: rollcall.DefaultModes()}
	rules, err := rollcall.ParseRoomRules([]string{"live:*:estimate", "live:small*:estimate=off", "live:small:big:estimate=on"}, base)
	if err != nil {
		t.Fatal(err)
	}
	for room, want := range map[rollcall.RoomID]bool{"live:1": true, "live:small:1": false, "live:small:big": true, "doc": false} {
		if got := rules.Of(room, base).Estimate; got != want {
			t.Errorf("%q is estimated: %v, want %v", room, got, want)
		}
	}
}

func FuzzParseRoomRules(f *testing.F) {
	for _, s := range []string{"live:*:counts-above=500", `a\*:signals=all`, "a:b=c", ":", "*:counts-below=1\n*:counts-above=2"} {
		f.Add(s, "live:a")
	}
	f.Fuzz(func(t *testing.T, lines, room string) {
		base := rollcall.RoomSettings{Modes: rollcall.DefaultModes()}
		rules, err := rollcall.ParseRoomRules(strings.Split(lines, "\n"), base)
		if err != nil {
			return
		}
		if m := rules.Of(rollcall.RoomID(room), base).Modes; m.Below > m.Above || m.Below < 1 || m.Every < rollcall.MinCountEvery {
			t.Errorf("%q: %q gets %+v", lines, room, m)
		}
	})
}
