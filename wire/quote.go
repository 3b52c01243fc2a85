package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"rollcall"
)

// text reads a string and returns its inside, as it is written.
func (s *scanner) text() ([]byte, *rollcall.Error) {
	for i := s.pos + 1; i < len(s.in); {
		switch c := s.in[i]; {
		case c == '"':
			inside := s.in[s.pos+1 : i]
			return inside, s.token(i + 1)
		case c == '\\':
			n := escape(s.in[i:])
			if n == 0 {
				return nil, rollcall.Errorf(rollcall.CodeBadRequest, "has a malformed escape at byte %d", i)
			}
			if n < 0 {
				return nil, rollcall.Errorf(rollcall.CodeBadRequest, "has half a surrogate pair at byte %d", i)
			}
			i += n
		case c < 0x20:
			return nil, rollcall.Errorf(rollcall.CodeBadRequest, "has a bare control character in a string at byte %d", i)
		default:
			i++
		}
	}
	s.pos = len(s.in)
	return nil, s.unexpected()
}

// escape is the length of the escape that b starts with, both halves of a
// surrogate pair taken together; 0 if it is malformed, -1 if it is half a pair.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r := unit(b)
		if r < 0 {
			return 0
		}
		if !utf16.IsSurrogate(r) {
			return 6
		}
		if low := unit(b[6:]); low >= 0 && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12
		}
		return -1
	}
	return 0
}

// unit is the number of the \uXXXX that b starts with, or -1.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// unquoted is what the inside of a string that the scanner accepted stands for.
// It is inside itself if nothing in it is escaped.
func unquoted(inside []byte) []byte {
	i := bytes.IndexByte(inside, '\\')
	if i < 0 {
		return inside
	}
	out := make([]byte, 0, len(inside))
	for i >= 0 {
		out = append(out, inside[:i]...)
		n := max(escape(inside[i:]), 2)
		out = appendUnescaped(out, inside[i:min(i+n, len(inside))])
		inside = inside[min(i+n, len(inside)):]
		i = bytes.IndexByte(inside, '\\')
	}
	return append(out, inside...)
}

// appendUnescaped appends what one escape stands for.
func appendUnescaped(out, escape []byte) []byte {
	if len(escape) < 2 {
		return out
	}
	switch c := escape[1]; c {
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'u':
		r := unit(escape)
		if len(escape) == 12 {
			r = utf16.DecodeRune(r, unit(escape[6:]))
		}
		return utf8.AppendRune(out, r)
	default:
		return append(out, c)
	}
}
