package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// plain tells the bytes that stand in a JSON string as they are: ASCII without
// the controls, the quote and the backslash.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It is always one line of valid UTF-8,
// whatever s is: bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	i := 0
	for i < len(s) && plain[s[i]] {
		i++
	}
	b = append(b, s[:i]...)
	if i < len(s) {
		b = appendEscaped(b, s[i:])
	}
	return append(b, '"')
}

// appendEscaped appends the inside of a JSON string.
func appendEscaped(b []byte, s string) []byte {
	start := 0 // what is before it has been appended
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			// U+2028 and U+2029 end a line in older JavaScript and in some readers of lines.
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, r)
		i += size
		start = i
	}
	return append(b, s[start:]...)
}

// appendEscape appends one character that cannot stand as it is.
func appendEscape(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case utf8.RuneError:
		return append(b, "\uFFFD"...)
	}
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendObject appends a value that is an object and came through [Object], or
// {} for anything that cannot be one. The check of UTF-8 costs a few ns and keeps
// a value that came in by another way from ending every WebSocket of a room.
func appendObject(b []byte, raw json.RawMessage) []byte {
	n := len(raw)
	if n < 2 || raw[0] != '{' || raw[n-1] != '}' {
		return append(b, "{}"...)
	}
	if !utf8.Valid(raw) {
		return append(b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))...)
	}
	return append(b, raw...)
}

// appendMillis appends d in milliseconds, rounded up, so that a time that has
// not run out is never 0; negative durations are 0.
func appendMillis(b []byte, d time.Duration) []byte {
	if d <= 0 {
		return append(b, '0')
	}
	return strconv.AppendInt(b, int64((d-1)/time.Millisecond)+1, 10)
}

func appendNumber(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
