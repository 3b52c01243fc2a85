package wire

import "rollcall"

// Pages and contacts: what is asked for, answered and told.

// MaxPageName is the most bytes of the name that a client gives to a page.
const MaxPageName = rollcall.MaxID

// PageState is a page, or what has changed of it. Members that is not nil is all
// of the page, in its order: newest join first.
type PageState struct {
	Members []*rollcall.Member
	Join    []*rollcall.Member
	Update  []*rollcall.Member
	// Leave are those who are on the page no more; the reason is that of their
	// leave of the room, or none: others have come before them.
	Leave      []rollcall.Leave
	NextCursor string // "" on the last page, null on the wire
	Count      int    // members of the room
}

// Page is the event page.
type Page struct {
	Room rollcall.RoomID
	Name string
	PageState
}

// AppendPageState appends the fields of a page, without the braces: what all its
// viewers are sent alike.
//
//	"members":[...],"nextCursor","count"
//	"join"?,"update"?,"leave"?:[{"user","reason"?}],"nextCursor","count"
func AppendPageState(b []byte, p *PageState) []byte {
	if p.Members != nil {
		b = append(b, `"members":`...)
		b = append(appendMembers(b, p.Members), ',')
	}
	if len(p.Join) > 0 {
		b = append(b, `"join":`...)
		b = append(appendMembers(b, p.Join), ',')
	}
	if len(p.Update) > 0 {
		b = append(b, `"update":`...)
		b = append(appendMembers(b, p.Update), ',')
	}
	if len(p.Leave) > 0 {
		b = append(b, `"leave":[`...)
		for i, l := range p.Leave {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"user":`...)
			b = appendString(b, string(l.User))
			b = appendTextField(b, "reason", l.Reason.String())
			b = append(b, '}')
		}
		b = append(b, "],"...)
	}
	b = append(b, `"nextCursor":`...)
	if p.NextCursor == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, p.NextCursor)
	}
	b = append(b, `,"count":`...)
	return appendNumber(b, int64(p.Count))
}

// AppendPage appends the body of the event page; state is from
// [AppendPageState].
//
//	{"room","page",...}
func AppendPage(b []byte, room rollcall.RoomID, name string, state []byte) []byte {
	b = appendRoom(b, room)
	b = append(b, `,"page":`...)
	b = append(appendString(b, name), ',')
	return append(append(b, state...), '}')
}

// AppendPageAnswer appends {"members","nextCursor","count"}, the answer to the
// opening of a page; state is from [AppendPageState].
func AppendPageAnswer(b, state []byte) []byte {
	return append(append(append(b, '{'), state...), '}')
}

// field reads a field that it has.
func (p *PageState) field(f *fields) {
	switch string(f.key) {
	case "members":
		p.Members = f.members()
	case "join":
		p.Join = f.members()
	case "update":
		p.Update = f.members()
	case "leave":
		p.Leave = f.leaves()
	case "nextCursor":
		f.textOrNull(&p.NextCursor)
	case "count":
		f.count(&p.Count)
	}
}

func readPage(f *fields) any {
	p := Page{PageState: PageState{Count: -1}}
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&p.Room)
		case "page":
			f.pageName(&p.Name)
		default:
			p.field(f)
		}
	}
	f.need("room", p.Room != "")
	f.need("page", p.Name != "")
	f.need("count", p.Count >= 0)
	return &p
}

// DecodePageAnswer reads the answer to the opening of a page.
func DecodePageAnswer(raw []byte) (p PageState, err error) {
	p.Count = -1
	f := answer("page", raw)
	for f.next() {
		p.field(&f)
	}
	f.need("members", p.Members != nil)
	f.need("count", p.Count >= 0)
	return p, asError(f.err)
}

// PageRequest is the body of the opening of a page.
type PageRequest struct {
	Cursor string // "" for the first page
	Limit  int    // 0 if not given; the most is the server's to apply
	Resume string
}

// DecodePage reads {cursor?, limit?, resume?}.
func DecodePage(raw []byte) (p PageRequest, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "cursor":
			f.text(&p.Cursor)
		case "limit":
			f.limit(&p.Limit)
		case "resume":
			f.text(&p.Resume)
		}
	}
	return p, asError(f.err)
}

// Append appends the body.
func (r *PageRequest) Append(b []byte) []byte {
	b, start := append(b, '{'), len(b)
	b = appendTextField(b, "cursor", r.Cursor)
	b = appendLimitField(b, r.Limit)
	b = appendTextField(b, "resume", r.Resume)
	return closeObject(b, start)
}

func appendLimitField(b []byte, limit int) []byte {
	if limit == 0 {
		return b
	}
	return appendNumber(append(b, `,"limit":`...), int64(limit))
}

// limit reads a number of members that are asked for.
func (f *fields) limit(to *int) {
	n, ok := parseInteger(f.value)
	if !ok || n < 1 {
		f.fail("a whole number from 1")
		return
	}
	*to = int(min(n, 1<<30))
}

// pageName reads what a client calls a page.
func (f *fields) pageName(to *string) { *to = f.id() }

// Contacts is the event contacts: who of the receiver's contacts is here now, or
// has changed, and who is not here any more.
type Contacts struct {
	Room    rollcall.RoomID
	Present []*rollcall.Member
	Absent  []rollcall.UserID
}

// AppendContacts appends {"room","present":[member],"absent":[user]}.
func AppendContacts(b []byte, c *Contacts) []byte {
	b = appendRoom(b, c.Room)
	b = append(b, `,"present":`...)
	b = appendMembers(b, c.Present)
	b = appendIDs(b, `,"absent":[`, c.Absent)
	return b
}

func readContacts(f *fields) any {
	var c Contacts
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&c.Room)
		case "present":
			c.Present = f.members()
		case "absent":
			c.Absent = readIDs[rollcall.UserID](f, maxList)
		}
	}
	f.need("room", c.Room != "")
	return &c
}

// DecodeContacts reads {users, resume?}: the contacts of a connection in a room.
// How many there may be is the server's to say.
func DecodeContacts(raw []byte) (Watch, error) { return DecodeWatch(raw, maxList) }
