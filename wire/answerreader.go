package wire

import "rollcall"

// The readers of HTTP answers, for clients. Errors are [*rollcall.Error]s: the
// answer is not what this protocol says.

// DecodeRoomInfo reads the answer to a read of a room.
func DecodeRoomInfo(raw []byte) (r RoomInfo, err error) {
	r.Count = -1
	f := answer("room", raw)
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&r.Room)
		case "mode":
			var m string
			f.text(&m)
			r.Mode = Mode(m)
		case "count":
			f.count(&r.Count)
		case "connections":
			f.count(&r.Connections)
		case "estimate":
			f.boolean(&r.Estimate)
		case "standardError":
			f.fraction(&r.StandardError)
		case "epoch":
			f.epoch(&r.Epoch)
		case "version":
			f.version(&r.Version)
		}
	}
	f.need("room", r.Room != "")
	f.need("count", r.Count >= 0)
	return r, asError(f.err)
}

// DecodeMembersPage reads a page of members. ByConnection is nil if no member of
// the page has it.
func DecodeMembersPage(raw []byte) (p MembersPage, err error) {
	p.Count = -1
	f := answer("page", raw)
	for f.next() {
		switch string(f.key) {
		case "members":
			p.Members, p.ByConnection = f.detailedMembers()
		case "nextCursor":
			f.textOrNull(&p.NextCursor)
		case "count":
			f.count(&p.Count)
		case "version":
			f.version(&p.Version)
		}
	}
	f.need("members", p.Members != nil)
	f.need("count", p.Count >= 0)
	return p, asError(f.err)
}

// DecodePresent reads the answer to a lookup.
func DecodePresent(raw []byte) (present []*rollcall.Member, err error) {
	f := answer("lookup", raw)
	for f.next() {
		if string(f.key) == "present" {
			present = f.members()
		}
	}
	f.need("present", present != nil)
	return present, asError(f.err)
}

// DecodeRoomCounts reads the answer to a counts request.
func DecodeRoomCounts(raw []byte) (counts []RoomCount, err error) {
	f := answer("answer", raw)
	for f.next() {
		if string(f.key) == "counts" {
			counts = f.roomCounts()
		}
	}
	f.need("counts", counts != nil)
	return counts, asError(f.err)
}

func (f *fields) roomCounts() []RoomCount {
	if f.value[0] != '{' {
		f.fail("an object")
		return nil
	}
	counts := []RoomCount{}
	in := newFields(f.value)
	in.path = f.path + "counts: "
	for in.next() {
		c := RoomCount{Room: rollcall.RoomID(in.key)}
		in.count(&c.Count)
		counts = append(counts, c)
	}
	f.err = in.err
	return counts
}

// DecodeLeaseAnswer reads the answer to a grant or a renewal.
func DecodeLeaseAnswer(raw []byte) (l Lease, err error) {
	f := answer("lease", raw)
	for f.next() {
		switch string(f.key) {
		case "connection":
			l.Connection = rollcall.ConnectionID(f.id())
		case "resume":
			f.text(&l.Resume)
		case "leaseMs":
			f.millis(&l.Lease)
		case "member":
			f.memberOrNull(&l.Member)
		}
	}
	f.need("connection", l.Connection != "")
	return l, asError(f.err)
}

// DecodePatched reads the answer to a set; nil for a hidden user.
func DecodePatched(raw []byte) (m *rollcall.Member, err error) {
	f := answer("answer", raw)
	for f.next() {
		if string(f.key) == "member" {
			f.memberOrNull(&m)
		}
	}
	return m, asError(f.err)
}

// DecodeProblem reads the body of an HTTP error: what it says and the id of the
// request, for the log.
func DecodeProblem(raw []byte) (problem *rollcall.Error, requestID string, err error) {
	problem = &rollcall.Error{}
	f := answer("problem", raw)
	for f.next() {
		switch string(f.key) {
		case "code":
			f.code(&problem.Code)
		case "detail":
			f.text(&problem.Detail)
		case "limit":
			f.count(&problem.Limit)
		case "requestId":
			f.text(&requestID)
		}
	}
	f.need("code", problem.Code != "")
	if f.err != nil {
		return nil, "", f.err
	}
	return problem, requestID, nil
}

// detailedMembers reads members that may have byConnection.
func (f *fields) detailedMembers() (members []*rollcall.Member, connections [][]rollcall.ConnectionState) {
	members = []*rollcall.Member{}
	f.each(func(in *fields) {
		detail := *in
		members = append(members, in.readMember())
		for detail.next() {
			if string(detail.key) == "byConnection" {
				for len(connections) < len(members)-1 {
					connections = append(connections, nil)
				}
				connections = append(connections, detail.connectionStates())
			}
		}
		if in.err == nil {
			in.err = detail.err
		}
	})
	for connections != nil && len(connections) < len(members) {
		connections = append(connections, nil)
	}
	return members, connections
}

func (f *fields) memberOrNull(to **rollcall.Member) {
	switch f.value[0] {
	case '{':
		in := newFields(f.value)
		in.path = f.path + string(f.key) + "."
		*to = in.readMember()
		f.err = in.err
	case 'n':
	default:
		f.fail("a member or null")
	}
}

func (f *fields) textOrNull(to *string) {
	if string(f.value) != "null" {
		f.text(to)
	}
}
