package wire

import (
	"rollcall"
)

// RoomInfo is the answer to a read of a room. A room nobody is in has a count
// of 0.
type RoomInfo struct {
	Room        rollcall.RoomID
	Mode        Mode
	Count       int
	Connections int
	Epoch       rollcall.Epoch
	Version     rollcall.Version
	// Estimate and StandardError are as in [Snapshot].
	Estimate      bool
	StandardError float64
}

// AppendRoomInfo appends {"room","mode","count","connections","epoch","version"}, of
// an estimate {...,"estimate":true,"standardError"}.
func AppendRoomInfo(b []byte, r RoomInfo) []byte {
	b = appendRoom(b, r.Room)
	b = append(b, `,"mode":`...)
	b = appendString(b, string(r.Mode))
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(r.Count))
	b = append(b, `,"connections":`...)
	b = appendNumber(b, int64(r.Connections))
	b = appendEpoch(b, r.Epoch, r.Version)
	if r.Estimate {
		return appendStandardError(b, r.StandardError)
	}
	return append(b, '}')
}

// MembersPage is one page of the members of a room, newest join first.
type MembersPage struct {
	Members []*rollcall.Member
	// ByConnection, if not nil, has the connections of each member of Members.
	ByConnection [][]rollcall.ConnectionState
	NextCursor   string // "" on the last page, null on the wire
	Count        int    // members of the room
	Version      rollcall.Version
}

// AppendMembersPage appends {"members","nextCursor","count","version"}.
func AppendMembersPage(b []byte, p MembersPage) []byte {
	b = append(b, `{"members":`...)
	b = appendMembersOf(b, p.Members, p.ByConnection)
	b = append(b, `,"nextCursor":`...)
	if p.NextCursor == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, p.NextCursor)
	}
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(p.Count))
	b = append(b, `,"version":`...)
	b = appendNumber(b, int64(p.Version))
	return append(b, '}')
}

// AppendPresent appends {"present":[...]}, the answer to a lookup. byConnection is
// as in [MembersPage].
func AppendPresent(b []byte, members []*rollcall.Member, byConnection [][]rollcall.ConnectionState) []byte {
	b = append(b, `{"present":`...)
	b = appendMembersOf(b, members, byConnection)
	return append(b, '}')
}

// appendMembersOf appends the list of members, each with what its connections have
// set unless byConnection is nil.
func appendMembersOf(b []byte, members []*rollcall.Member, byConnection [][]rollcall.ConnectionState) []byte {
	if byConnection == nil {
		return appendMembers(b, members)
	}
	b = append(b, '[')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendMemberConnections(b, m, byConnection[i])
	}
	return append(b, ']')
}

// RoomCount is the number of members of one room.
type RoomCount struct {
	Room  rollcall.RoomID
	Count int
}

// AppendRoomCounts appends {"counts":{room:n}}. Each room may stand in counts
// only once, as [DecodeRooms] sees to.
func AppendRoomCounts(b []byte, counts []RoomCount) []byte {
	b = append(b, `{"counts":{`...)
	for i := range counts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, string(counts[i].Room))
		b = append(b, ':')
		b = appendNumber(b, int64(counts[i].Count))
	}
	return append(b, "}}"...)
}
