package wire

import (
	"encoding/json"

	"rollcall"
)

// DecodeMember reads a member.
func DecodeMember(raw []byte) (*rollcall.Member, error) {
	f := answer("member", raw)
	m := f.readMember()
	if f.err != nil {
		return nil, f.err
	}
	return m, nil
}

// members reads a list of members; never nil.
func (f *fields) members() []*rollcall.Member {
	list := []*rollcall.Member{}
	f.each(func(in *fields) { list = append(list, in.readMember()) })
	return list
}

// readMember reads a member whose fields f goes over. A status of a later
// release is StatusUnset.
func (f *fields) readMember() *rollcall.Member {
	m := &rollcall.Member{Connections: 1}
	for f.next() {
		switch string(f.key) {
		case "user":
			f.user(&m.User)
		case "info":
			f.object(&m.Info, 0)
		case "status":
			f.anyStatus(&m.Status)
		case "connections":
			f.count(&m.Connections)
		case "since":
			f.integer(&m.Since)
		case "data":
			f.object(&m.Data, 0)
		}
	}
	f.need("user", m.User != "")
	return m
}

// connectionStates reads byConnection.
func (f *fields) connectionStates() []rollcall.ConnectionState {
	list := []rollcall.ConnectionState{}
	f.each(func(in *fields) {
		var c rollcall.ConnectionState
		for in.next() {
			switch string(in.key) {
			case "connection":
				c.Connection = rollcall.ConnectionID(in.id())
			case "status":
				in.anyStatus(&c.Status)
			case "data":
				in.object(&c.Data, 0)
			}
		}
		in.need("connection", c.Connection != "")
		list = append(list, c)
	})
	return list
}

func (f *fields) anyStatus(to *rollcall.Status) {
	var s string
	f.text(&s)
	*to, _ = rollcall.ParseStatus(s)
}

// each goes over a list of objects, and stops at the first error.
func (f *fields) each(read func(*fields)) {
	if f.value[0] != '[' {
		f.fail("a list")
		return
	}
	list := newItems(f.value)
	path := f.path + string(f.key) + "[]."
	for f.err == nil && list.next() {
		in := newFields(list.value)
		in.path = path
		if list.value[0] != '{' {
			f.fail("a list of objects")
			return
		}
		read(&in)
		f.err = in.err
	}
}

// answer goes over the body of an answer; an error is in the result.
func answer(name string, raw []byte) fields {
	compact, err := scan(raw, 0, eventDepth)
	if err == nil && compact[0] != '{' {
		err = rollcall.Errorf(rollcall.CodeBadRequest, "must be a JSON object")
	}
	if err != nil {
		return fields{err: named(name, err)}
	}
	f := newFields(compact)
	f.path = name + "."
	return f
}

// rawID reads the id of an answer; null is none.
func (f *fields) rawID(to *json.RawMessage) {
	if string(f.value) != "null" {
		f.messageID(to)
	}
}
