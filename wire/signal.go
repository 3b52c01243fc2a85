package wire

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"rollcall"
)

// Signals is what changed of the signals of a room, or all that live.
type Signals struct {
	Room    rollcall.RoomID
	Signals []rollcall.Signal // Data is nil for one that has ended
	Full    bool              // all that live: what is not there has ended
}

// AppendSignals appends the body of signals:
//
//	{"room","signals":[{"user","connection","kind","data","docVersion"?,"ttlMs"?}],"full"?:true}
//
// data is null for one that has ended. ttlMs is the time left, and left out for
// what lives until the lease of its sender ends.
func AppendSignals(b []byte, room rollcall.RoomID, signals []rollcall.Signal, full bool) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"signals":[`...)
	for i := range signals {
		if i > 0 {
			b = append(b, ',')
		}
		s := &signals[i]
		b = append(b, `{"user":`...)
		b = appendString(b, string(s.User))
		b = append(b, `,"connection":`...)
		b = appendString(b, string(s.Connection))
		b = append(b, `,"kind":`...)
		b = appendString(b, s.Kind)
		b = appendSignalValue(b, s)
		b = append(b, '}')
	}
	b = append(b, ']')
	return append(appendFlag(b, "full", full), '}')
}

// appendSignalValue appends the value of a signal: data, docVersion, ttlMs.
func appendSignalValue(b []byte, s *rollcall.Signal) []byte {
	b = append(b, `,"data":`...)
	if s.Data == nil {
		return append(b, `null,"ttlMs":0`...)
	}
	b = appendValue(b, s.Data)
	if s.DocVersion != nil {
		b = append(b, `,"docVersion":`...)
		b = appendValue(b, s.DocVersion)
	}
	if s.TTL > 0 {
		b = append(b, `,"ttlMs":`...)
		b = appendMillis(b, s.TTL)
	}
	return b
}

// appendValue appends a value that came through [Value].
func appendValue(b []byte, raw json.RawMessage) []byte {
	if !utf8.Valid(raw) {
		return append(b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))...)
	}
	return append(b, raw...)
}

// SignalsRequest is the body of a POST of signals.
type SignalsRequest struct {
	Signals []rollcall.Signal
	Resume  string // of a body that is one object
}

// DecodeSignals reads {kind, data, docVersion?, ttlMs?, resume?} or a list of
// these. limits gives the sizes.
func DecodeSignals(raw []byte, limits *rollcall.Limits) (r SignalsRequest, err error) {
	if pos := space(raw, 0); pos == len(raw) || raw[pos] != '[' {
		f := body(raw)
		var s rollcall.Signal
		s, r.Resume = readSignal(&f, limits)
		r.Signals = []rollcall.Signal{s}
		return r, asError(f.err)
	}
	compact, refused := scan(raw, 0, rollcall.MaxDepth+2)
	if refused != nil {
		return r, named("body", refused)
	}
	list := newItems(compact)
	for list.next() {
		if len(r.Signals) == MaxMessages {
			return r, rollcall.LimitError(rollcall.CodeTooLarge, MaxMessages, "body has more than %d signals", MaxMessages)
		}
		if list.value[0] != '{' {
			return r, rollcall.Errorf(rollcall.CodeBadRequest, "each of body must be a JSON object")
		}
		f := newFields(list.value)
		s, _ := readSignal(&f, limits)
		if f.err != nil {
			return r, f.err
		}
		r.Signals = append(r.Signals, s)
	}
	return r, nil
}

// readSignal reads a signal as a client sends it.
func readSignal(f *fields, limits *rollcall.Limits) (s rollcall.Signal, resume string) {
	given := false
	for f.next() {
		switch string(f.key) {
		case "resume":
			f.text(&resume)
		case "data":
			given = true
			f.signal(&s, limits)
		default:
			f.signal(&s, limits)
		}
	}
	f.needSignal(&s, given, limits)
	return s, resume
}

// needSignal checks what a signal must have.
func (f *fields) needSignal(s *rollcall.Signal, given bool, limits *rollcall.Limits) {
	f.need("kind", s.Kind != "")
	f.need("data", given)
	if f.err == nil {
		f.err = limits.CheckSignal(s)
	}
}

// signal reads one field of a signal.
func (f *fields) signal(s *rollcall.Signal, limits *rollcall.Limits) {
	switch string(f.key) {
	case "kind":
		f.text(&s.Kind)
	case "data":
		f.any(&s.Data, limits.Signal)
	case "docVersion":
		f.any(&s.DocVersion, limits.SignalDocVersion)
		if v := s.DocVersion; f.err == nil && v != nil && v[0] != '"' && v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			f.fail("a number or a string")
		}
	case "ttlMs":
		f.millis(&s.TTL)
		s.TTL = max(s.TTL, time.Millisecond) // 0 would be the default
	}
}

// any reads a value; null is nil. It is copied, so that a small value does not
// keep a large message in memory.
func (f *fields) any(to *json.RawMessage, limit int) {
	switch {
	case string(f.value) == "null":
		*to = nil
	case limit > 0 && len(f.value) > limit:
		f.err = rollcall.LimitError(rollcall.CodeTooLarge, limit, "%s%s is larger than %d bytes", f.path, f.key, limit)
	default:
		*to = bytes.Clone(f.value)
	}
}

// AppendSignal appends the body of a POST of one signal.
func AppendSignal(b []byte, s *rollcall.Signal) []byte {
	b = append(b, `{"kind":`...)
	b = appendString(b, s.Kind)
	return append(appendSignalRequest(b, s), '}')
}

// appendSignalRequest appends what a client says of a value.
func appendSignalRequest(b []byte, s *rollcall.Signal) []byte {
	b = append(b, `,"data":`...)
	if s.Data == nil {
		b = append(b, `null`...)
	} else {
		b = appendValue(b, s.Data)
	}
	if s.DocVersion != nil {
		b = append(b, `,"docVersion":`...)
		b = appendValue(b, s.DocVersion)
	}
	if s.TTL > 0 {
		b = append(b, `,"ttlMs":`...)
		b = appendMillis(b, s.TTL)
	}
	return b
}

func readSignals(f *fields) any {
	var s Signals
	found := false
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&s.Room)
		case "signals":
			found = true
			s.Signals = f.signals()
		case "full":
			f.boolean(&s.Full)
		}
	}
	f.need("room", s.Room != "")
	f.need("signals", found)
	return &s
}

// signals reads a list of signals as a server tells them.
func (f *fields) signals() []rollcall.Signal {
	if f.value[0] != '[' {
		f.fail("a list")
		return nil
	}
	all := []rollcall.Signal{}
	var none rollcall.Limits // a server has its own
	for list := newItems(f.value); list.next(); {
		if list.value[0] != '{' {
			f.fail("a list of objects")
			return nil
		}
		in := newFields(list.value)
		in.path = f.path + "signals: "
		var s rollcall.Signal
		for in.next() {
			switch string(in.key) {
			case "user":
				in.user(&s.User)
			case "connection":
				s.Connection = rollcall.ConnectionID(in.id())
			case "ttlMs":
				in.millis(&s.TTL)
			default:
				in.signal(&s, &none)
			}
		}
		in.need("user", s.User != "")
		in.need("connection", s.Connection != "")
		in.need("kind", s.Kind != "")
		if f.err = in.err; f.err != nil {
			return nil
		}
		all = append(all, s)
	}
	return all
}
