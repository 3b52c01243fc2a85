package rollcall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rollcall"
)

func TestAnyShortUTF8IsAnID(t *testing.T) {
	tests := []struct {
		id   string
		want bool
	}{
		{"", false}, {".", false}, {"..", false},
		{"...", true}, {"./", true}, {"a", true}, {" ", true}, {"\x00", true}, {"\n", true}, {"*", true}, {"a|b", true},
		{"__proto__", true}, {"\u00e9", true}, {"\U0001f600", true}, {"\ufffd", true},
		{"\xff", false}, {"a\xc3", false}, {"\xed\xa0\x80", false}, {"\xc0\x80", false},
		{strings.Repeat("x", 256), true}, {strings.Repeat("x", 257), false},
		{strings.Repeat("\u00e9", 128), true}, {strings.Repeat("\u00e9", 128) + "x", false},
	}
	for _, test := range tests {
		if got := rollcall.ValidID(test.id); got != test.want {
			t.Errorf("ValidID(%q) = %v, want %v", test.id, got, test.want)
		}
	}
}

// TestPartitionsAreBalanced tries the kinds of names that rooms have.
func TestPartitionsAreBalanced(t *testing.T) {
	kinds := map[string]func(i int) string{
		"numbers":  func(i int) string { return fmt.Sprint(i) },
		"paths":    func(i int) string { return fmt.Sprintf("doc/%d", i) },
		"suffixed": func(i int) string { return fmt.Sprintf("%d:presence", i) },
		"hex":      func(i int) string { return fmt.Sprintf("%08x", i*2654435761) },
		"one byte": func(i int) string { return string([]byte{byte(i), byte(i >> 8), 0, 0, 0, 0, 0, 0}) },
	}
	const n = 64_000
	for name, room := range kinds {
		var counts [rollcall.Partitions]int
		for i := range n {
			p := rollcall.PartitionOf(rollcall.RoomID(room(i)))
			if p < 0 || p >= rollcall.Partitions {
				t.Fatalf("partition %d", p)
			}
			counts[p]++
		}
		chi := 0.0
		for p, got := range counts {
			want := float64(n / rollcall.Partitions)
			if math.Abs(float64(got)-want) > want/4 {
				t.Errorf("%s: partition %d has %d rooms, want about %v", name, p, got, want)
			}
			chi += (float64(got) - want) * (float64(got) - want) / want
		}
		t.Logf("%s: chi squared %.0f over 63 degrees of freedom", name, chi)
	}
}

// TestPartitionOfIsForEver pins the hash: nodes of different releases share a
// store.
func TestPartitionOfIsForEver(t *testing.T) {
	for room, want := range map[rollcall.RoomID]int{"": 1, "hall": 62, "doc/42": 0, "\u00e9": 6} {
		if got := rollcall.PartitionOf(room); got != want {
			t.Errorf("PartitionOf(%q) = %d, want %d", room, got, want)
		}
	}
}

func TestStatusWords(t *testing.T) {
	if !(rollcall.StatusActive > rollcall.StatusIdle && rollcall.StatusIdle > rollcall.StatusAway && rollcall.StatusAway > rollcall.StatusUnset) {
		t.Error("the order of the statuses is not active, idle, away, unset")
	}
	for _, s := range []rollcall.Status{rollcall.StatusActive, rollcall.StatusIdle, rollcall.StatusAway} {
		if got, ok := rollcall.ParseStatus(s.String()); !ok || got != s {
			t.Errorf("ParseStatus(%q) = %v, %v", s.String(), got, ok)
		}
	}
	for _, word := range []string{"", "offline", "Active", "online", " active"} {
		if got, ok := rollcall.ParseStatus(word); ok || got != rollcall.StatusUnset {
			t.Errorf("ParseStatus(%q) = %v, %v", word, got, ok)
		}
	}
}

