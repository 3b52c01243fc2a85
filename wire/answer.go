package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"rollcall"
)

// AppendOK appends the body of an ok to a WebSocket message:
//
//	{"id"?,...}
//
// fields is one JSON object, whose fields are those of the answer that HTTP
// gives, or nothing.
func AppendOK(b []byte, id json.RawMessage, fields []byte) []byte {
	b = append(b, '{')
	b = appendID(b, id)
	if len(fields) <= 2 {
		return append(b, '}')
	}
	if len(id) > 0 {
		b = append(b, ',')
	}
	return append(b, fields[1:]...)
}

// AppendError appends the body of an error to a WebSocket message:
//
//	{"id"?,"code","message","retry","limit"?}
func AppendError(b []byte, id json.RawMessage, e *rollcall.Error) []byte {
	b = append(b, '{')
	b = appendID(b, id)
	if len(id) > 0 {
		b = append(b, ',')
	}
	b = append(b, `"code":`...)
	b = appendString(b, string(e.Code))
	b = append(b, `,"message":`...)
	b = appendString(b, e.Detail)
	b = append(b, `,"retry":`...)
	b = strconv.AppendBool(b, e.Code.Retry())
	b = appendLimit(b, e.Limit)
	return append(b, '}')
}

// AppendPong appends the body of a pong, {"id"?}.
func AppendPong(b []byte, id json.RawMessage) []byte { return AppendOK(b, id, nil) }

func appendID(b []byte, id json.RawMessage) []byte {
	if len(id) == 0 {
		return b
	}
	b = append(b, `"id":`...)
	return append(b, id...)
}

func appendLimit(b []byte, limit int) []byte {
	if limit == 0 {
		return b
	}
	b = append(b, `,"limit":`...)
	return appendNumber(b, int64(limit))
}

// Lease is the answer to a grant or a renewal by HTTP.
type Lease struct {
	Connection rollcall.ConnectionID
	Resume     string
	Lease      time.Duration
	Member     *rollcall.Member
}

// AppendLease appends {"connection","resume","leaseMs","member"}. A nil member,
// that of a hidden user, is null.
func AppendLease(b []byte, l Lease) []byte {
	b = append(b, `{"connection":`...)
	b = appendString(b, string(l.Connection))
	b = append(b, `,"resume":`...)
	b = appendString(b, l.Resume)
	b = append(b, `,"leaseMs":`...)
	b = appendMillis(b, l.Lease)
	b = append(b, `,"member":`...)
	b = appendMemberOrNull(b, l.Member)
	return append(b, '}')
}

// AppendPatched appends {"member"}, the answer to a set. A nil member, that of a
// hidden user, is null.
func AppendPatched(b []byte, m *rollcall.Member) []byte {
	b = append(b, `{"member":`...)
	b = appendMemberOrNull(b, m)
	return append(b, '}')
}

func appendMemberOrNull(b []byte, m *rollcall.Member) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	return AppendMember(b, m)
}
