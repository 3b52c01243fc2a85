package wire

import (
	"bytes"
	"unicode/utf8"

	"rollcall"
)

// MaxMessages is the most messages in one array: more than the burst that the
// limit of messages allows, so nobody can use more. It keeps a frame of 64 KiB
// of {},{},... from becoming a hundred times that in memory.
const MaxMessages = 256

// split cuts a frame, one object or an array, into its elements. It looks at
// strings and brackets alone: whether an element is good is asked of each by
// itself, so that a bad one does not take the others with it.
func split(raw []byte, most int) ([][]byte, *rollcall.Error) {
	if !utf8.Valid(raw) {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "frame is not valid UTF-8")
	}
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "frame must be a JSON object or an array of objects")
	}
	if skip(raw, 0) != len(raw) {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "frame is not JSON")
	}
	if raw[0] == '{' {
		return [][]byte{raw}, nil
	}
	return elements(raw, most)
}

// elements cuts an array. most is the most elements; 0 is no limit.
func elements(array []byte, most int) ([][]byte, *rollcall.Error) {
	var list [][]byte
	pos := space(array, 1)
	if pos < len(array) && array[pos] == ']' {
		return nil, nil
	}
	for {
		end := skip(array, pos)
		if end < 0 {
			return nil, rollcall.Errorf(rollcall.CodeBadRequest, "frame is not JSON")
		}
		if most > 0 && len(list) == most {
			return nil, rollcall.LimitError(rollcall.CodeTooLarge, most, "frame has more than %d messages", most)
		}
		list = append(list, array[pos:end])
		pos = space(array, end)
		if pos >= len(array) || array[pos] != ',' {
			break
		}
		pos = space(array, pos+1)
	}
	if pos != len(array)-1 || array[pos] != ']' {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "frame is not JSON")
	}
	return list, nil
}

// skip is the position after the value at pos, or -1 if there is none. It is
// exact for what the scanner accepted; of anything else it is a guess that stays
// inside.
func skip(in []byte, pos int) int {
	open := 0
	for pos < len(in) {
		switch c := in[pos]; c {
		case '"':
			if pos = skipString(in, pos); pos < 0 {
				return -1
			}
		case '{', '[':
			open++
			pos++
		case '}', ']':
			if open == 0 {
				return -1
			}
			open--
			pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			if open == 0 {
				return -1
			}
			pos++
			continue
		default:
			pos = skipScalar(in, pos)
		}
		if open == 0 {
			return pos
		}
	}
	return -1
}

// skipString is the position after the string at pos, or -1 if it does not end.
func skipString(in []byte, pos int) int {
	for i := pos + 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// skipScalar is the position after the run of bytes at pos that end no value.
func skipScalar(in []byte, pos int) int {
	for pos < len(in) && !delimits[in[pos]] {
		pos++
	}
	return pos
}

// delimits tells the bytes that end a number or a word.
var delimits = func() (t [256]bool) {
	for _, c := range []byte(",:{}[]\" \t\r\n") {
		t[c] = true
	}
	return t
}()
