package wire

import "rollcall"

// RoomsPage is one page of the list of rooms, in the byte order of their names.
type RoomsPage struct {
	Rooms      []rollcall.RoomSummary
	NextCursor string // "" on the last page, null on the wire
}

// AppendRoomsPage appends {"rooms":[{"room","count","mode"}],"nextCursor"}.
func AppendRoomsPage(b []byte, p RoomsPage) []byte {
	b = append(b, `{"rooms":[`...)
	for i := range p.Rooms {
		if i > 0 {
			b = append(b, ',')
		}
		r := &p.Rooms[i]
		b = appendRoom(b, r.Room)
		b = append(b, `,"count":`...)
		b = appendNumber(b, int64(r.Count))
		b = append(b, `,"mode":`...)
		b = appendString(b, r.Mode.String())
		b = append(b, '}')
	}
	b = append(b, `],"nextCursor":`...)
	if p.NextCursor == "" {
		return append(b, "null}"...)
	}
	return append(appendString(b, p.NextCursor), '}')
}

// DecodeRoomsPage reads a page of the list of rooms. A mode of a later release is
// full.
func DecodeRoomsPage(raw []byte) (p RoomsPage, err error) {
	f := answer("rooms", raw)
	for f.next() {
		switch string(f.key) {
		case "rooms":
			p.Rooms = f.roomSummaries()
		case "nextCursor":
			f.textOrNull(&p.NextCursor)
		}
	}
	f.need("rooms", p.Rooms != nil)
	return p, asError(f.err)
}

// roomSummaries reads a list of {room, count, mode}; never nil.
func (f *fields) roomSummaries() []rollcall.RoomSummary {
	list := []rollcall.RoomSummary{}
	f.each(func(in *fields) {
		r := rollcall.RoomSummary{Count: -1}
		for in.next() {
			switch string(in.key) {
			case "room":
				in.room(&r.Room)
			case "count":
				in.count(&r.Count)
			case "mode":
				var m string
				if in.text(&m); m == string(ModeCounts) {
					r.Mode = rollcall.ModeCounts
				}
			}
		}
		in.need("room", r.Room != "")
		in.need("count", r.Count >= 0)
		list = append(list, r)
	})
	return list
}
