package wire

import (
	"bytes"
	"encoding/json"

	"rollcall"
)

// Value checks one untrusted JSON value and returns its compact form, a new
// slice on one line: the tokens as they were written, with nothing between them.
// limit is the most bytes of the compact form; 0 is no limit.
//
// The error is a [*rollcall.Error]: too_large over the limit, and with
// [rollcall.MaxDepth] for nesting; bad_request for what is not JSON, and for what
// is but means different things to different readers: half a surrogate pair, a
// number beyond float64, the same key twice.
func Value(raw []byte, limit int) (json.RawMessage, error) {
	out, err := scan(raw, limit, rollcall.MaxDepth)
	if err != nil {
		return nil, named("value", err)
	}
	return out, nil
}

// Object is [Value] for a value that must be an object.
func Object(raw []byte, limit int) (json.RawMessage, error) {
	return object("value", raw, limit)
}

// DecodeData reads the data of a query parameter; nil for none.
func DecodeData(query string, limit int) (json.RawMessage, error) {
	if query == "" {
		return nil, nil
	}
	return object("data", []byte(query), limit)
}

// DecodeInfo reads the info of a token or of an answer of the application; nil
// for none, which null is too.
func DecodeInfo(raw []byte, limit int) (json.RawMessage, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	return object("info", raw, limit)
}

func object(name string, raw []byte, limit int) (json.RawMessage, error) {
	if pos := space(raw, 0); pos < len(raw) && raw[pos] != '{' {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "%s must be a JSON object", name)
	}
	out, err := scan(raw, limit, rollcall.MaxDepth)
	if err != nil {
		return nil, named(name, err)
	}
	return out, nil
}

// named puts the name of what was read before the detail of err.
func named(name string, err *rollcall.Error) *rollcall.Error {
	return &rollcall.Error{Code: err.Code, Detail: name + " " + err.Detail, Limit: err.Limit}
}
