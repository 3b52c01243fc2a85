package rollcall

import (
	"bytes"
	"encoding/json"
)

// MergeObjects merges the top-level keys of patch into old. Both are compact,
// valid JSON objects; values are kept to the byte, and keys stay in the order in
// which they first came.
func MergeObjects(old, patch json.RawMessage) json.RawMessage {
	// The text may name a key twice: the last one counts, in both.
	var fields []field
	for _, f := range appendFields(appendFields(nil, old), patch) {
		fields = putField(fields, f)
	}
	out := make(json.RawMessage, 0, len(old)+len(patch))
	out = append(out, '{')
	for i, f := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, f.key...), ':'), f.value...)
	}
	return append(out, '}')
}

// field is one key, with its quotes, and its value, as they stand in the text.
type field struct{ key, value []byte }

func putField(fields []field, f field) []field {
	for i := range fields {
		if sameKey(fields[i].key, f.key) {
			fields[i].value = f.value
			return fields
		}
	}
	return append(fields, f)
}

// sameKey compares two quoted keys; only those with escapes have to be decoded.
func sameKey(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	var x, y string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

// appendFields splits a compact object at its top level.
func appendFields(fields []field, object []byte) []field {
	for i := 1; i < len(object) && object[i] == '"'; {
		keyEnd := stringEnd(object, i)
		valueEnd := valueEnd(object, keyEnd+1)
		fields = append(fields, field{key: object[i:keyEnd], value: object[keyEnd+1 : valueEnd]})
		i = valueEnd + 1
	}
	return fields
}

// stringEnd is the index after the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd is the index after the value that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
