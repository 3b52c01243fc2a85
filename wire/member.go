package wire

import (
	"rollcall"
)

// AppendMember appends a member:
//
//	{"user","info","status","connections","since","data"}
//
// info and data are always there, {} if there is none. m is only read.
func AppendMember(b []byte, m *rollcall.Member) []byte {
	return append(appendOpenMember(b, m), '}')
}

// AppendMemberConnections appends a member with "byConnection", the answer to a
// read with connections=1:
//
//	[{"connection","status","data"}]
func AppendMemberConnections(b []byte, m *rollcall.Member, connections []rollcall.ConnectionState) []byte {
	b = appendOpenMember(b, m)
	b = append(b, `,"byConnection":[`...)
	for i := range connections {
		if i > 0 {
			b = append(b, ',')
		}
		c := &connections[i]
		b = append(b, `{"connection":`...)
		b = appendString(b, string(c.Connection))
		b = append(b, `,"status":"`...)
		b = append(b, c.Status.String()...)
		b = append(b, `","data":`...)
		b = appendObject(b, c.Data)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// appendOpenMember appends a member without its closing brace.
func appendOpenMember(b []byte, m *rollcall.Member) []byte {
	b = append(b, `{"user":`...)
	b = appendString(b, string(m.User))
	b = append(b, `,"info":`...)
	b = appendObject(b, m.Info)
	b = append(b, `,"status":"`...)
	b = append(b, m.Status.String()...)
	b = append(b, `","connections":`...)
	b = appendNumber(b, int64(m.Connections))
	b = append(b, `,"since":`...)
	b = appendNumber(b, m.Since)
	b = append(b, `,"data":`...)
	return appendObject(b, m.Data)
}

// appendMembers appends a list of members; never null.
func appendMembers(b []byte, members []*rollcall.Member) []byte {
	b = append(b, '[')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendMember(b, m)
	}
	return append(b, ']')
}