func TestReasonWords(t *testing.T) {
	for r := rollcall.ReasonLeft; r <= rollcall.ReasonRevoked; r++ {
		if got, ok := rollcall.ParseReason(r.String()); !ok || got != r || r.String() == "" {
			t.Errorf("ParseReason(%q) = %v, %v", r.String(), got, ok)
		}
	}
	// Cut is a way to go and never a reason.
	for _, word := range []string{"", "cut", "Left"} {
		if got, ok := rollcall.ParseReason(word); ok || got != rollcall.ReasonNone {
			t.Errorf("ParseReason(%q) = %v, %v", word, got, ok)
		}
	}
	if got := rollcall.Reason(200).String(); got != "" {
		t.Errorf("an unknown reason is %q", got)
	}
}

func TestCodesSayRetryOrStop(t *testing.T) {
	want := map[rollcall.Code]struct {
		status int
		retry  bool
	}{
		rollcall.CodeBadRequest: {400, false}, rollcall.CodeUnauthorized: {401, false}, rollcall.CodeForbidden: {403, false},
		rollcall.CodeNotFound: {404, false}, rollcall.CodeConflict: {409, false}, rollcall.CodeGone: {410, false},
		rollcall.CodeTooLarge: {413, false}, rollcall.CodeRateLimited: {429, true}, rollcall.CodeUnavailable: {503, true},
		"something": {500, false},
	}
	for code, w := range want {
		if code.Status() != w.status || code.Retry() != w.retry {
			t.Errorf("%s: status %d retry %v, want %d %v", code, code.Status(), code.Retry(), w.status, w.retry)
		}
	}
}

// A gap must leave a plain stream, whose evidence may be 65 % of a lease old, the
// time to come back: at most 300 ms and a sixth of the lease, whichever is less.
func TestClockClampLeavesTimeToComeBack(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		30 * time.Second: 2 * time.Second, 12 * time.Second: 2 * time.Second,
		3 * time.Second: 500 * time.Millisecond, 600 * time.Millisecond: 100 * time.Millisecond,
	} {
		got := rollcall.Timing{Lease: lease}.ClockClamp()
		if got != want {
			t.Errorf("lease %v: clamp %v, want %v", lease, got, want)
		}
		if worst := lease*65/100 + got + min(300*time.Millisecond, lease/6); worst >= lease {
			t.Errorf("lease %v: a gap leaves nobody time to come back: %v", lease, worst)
		}
	}
}

func TestLeaseClockIsClamped(t *testing.T) {
	var c rollcall.LeaseClock
	now := startTime
	if got := c.Advance(now); got != 0 {
		t.Fatalf("the first observation: %v, want 0", got)
	}
	steps := []struct{ pass, want time.Duration }{
		{time.Second, time.Second},
		{0, time.Second},
		{2 * time.Second, 3 * time.Second},
		{2*time.Second + 1, 5 * time.Second},
		{10 * time.Minute, 7 * time.Second},
		{-time.Hour, 7 * time.Second},
		{time.Second, 8 * time.Second}, // it goes on from where it was set back to
		{time.Hour, 10 * time.Second},
		{-1, 10 * time.Second},
		{1, 10*time.Second + 1},
	}
	for _, step := range steps {
		now = now.Add(step.pass)
		if got := c.Advance(now); got != step.want {
			t.Errorf("after %v more: %v, want %v", step.pass, got, step.want)
		}
		if c.Elapsed() != step.want {
			t.Errorf("Elapsed() = %v, want %v", c.Elapsed(), step.want)
		}
	}
}

