package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"rollcall"
)

// fields goes over the fields of an object. What it reads has been accepted by
// the scanner, except where [recoverID] looks into what has not; so it trusts the
// structure, but never past the end. Names are compared exactly, which
// encoding/json does not do.
//
//	for f.next() {
//		switch string(f.key) {
//		case "room":
//			f.room(&m.Room)
//		}
//	}
//	return f.err
type fields struct {
	in    []byte
	pos   int
	path  string // before the names in errors: "since."
	key   []byte // decoded
	value []byte
	err   *rollcall.Error
}

// newFields goes over an object.
func newFields(object []byte) fields { return fields{in: object, pos: space(object, 0) + 1} }

// next goes to the next field; false at the end, and once there is an error.
func (f *fields) next() bool {
	if f.err != nil {
		return false
	}
	start := space(f.in, f.pos)
	if start < len(f.in) && f.in[start] == ',' {
		start = space(f.in, start+1)
	}
	if start >= len(f.in) || f.in[start] != '"' {
		return false
	}
	end := skip(f.in, start)
	if end < 0 {
		return false
	}
	f.key = unquoted(f.in[start+1 : end-1])
	colon := space(f.in, end)
	if colon >= len(f.in) || f.in[colon] != ':' {
		return false
	}
	start = space(f.in, colon+1)
	if end = skip(f.in, start); end < 0 {
		return false
	}
	f.value, f.pos = f.in[start:end], end
	return true
}

// fail tells that the field is not what it must be.
func (f *fields) fail(must string) {
	f.err = rollcall.Errorf(rollcall.CodeBadRequest, "%s%s must be %s", f.path, f.key, must)
}

func (f *fields) text(to *string) {
	if f.value[0] != '"' {
		f.fail("a string")
		return
	}
	*to = string(unquoted(f.value[1 : len(f.value)-1]))
}

// id reads the id of a room or a user.
func (f *fields) id() string {
	var s string
	f.text(&s)
	if f.err == nil && !rollcall.ValidID(s) {
		f.fail("an id: 1 to 256 bytes of UTF-8, not . or ..")
	}
	return s
}

func (f *fields) room(to *rollcall.RoomID) { *to = rollcall.RoomID(f.id()) }
func (f *fields) user(to *rollcall.UserID) { *to = rollcall.UserID(f.id()) }

func (f *fields) boolean(to *bool) {
	if f.value[0] != 't' && f.value[0] != 'f' {
		f.fail("true or false")
		return
	}
	*to = f.value[0] == 't'
}

// integer reads a whole number from 0 to 2^53-1.
func (f *fields) integer(to *int64) {
	n, ok := parseInteger(f.value)
	if !ok {
		f.fail("a whole number from 0 to 2^53-1")
		return
	}
	*to = n
}

// millis reads a duration. What no [time.Duration] can hold is the largest.
func (f *fields) millis(to *time.Duration) {
	var n int64
	f.integer(&n)
	*to = time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func (f *fields) status(to *rollcall.Status) {
	var s string
	f.text(&s)
	status, ok := rollcall.ParseStatus(s)
	if f.err == nil && !ok {
		f.fail("active, idle or away")
	}
	*to = status
}

// object reads an object of at most limit bytes, or any if limit is 0. It is
// copied, so that a small value does not keep a large message in memory.
func (f *fields) object(to *json.RawMessage, limit int) {
	if f.value[0] != '{' {
		f.fail("a JSON object")
		return
	}
	if limit > 0 && len(f.value) > limit {
		f.err = rollcall.LimitError(rollcall.CodeTooLarge, limit, "%s%s is larger than %d bytes", f.path, f.key, limit)
		return
	}
	*to = bytes.Clone(f.value)
}

// parseInteger reads what [fields.integer] does.
func parseInteger(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n < 1<<53
}

// asError keeps a nil *rollcall.Error from becoming an error that is not nil.
func asError(err *rollcall.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// required is the error for a field that is not there, or nil if ok.
func required(name string, ok bool) *rollcall.Error {
	if ok {
		return nil
	}
	return rollcall.Errorf(rollcall.CodeBadRequest, "%s is required", name)
}

// need tells that a field is required; nothing if there is an error already.
func (f *fields) need(name string, ok bool) {
	if f.err == nil {
		f.err = required(f.path+name, ok)
	}
}
