package wire

import (
	"encoding/json"
	"time"

	"rollcall"
)

// What a client writes: messages and bodies of requests. Fields that are zero are
// left out.

// Append appends the message as one JSON object. Err is not part of it.
func (m *Message) Append(b []byte) []byte {
	b = append(b, `{"type":`...)
	b = appendString(b, m.Type)
	if len(m.ID) > 0 {
		b = append(b, `,"id":`...)
		b = append(b, m.ID...)
	}
	b = appendTextField(b, "room", string(m.Room))
	b = appendTextField(b, "status", m.Status.String())
	b = appendObjectField(b, "data", m.Data)
	b = appendFlag(b, "replace", m.Replace)
	b = appendFlag(b, "observe", m.Observe)
	b = appendTextField(b, "tier", string(m.Tier))
	if m.Since != nil {
		b = append(b, `,"since":{"epoch":`...)
		b = appendString(b, string(m.Since.Epoch))
		b = append(b, `,"version":`...)
		b = appendNumber(b, int64(m.Since.Version))
		b = append(b, '}')
	}
	b = appendTextField(b, "token", m.Token)
	if m.Signal != nil {
		b = appendTextField(b, "kind", m.Signal.Kind)
		b = appendSignalRequest(b, m.Signal)
	}
	b = appendTextField(b, "page", m.Page)
	b = appendTextField(b, "cursor", m.Cursor)
	b = appendLimitField(b, m.Limit)
	if m.Users != nil {
		b = append(b, ',')
		b = append(b, AppendUsers(nil, m.Users)[1:]...)
		return b
	}
	return append(b, '}')
}

// Append appends the body.
func (r *Beat) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	if r.N != 0 {
		b = append(b, `,"n":`...)
		b = appendNumber(b, r.N)
	}
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

// Append appends the body.
func (r *Release) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	b = appendFlag(b, "closing", r.Closing)
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

// Append appends the body.
func (r *Token) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	b = appendTextField(b, "token", r.Token)
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

// Append appends the body.
func (r *LeaseRequest) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	b = appendTextField(b, "status", r.Status.String())
	b = appendObjectField(b, "data", r.Data)
	if r.HasTTL {
		b = append(b, `,"ttlMs":`...)
		b = appendMillis(b, r.TTL)
	}
	b = appendTextField(b, "user", string(r.User))
	b = appendObjectField(b, "info", r.Info)
	b = appendTextField(b, "connection", string(r.Connection))
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

// Append appends the body.
func (r *Patch) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	b = appendTextField(b, "status", r.Status.String())
	b = appendObjectField(b, "data", r.Data)
	b = appendFlag(b, "replace", r.Replace)
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

// AppendUsers appends {"users":[...]}.
func AppendUsers(b []byte, users []rollcall.UserID) []byte { return appendIDs(b, `{"users":[`, users) }

// AppendRooms appends {"rooms":[...]}.
func AppendRooms(b []byte, rooms []rollcall.RoomID) []byte { return appendIDs(b, `{"rooms":[`, rooms) }

// AppendKick appends {"banMs"}.
func AppendKick(b []byte, ban time.Duration) []byte {
	return append(appendMillis(append(b, `{"banMs":`...), ban), '}')
}

func appendIDs[ID ~string](b []byte, open string, ids []ID) []byte {
	b = append(b, open...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, string(id))
	}
	return append(b, "]}"...)
}

// The fields below start with their comma; closeObject takes the first one out.

func appendTextField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendString(b, value)
}

func appendObjectField(b []byte, name string, value json.RawMessage) []byte {
	if value == nil {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendObject(b, value)
}

func appendFlag(b []byte, name string, value bool) []byte {
	if !value {
		return b
	}
	return append(append(append(b, `,"`...), name...), `":true`...)
}

// closeObject closes the object that opens at start.
func closeObject(b []byte, start int) []byte {
	if len(b) > start+1 {
		b = append(b[:start+1], b[start+2:]...)
	}
	return append(b, '}')
}
