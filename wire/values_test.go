package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/wire"
)

type valueVector struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // "object": must be one
	Raw     string   `json:"raw"`
	RawHex  string   `json:"rawHex"`
	Limit   int      `json:"limit"`
	Compact string   `json:"compact"`
	Error   *refusal `json:"error"`
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestUntrustedValues(t *testing.T) {
	var list []valueVector
	readVectors(t, "values.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			raw := []byte(v.Raw)
			if v.RawHex != "" {
				raw = fromHex(t, v.RawHex)
			}
			read := wire.Value
			if v.Kind == "object" {
				read = wire.Object
			}
			before := bytes.Clone(raw)
			got, err := read(raw, v.Limit)
			if !bytes.Equal(raw, before) {
				t.Error("the input was written to")
			}
			if checkRefusal(t, err, v.Error) {
				return
			}
			if string(got) != v.Compact {
				t.Errorf("got %s, want %s", got, v.Compact)
			}
			clear(raw) // what was returned is not the input
			if string(got) != v.Compact {
				t.Error("the value aliases the input")
			}
		})
	}
}

func TestObjectIsTheSameForEveryNonObject(t *testing.T) {
	for _, raw := range []string{`[]`, `5`, `"s"`, `null`, ` [1]`} {
		if _, err := wire.Object([]byte(raw), 100); err == nil || err.Error() != "bad_request: value must be a JSON object" {
			t.Errorf("%s: got %v", raw, err)
		}
	}
}

func TestDataOfAQueryMayBeAbsentAndInfoMayBeNull(t *testing.T) {
	if got, err := wire.DecodeData("", 10); got != nil || err != nil {
		t.Errorf("no data: got %s, %v", got, err)
	}
	if _, err := wire.DecodeData("null", 10); err == nil {
		t.Error("data null: got no error")
	}
	if got, err := wire.DecodeData(` {"a": 1} `, 10); string(got) != `{"a":1}` || err != nil {
		t.Errorf("data: got %s, %v", got, err)
	}
	for _, raw := range []string{"", "null", " null "} {
		if got, err := wire.DecodeInfo([]byte(raw), 10); got != nil || err != nil {
			t.Errorf("info %q: got %s, %v", raw, got, err)
		}
	}
	_, err := wire.DecodeInfo([]byte(`{"name":"Anastasia"}`), 10)
	checkRefusal(t, err, &refusal{rollcall.CodeTooLarge, 10})
	if err == nil || !strings.Contains(err.Error(), "info") {
		t.Errorf("the error does not name info: %v", err)
	}
}

// TestScannerIsLinear compares inputs of one and of sixteen units. What is
// quadratic takes 256 times as long, and not some sixteen times.
func TestScannerIsLinear(t *testing.T) {
	repeat := func(s string) func(int) string { return func(n int) string { return strings.Repeat(s, n) } }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + strings.Repeat("k", 8) + string(rune('a'+i%26)) + strconv.Itoa(i) + `":1,`)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		open, close string
		middle      func(int) string
	}{
		"keys":      {"{", `"end":1}`, keys},
		"backslash": {`"`, `"`, repeat(`\\`)},
		"escapes":   {`{"`, `":1}`, repeat(`\u00e9`)},
		"digits":    {"0.", "1e5", repeat("123")},
		"objects":   {"[", "{}]", repeat(`{"a":{"b":1}},`)},
		"spaces":    {"[", "]", repeat("   ")},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(n int) time.Duration {
				raw := []byte(c.open + c.middle(n) + c.close)
				best := time.Hour
				for range 5 {
					start := time.Now()
					if _, err := wire.Value(raw, 0); err != nil {
						t.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				return best
			}
			// A quadratic scanner would take 16,000 times as long.
			if small, large := run(1000), run(128000); large > 1000*small+100*time.Millisecond {
				t.Errorf("128 times the input took %v instead of %v", large, small)
			}
		})
	}
}

func FuzzValue(f *testing.F) {
	seedValues(f)
	f.Fuzz(func(t *testing.T, raw []byte, limit uint16) {
		got, err := wire.Value(raw, int(limit))
		if err != nil {
			return
		}
		checkCompact(t, got)
		if limit > 0 && len(got) > int(limit) {
			t.Errorf("%d bytes are over the limit of %d", len(got), limit)
		}
		again, err := wire.Value(got, int(limit))
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("%q is not a fixed point: %q, %v", got, again, err)
		}
		// encoding/json agrees that it is the compact form.
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil || !bytes.Equal(compact.Bytes(), got) {
			t.Errorf("got %q, encoding/json %q, %v", got, compact.Bytes(), err)
		}
	})
}

func seedValues(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		`{}`, ` [1, 2.5e3, -0] `, `{"a":{"b":["\ud83d\ude00","\u0000"]}}`, `{"a":1,"\u0061":2}`, `"\ud83d"`, `1e999`, `NaN`,
		`[[[[`, `{"a":"x`, "\"\xc0\x80\"", `{"__proto__":null}`, `nul`, `-`, `{"a":1,}`, "[\"\u2028\"]",
	} {
		f.Add([]byte(s), uint16(0))
		f.Add([]byte(s), uint16(8))
	}
}

// checkCompact checks what every accepted value must be: JSON to encoding/json,
// on one line.
func checkCompact(t *testing.T, got []byte) {
	t.Helper()
	if !json.Valid(got) {
		t.Errorf("%q is not JSON", got)
	}
	if i := bytes.IndexFunc(got, func(r rune) bool { return r < 0x20 }); i >= 0 {
		t.Errorf("%q has a control character at %d", got, i)
	}
}
