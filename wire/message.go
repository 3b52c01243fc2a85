package wire

import (
	"bytes"
	"encoding/json"

	"rollcall"
)

// Types of the messages that a client sends.
const (
	MessageAuth     = "auth"     // token
	MessageJoin     = "join"     // room, status?, data?, observe?, tier?, since?
	MessageLeave    = "leave"    // room
	MessageSet      = "set"      // room, status?, data?, replace?
	MessageSnapshot = "snapshot" // room
	MessageSignal   = "signal"   // room, kind, data, docVersion?, ttlMs?
	MessageUsers    = "users"    // users
	MessagePing     = "ping"
	// What follows needs a stream that is shown the room.
	MessageContacts  = "contacts"  // room, users
	MessagePage      = "page"      // room, page, cursor?, limit?
	MessageClosePage = "closePage" // room, page
)

// Message is one message of a client. Fields that its type does not have are
// ignored, and zero.
type Message struct {
	// Type is the type, also one that is not ours: then only ID is read.
	Type string
	// ID is the client's name for the message, a number or a string, verbatim;
	// nil if it wants no answer.
	ID      json.RawMessage
	Room    rollcall.RoomID // "" if there is none; a valid id otherwise
	Status  rollcall.Status // StatusUnset if not given
	Data    json.RawMessage // an object, compact; nil if not given
	Replace bool            // data replaces what was, and is not merged
	Observe bool
	Tier    Tier
	Since   *Since // nil if not given
	Token   string
	Users   []rollcall.UserID // each once; nil if there are none
	Page    string            // what the client calls a page
	Cursor  string            // of a page; "" for the first
	Limit   int               // of a page; 0 if not given
	Signal  *rollcall.Signal  // kind, data, docVersion and ttlMs of a signal; its data is any value, nil for null
	// Err is why the message cannot be used; ID, and Type as far as it could be
	// read, tell whom to answer.
	Err *rollcall.Error
}

// maxMessageID is the most bytes of the id of a message: it is sent back, and
// nothing is sent back that has no limit.
const maxMessageID = 256

// DecodeMessages reads a text frame: one object or an array of at most
// [MaxMessages] objects. A message that is bad by itself comes as one with Err,
// and those next to it come through; the error, a [*rollcall.Error], is for a
// frame that cannot be taken apart at all. limits gives the size of data.
func DecodeMessages(raw []byte, limits *rollcall.Limits) ([]Message, error) {
	list, err := split(raw, MaxMessages)
	if err != nil {
		return nil, err
	}
	messages := make([]Message, len(list))
	for i, element := range list {
		messages[i] = decodeMessage(element, limits)
	}
	return messages, nil
}

func decodeMessage(raw []byte, limits *rollcall.Limits) (m Message) {
	if raw[0] != '{' {
		m.Err = rollcall.Errorf(rollcall.CodeBadRequest, "message must be a JSON object")
		return m
	}
	compact, err := scan(raw, 0, rollcall.MaxDepth+1) // the message is the envelope of its values
	if err != nil {
		m.ID, m.Err = recoverID(raw), named("message", err)
		return m
	}
	f := newFields(compact)
	for f.next() {
		switch string(f.key) {
		case "type":
			f.text(&m.Type)
		case "id":
			f.messageID(&m.ID)
		}
	}
	if m.Err = f.err; m.Err != nil {
		m.ID = recoverID(raw)
		return m
	}
	if m.Err = required("type", m.Type != ""); m.Err == nil {
		m.Err = m.decode(newFields(compact), limits)
	}
	return m
}

// decode reads the fields that the type has.
func (m *Message) decode(f fields, limits *rollcall.Limits) *rollcall.Error {
	if m.Type == MessageSignal {
		return m.decodeSignal(f, limits)
	}
	has := messageFields[m.Type]
	for f.next() {
		if !has.field(f.key) {
			continue
		}
		switch string(f.key) {
		case "room":
			f.room(&m.Room)
		case "status":
			f.status(&m.Status)
		case "data":
			f.object(&m.Data, limits.Data)
		case "replace":
			f.boolean(&m.Replace)
		case "observe":
			f.boolean(&m.Observe)
		case "tier":
			f.tier(&m.Tier)
		case "since":
			f.since(&m.Since)
		case "token":
			f.text(&m.Token)
		case "users":
			most := limits.LookupUsers
			if m.Type == MessageContacts {
				most = maxList // how many there may be is the server's to say
			}
			m.Users = readIDs[rollcall.UserID](&f, most)
		case "page":
			f.pageName(&m.Page)
		case "cursor":
			f.text(&m.Cursor)
		case "limit":
			f.limit(&m.Limit)
		}
	}
	if f.err != nil || len(has) == 0 {
		return f.err
	}
	switch has[0] {
	case "token":
		return required("token", m.Token != "")
	case "users":
		return required("users", m.Users != nil)
	}
	f.need("room", m.Room != "")
	f.need("users", m.Type != MessageContacts || m.Users != nil)
	f.need("page", m.Page != "" || m.Type != MessagePage && m.Type != MessageClosePage)
	return f.err
}

func (m *Message) decodeSignal(f fields, limits *rollcall.Limits) *rollcall.Error {
	m.Signal = new(rollcall.Signal)
	given := false
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&m.Room)
		case "data":
			given = true
			f.signal(m.Signal, limits)
		default:
			f.signal(m.Signal, limits)
		}
	}
	f.need("room", m.Room != "")
	f.needSignal(m.Signal, given, limits)
	return f.err
}

// fieldNames are the fields of a type, the one that is required first.
type fieldNames []string

// messageFields has the types that are ours; static.
var messageFields = map[string]fieldNames{
	MessageAuth:     {"token"},
	MessageJoin:     {"room", "status", "data", "observe", "tier", "since"},
	MessageLeave:    {"room"},
	MessageSet:      {"room", "status", "data", "replace"},
	MessageSnapshot: {"room"},
	MessageUsers:    {"users"},
	MessagePing:     {},

	MessageContacts:  {"room", "users"},
	MessagePage:      {"room", "page", "cursor", "limit"},
	MessageClosePage: {"room", "page"},
}

func (n fieldNames) field(name []byte) bool {
	for _, known := range n {
		if known == string(name) {
			return true
		}
	}
	return false
}

func (f *fields) tier(to *Tier) {
	var s string
	f.text(&s)
	if f.err == nil && Tier(s) != TierCount {
		f.fail("count")
	}
	*to = Tier(s)
}

func (f *fields) messageID(to *json.RawMessage) {
	switch c := f.value[0]; {
	case len(f.value) > maxMessageID:
		f.err = rollcall.LimitError(rollcall.CodeTooLarge, maxMessageID, "id is larger than %d bytes", maxMessageID)
	case c == '"' || c == '-' || c >= '0' && c <= '9':
		*to = bytes.Clone(f.value)
	default:
		f.fail("a number or a string")
	}
}

// recoverID looks for the id in a message that is not good, so that the client
// learns which of its messages was refused; nil if it cannot be found.
func recoverID(raw []byte) (id json.RawMessage) {
	f := newFields(raw)
	for f.next() {
		if string(f.key) != "id" || f.value[0] == '{' || f.value[0] == '[' {
			continue
		}
		value, err := scan(f.value, maxMessageID, 1)
		if err != nil {
			return nil
		}
		v := fields{value: value}
		v.messageID(&id)
		return id
	}
	return nil
}
