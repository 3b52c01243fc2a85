package wire

import (
	"time"

	"rollcall"
)

// AppendSnapshot appends the body of a snapshot of mode full, or of a change to
// that mode:
//
//	{"room","epoch","version","mode":"full","count","members":[...],"settlingMs"?}
//
// settlingMs is left out if settling is not positive.
func AppendSnapshot(b []byte, room rollcall.RoomID, epoch rollcall.Epoch, version rollcall.Version, count int, members []*rollcall.Member, settling time.Duration) []byte {
	b = appendRoom(b, room)
	b = appendEpoch(b, epoch, version)
	b = append(b, `,"mode":"full","count":`...)
	b = appendNumber(b, int64(count))
	b = append(b, `,"members":`...)
	b = appendMembers(b, members)
	return appendSettling(b, settling)
}

// AppendCounts appends the body of a snapshot of mode counts, or of a change to
// that mode:
//
//	{"room","epoch","version","mode":"counts","count","sample"?:[...],"settlingMs"?}
//
// A nil sample is left out, an empty one is [].
func AppendCounts(b []byte, room rollcall.RoomID, epoch rollcall.Epoch, version rollcall.Version, count int, sample []*rollcall.Member, settling time.Duration) []byte {
	b = appendRoom(b, room)
	b = appendEpoch(b, epoch, version)
	b = append(b, `,"mode":"counts","count":`...)
	b = appendNumber(b, int64(count))
	if sample != nil {
		b = append(b, `,"sample":`...)
		b = appendMembers(b, sample)
	}
	return appendSettling(b, settling)
}

// AppendResumed appends {"room","epoch","version"}.
func AppendResumed(b []byte, room rollcall.RoomID, epoch rollcall.Epoch, version rollcall.Version) []byte {
	b = appendRoom(b, room)
	b = appendEpoch(b, epoch, version)
	return append(b, '}')
}

// AppendDiff appends the body of a diff; lists that are empty are left out:
//
//	{"room","prev","version","count","join"?,"update"?,"leave"?:[{"user","reason"}]}
//
// Prev must be the version that the receiver holds.
func AppendDiff(b []byte, room rollcall.RoomID, d *rollcall.Diff) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"prev":`...)
	b = appendNumber(b, int64(d.Prev))
	b = append(b, `,"version":`...)
	b = appendNumber(b, int64(d.Version))
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(d.Count))
	if len(d.Join) > 0 {
		b = append(b, `,"join":`...)
		b = appendMembers(b, d.Join)
	}
	if len(d.Update) > 0 {
		b = append(b, `,"update":`...)
		b = appendMembers(b, d.Update)
	}
	if len(d.Leave) > 0 {
		b = appendLeaves(b, d.Leave)
	}
	return append(b, '}')
}

func appendLeaves(b []byte, leaves []rollcall.Leave) []byte {
	b = append(b, `,"leave":[`...)
	for i := range leaves {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"user":`...)
		b = appendString(b, string(leaves[i].User))
		b = append(b, `,"reason":"`...)
		b = append(b, leaves[i].Reason.String()...)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

// AppendCount appends {"room","version","count","sample"?}. A nil sample is left
// out.
func AppendCount(b []byte, room rollcall.RoomID, version rollcall.Version, count int, sample []*rollcall.Member) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"version":`...)
	b = appendNumber(b, int64(version))
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(count))
	if sample != nil {
		b = append(b, `,"sample":`...)
		b = appendMembers(b, sample)
	}
	return append(b, '}')
}

// AppendEstimate appends the body of a count of a room that names nobody:
//
//	{"room","version","count","estimate":true,"standardError"}
func AppendEstimate(b []byte, room rollcall.RoomID, version rollcall.Version, count int, standardError float64) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"version":`...)
	b = appendNumber(b, int64(version))
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(count))
	return appendStandardError(b, standardError)
}

// AppendEstimates appends the body of a snapshot of a room that names nobody:
//
//	{"room","epoch","version","mode":"counts","count","estimate":true,"standardError"}
func AppendEstimates(b []byte, room rollcall.RoomID, epoch rollcall.Epoch, version rollcall.Version, count int, standardError float64) []byte {
	b = appendRoom(b, room)
	b = appendEpoch(b, epoch, version)
	b = append(b, `,"mode":"counts","count":`...)
	b = appendNumber(b, int64(count))
	return appendStandardError(b, standardError)
}

// appendStandardError closes a body.
func appendStandardError(b []byte, standardError float64) []byte {
	b = append(b, `,"estimate":true,"standardError":`...)
	return append(appendFraction(b, standardError), '}')
}

// AppendEnded appends {"room","reason"}: the receiver's own lease ended.
func AppendEnded(b []byte, room rollcall.RoomID, reason rollcall.Reason) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"reason":"`...)
	b = append(b, reason.String()...)
	return append(b, `"}`...)
}

// appendRoom opens a body with its room, which is first in every body that has one.
func appendRoom(b []byte, room rollcall.RoomID) []byte {
	b = append(b, `{"room":`...)
	return appendString(b, string(room))
}

func appendEpoch(b []byte, epoch rollcall.Epoch, version rollcall.Version) []byte {
	b = append(b, `,"epoch":`...)
	b = appendString(b, string(epoch))
	b = append(b, `,"version":`...)
	return appendNumber(b, int64(version))
}

// appendSettling closes a body.
func appendSettling(b []byte, settling time.Duration) []byte {
	if settling > 0 {
		b = append(b, `,"settlingMs":`...)
		b = appendMillis(b, settling)
	}
	return append(b, '}')
}
