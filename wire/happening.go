package wire

import (
	"rollcall"
)

// The events of the feed for back ends, which are SSE alone.
const (
	EventReset    Event = "reset"    // what was before is not told: read it
	EventOccupied Event = "occupied" // a room has its first member
	EventVacated  Event = "vacated"  // a room has lost its last member
	EventJoin     Event = "join"
	EventLeave    Event = "leave"
)

// ResetReason is why a reader of the feed for back ends has to read anew.
type ResetReason string

// The reasons of a reset.
const (
	ResetOpened ResetReason = "opened" // the stream has just been opened, again or for the first time
	ResetGap    ResetReason = "gap"    // some events were lost on the way to this node
	ResetMemory ResetReason = "memory" // the store has lost its memory: everybody joins again, in another epoch
)

// Happening is one event of the feed for back ends. Which fields it has says its
// name.
type Happening struct {
	Event Event

	Room    rollcall.RoomID // all but reset
	Epoch   rollcall.Epoch
	Version rollcall.Version

	Count int // join, leave: members after it
	User  rollcall.UserID
	// Member (join) is the public part; nil in counts mode, which names users alone.
	Member *rollcall.Member
	Reason rollcall.Reason // leave

	Reset ResetReason
	Now   int64 // reset: the server's time, in Unix milliseconds
	Bye   *Bye  // bye
}

// AppendReset appends {"reason","now"}.
func AppendReset(b []byte, reason ResetReason, now int64) []byte {
	b = append(b, `{"reason":`...)
	b = appendString(b, string(reason))
	b = append(b, `,"now":`...)
	return append(appendNumber(b, now), '}')
}

// AppendOccupancy appends {"room","epoch","version"}, of occupied and vacated.
func AppendOccupancy(b []byte, room rollcall.RoomID, epoch rollcall.Epoch, version rollcall.Version) []byte {
	return append(appendEpoch(appendRoom(b, room), epoch, version), '}')
}

// AppendJoin appends {"room","epoch","version","count","user","member"?}; without
// the member if named is false.
func AppendJoin(b []byte, epoch rollcall.Epoch, c *rollcall.Change, m *rollcall.Member, named bool) []byte {
	b = appendWho(b, epoch, c, m.User)
	if named {
		b = append(b, `,"member":`...)
		b = AppendMember(b, m)
	}
	return append(b, '}')
}

// AppendLeave appends {"room","epoch","version","count","user","reason"}.
func AppendLeave(b []byte, epoch rollcall.Epoch, c *rollcall.Change, l rollcall.Leave) []byte {
	b = appendWho(b, epoch, c, l.User)
	b = append(b, `,"reason":`...)
	b = appendString(b, l.Reason.String())
	return append(b, '}')
}

// appendWho leaves the object open.
func appendWho(b []byte, epoch rollcall.Epoch, c *rollcall.Change, user rollcall.UserID) []byte {
	b = appendEpoch(appendRoom(b, c.Room), epoch, c.Version)
	b = append(b, `,"count":`...)
	b = appendNumber(b, int64(c.Count))
	b = append(b, `,"user":`...)
	return appendString(b, string(user))
}

// DecodeHappening reads an event of the feed for back ends. It returns nil and no
// error for an event that is not one of ours: readers skip it.
func DecodeHappening(event Event, raw []byte) (*Happening, error) {
	h := &Happening{Event: event, Version: -1, Count: -1}
	switch event {
	case EventBye:
		v, err := DecodeEvent(event, raw)
		if err != nil {
			return nil, err
		}
		h.Bye = v.(*Bye)
		return h, nil
	case EventReset, EventOccupied, EventVacated, EventJoin, EventLeave:
	default:
		return nil, nil
	}
	f := answer(string(event), raw)
	for f.next() {
		h.field(&f)
	}
	if event != EventReset {
		f.need("room", h.Room != "")
		f.need("epoch", h.Epoch != "")
		f.need("version", h.Version >= 0)
	}
	if event == EventJoin || event == EventLeave {
		f.need("user", h.User != "")
		f.need("count", h.Count >= 0)
	}
	return h, asError(f.err)
}

func (h *Happening) field(f *fields) {
	switch string(f.key) {
	case "room":
		f.room(&h.Room)
	case "epoch":
		f.epoch(&h.Epoch)
	case "version":
		f.version(&h.Version)
	case "count":
		f.count(&h.Count)
	case "user":
		f.user(&h.User)
	case "member":
		f.memberOrNull(&h.Member)
	case "now":
		f.integer(&h.Now)
	case "reason":
		if h.Event == EventReset {
			var s string
			f.text(&s)
			h.Reset = ResetReason(s)
			return
		}
		f.reason(&h.Reason)
	}
}
