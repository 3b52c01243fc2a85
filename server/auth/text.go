package auth

import (
	"strconv"
	"unicode/utf8"

	"rollcall"
)

// checkText tells why a JSON value may not be passed on, or "" if it may: it is
// not UTF-8, it escapes half of a surrogate pair, or it is too deep. The decoder
// of the standard library reads the first two as U+FFFD, so that two different
// ids would become one. It does not check the grammar.
func checkText(raw []byte) string {
	if !utf8.Valid(raw) {
		return "is not UTF-8"
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case !inString:
			switch c {
			case '[', '{':
				if depth++; depth > rollcall.MaxDepth {
					return "is nested too deep"
				}
			case ']', '}':
				depth--
			}
		case c == '\\':
			i++
			unit, ok := escapedUnit(raw, i)
			switch {
			case !ok || unit < 0xD800 || unit > 0xDFFF:
			case unit >= 0xDC00:
				return "has half of a surrogate pair"
			default:
				low, ok := uint64(0), i+5 < len(raw) && raw[i+5] == '\\'
				if ok {
					low, ok = escapedUnit(raw, i+6)
				}
				if !ok || low < 0xDC00 || low > 0xDFFF {
					return "has half of a surrogate pair"
				}
				i += 10
			}
		}
	}
	return ""
}

// escapedUnit reads the uXXXX at i.
func escapedUnit(raw []byte, i int) (unit uint64, ok bool) {
	if i+5 > len(raw) || raw[i] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
	return unit, err == nil
}
