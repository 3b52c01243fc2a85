package wire

import (
	"encoding/json"
	"time"

	"rollcall"
)

// Bodies of HTTP requests. A body of nothing is {}, as many clients send none
// where every field may be left out. Errors are [*rollcall.Error]s. Resume, where
// a body has it, is the secret of the connection, "" if the body has none.

// Beat is the body of a beat.
type Beat struct {
	N      int64 // the beat that is answered; 0, which no beat has, if none is
	Resume string
}

// DecodeBeat reads {n?, resume?}.
func DecodeBeat(raw []byte) (b Beat, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "n":
			f.integer(&b.N)
		case "resume":
			f.text(&b.Resume)
		}
	}
	return b, asError(f.err)
}

// Release is the body of a release.
type Release struct {
	Closing bool // closed, as by a tab, and not left
	Resume  string
}

// DecodeRelease reads {closing?, resume?}.
func DecodeRelease(raw []byte) (r Release, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "closing":
			f.boolean(&r.Closing)
		case "resume":
			f.text(&r.Resume)
		}
	}
	return r, asError(f.err)
}

// Token is the body of an auth.
type Token struct {
	Token  string
	Resume string
}

// DecodeToken reads {token, resume?}.
func DecodeToken(raw []byte) (t Token, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "token":
			f.text(&t.Token)
		case "resume":
			f.text(&t.Resume)
		}
	}
	f.need("token", t.Token != "")
	return t, asError(f.err)
}

// LeaseRequest is the body of a grant or a renewal without a stream.
type LeaseRequest struct {
	Status rollcall.Status // StatusUnset if not given
	Data   json.RawMessage // nil if not given
	HasTTL bool
	TTL    time.Duration // as asked for; the limits are the server's to apply
	// The next three are for the application's keys alone.
	User       rollcall.UserID
	Info       json.RawMessage
	Connection rollcall.ConnectionID
	Resume     string
}

// DecodeLease reads {status?, data?, ttlMs?, user?, info?, connection?, resume?}.
// limits gives the sizes of data and info.
func DecodeLease(raw []byte, limits *rollcall.Limits) (l LeaseRequest, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "status":
			f.status(&l.Status)
		case "data":
			f.object(&l.Data, limits.Data)
		case "ttlMs":
			f.millis(&l.TTL)
			l.HasTTL = true
		case "user":
			f.user(&l.User)
		case "info":
			f.object(&l.Info, limits.Info)
		case "connection":
			l.Connection = rollcall.ConnectionID(f.id())
		case "resume":
			f.text(&l.Resume)
		}
	}
	return l, asError(f.err)
}

// Patch is the body of a set.
type Patch struct {
	Status  rollcall.Status // StatusUnset if not given
	Data    json.RawMessage // nil if not given
	Replace bool            // data replaces what was, and is not merged
	Resume  string
}

// DecodePatch reads {status?, data?, replace?, resume?}. limits gives the size of
// data.
func DecodePatch(raw []byte, limits *rollcall.Limits) (p Patch, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "status":
			f.status(&p.Status)
		case "data":
			f.object(&p.Data, limits.Data)
		case "replace":
			f.boolean(&p.Replace)
		case "resume":
			f.text(&p.Resume)
		}
	}
	return p, asError(f.err)
}

// DefaultBan is how long a kick keeps a user out if the body does not say.
const DefaultBan = time.Minute

// DecodeKick reads {banMs?}.
func DecodeKick(raw []byte) (ban time.Duration, err error) {
	ban = DefaultBan
	f := body(raw)
	for f.next() {
		if string(f.key) == "banMs" {
			f.millis(&ban)
		}
	}
	return ban, asError(f.err)
}

// body goes over a body; an error is in the result.
func body(raw []byte) fields {
	if space(raw, 0) == len(raw) {
		return newFields([]byte("{}"))
	}
	if raw[space(raw, 0)] != '{' {
		return fields{err: rollcall.Errorf(rollcall.CodeBadRequest, "body must be a JSON object")}
	}
	compact, err := scan(raw, 0, rollcall.MaxDepth+1) // the body is the envelope of its values
	if err != nil {
		return fields{err: named("body", err)}
	}
	return newFields(compact)
}