func TestObjectsAreMergedByKey(t *testing.T) {
	tests := []struct{ name, old, patch, want string }{
		{"empty into empty", `{}`, `{}`, `{}`},
		{"into empty", `{}`, `{"a":1}`, `{"a":1}`},
		{"empty", `{"a":1}`, `{}`, `{"a":1}`},
		{"new key", `{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		{"known key keeps its place", `{"a":1,"b":2}`, `{"a":3}`, `{"a":3,"b":2}`},
		{"null is a value", `{"a":1}`, `{"a":null}`, `{"a":null}`},
		{"null goes", `{"a":null}`, `{"a":1}`, `{"a":1}`},
		{"only the top level", `{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":{"y":2}}`},
		{"nested braces in text", `{"a":"}{,\"","b":[1,{"c":"]"}]}`, `{"b":["}"]}`, `{"a":"}{,\"","b":["}"]}`},
		{"backslash at the end", `{"a":"x\\"}`, `{"b":"\\\""}`, `{"a":"x\\","b":"\\\""}`},
		{"escaped key", `{"a":1}`, `{"\u0061":2}`, `{"a":2}`},
		{"escaped quote in a key", `{"a\"b":1}`, `{"a\u0022b":2}`, `{"a\"b":2}`},
		{"colon and comma in a key", `{"a:,":1}`, `{"a:,":2,":":3}`, `{"a:,":2,":":3}`},
		{"empty key", `{"":1}`, `{"":2}`, `{"":2}`},
		{"twice in the patch", `{"a":1}`, `{"a":2,"a":3}`, `{"a":3}`},
		{"twice in the old", `{"a":1,"a":2}`, `{"a":3}`, `{"a":3}`},
		{"twice in the old, not in the patch", `{"a":1,"a":2}`, `{"b":3}`, `{"a":2,"b":3}`},
		{"twice, escaped", `{"a":1,"\u0061":2}`, `{}`, `{"a":2}`},
		{"case matters", `{"a":1}`, `{"A":2}`, `{"a":1,"A":2}`},
		{"numbers to the byte", `{"a":1e400}`, `{"b":12345678901234567890.10}`, `{"a":1e400,"b":12345678901234567890.10}`},
		{"proto", `{"__proto__":{"a":1}}`, `{"__proto__":null}`, `{"__proto__":null}`},
	}
	for _, test := range tests {
		old := test.old
		if got := string(rollcall.MergeObjects(json.RawMessage(old), json.RawMessage(test.patch))); got != test.want {
			t.Errorf("%s: %s with %s is %s, want %s", test.name, test.old, test.patch, got, test.want)
		}
		if old != test.old {
			t.Errorf("%s: the old object was changed", test.name)
		}
	}
}

// FuzzMergeObjects compares with a merge of maps through encoding/json.
func FuzzMergeObjects(f *testing.F) {
	f.Add(`{"a":1}`, `{"b":"x"}`)
	f.Add(`{"a":1,"a":2}`, `{"\u0061":[{"b":"}\""}]}`)
	f.Add(`{"a\"b":null,"":{}}`, `{"a\u0022b":1e3}`)
	f.Fuzz(func(t *testing.T, old, patch string) {
		a, ok := compactObject(old)
		b, alsoOK := compactObject(patch)
		if !ok || !alsoOK {
			return
		}
		want := fields(t, a)
		maps.Copy(want, fields(t, b))
		merged := rollcall.MergeObjects(a, b)
		if !json.Valid(merged) {
			t.Fatalf("%s with %s is %s, which is no JSON", a, b, merged)
		}
		if got := fields(t, merged); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s with %s is %s, want the fields %s", a, b, merged, want)
		}
		if again := rollcall.MergeObjects(merged, b); string(again) != string(merged) {
			t.Fatalf("merging %s again makes %s of %s", b, again, merged)
		}
	})
}

// compactObject is what the wire lets through: a compact object in UTF-8.
func compactObject(s string) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if !utf8.ValidString(s) || json.Unmarshal([]byte(s), &object) != nil || object == nil {
		return nil, false
	}
	var compact strings.Builder
	inText := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inText && c == '\\':
			compact.WriteByte(c)
			i++
			compact.WriteByte(s[i])
			continue
		case c == '"':
			inText = !inText
		case !inText && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		compact.WriteByte(s[i])
	}
	return json.RawMessage(compact.String()), true
}

func fields(t *testing.T, object json.RawMessage) map[string]string {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(object, &raw); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	all := make(map[string]string)
	for key, value := range raw {
		all[key] = string(value)
	}
	return all
}
