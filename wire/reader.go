package wire

import (
	"time"

	"rollcall"
)

// eventDepth is the most levels of what a server sends: the values of clients
// stand a few levels deep in it.
const eventDepth = rollcall.MaxDepth + 8

// DecodeEvent reads the body of an event; a "type" in it is ignored, as is every
// other field that is not known. The result is a pointer to [Ready], [Snapshot]
// (also for mode), [Resumed], [RoomDiff], [Count], [EndedLease], [ServerBeat],
// [Health], [Expiring], [Bye], [Signals], [UserChanges],
// [Contacts], [Page], [OK], [Failure] or [Pong]; nil without an error
// for an event of a later release, which a client ignores. The error is a
// [*rollcall.Error]: the client cannot know what it missed and starts again from
// a snapshot.
func DecodeEvent(event Event, raw []byte) (any, error) {
	read, known := readers[event]
	if !known {
		return nil, nil
	}
	compact, err := scan(raw, 0, eventDepth)
	if err != nil {
		return nil, named(string(event), err)
	}
	if compact[0] != '{' {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "%s must be a JSON object", event)
	}
	f := newFields(compact)
	f.path = string(event) + "."
	v := read(&f)
	if f.err != nil {
		return nil, f.err
	}
	return v, nil
}

// readers has the events that are ours; static.
var readers = map[Event]func(*fields) any{
	EventReady:    readReady,
	EventSnapshot: readSnapshot,
	EventMode:     readSnapshot,
	EventResumed:  readResumed,
	EventDiff:     readDiff,
	EventCount:    readCount,
	EventEnded:    readEnded,
	EventBeat:     readBeat,
	EventHealth:   readHealth,
	EventExpiring: readExpiring,
	EventBye:      readBye,
	EventSignals:  readSignals,
	EventUsers:    readUserChanges,
	EventContacts: readContacts,
	EventPage:     readPage,
	EventOK:       readOK,
	EventError:    readFailure,
	EventPong:     readPong,
}

func readReady(f *fields) any {
	var r Ready
	for f.next() {
		switch string(f.key) {
		case "connection":
			r.Connection = rollcall.ConnectionID(f.id())
		case "resume":
			f.text(&r.Resume)
		case "user":
			f.user(&r.User)
		case "leaseMs":
			f.millis(&r.Lease)
		case "beatMs":
			f.millis(&r.Beat)
		case "now":
			f.integer(&r.Now)
		}
	}
	f.need("connection", r.Connection != "")
	f.need("resume", r.Resume != "")
	f.need("user", r.User != "")
	return &r
}

func readBeat(f *fields) any {
	var b ServerBeat
	for f.next() {
		if string(f.key) == "n" {
			f.integer(&b.N)
		}
	}
	return &b
}

func readHealth(f *fields) any {
	var (
		h     Health
		store string
	)
	for f.next() {
		switch string(f.key) {
		case "store":
			f.text(&store)
		case "staleMs":
			f.millis(&h.Stale)
		}
	}
	f.need("store", store != "")
	h.Degraded = store != "ok"
	return &h
}

func readExpiring(f *fields) any {
	var e Expiring
	for f.next() {
		if string(f.key) == "inMs" {
			f.millis(&e.In)
		}
	}
	return &e
}

func readBye(f *fields) any {
	b := Bye{Reconnect: DontReconnect}
	for f.next() {
		switch string(f.key) {
		case "reason":
			var s string
			f.text(&s)
			b.Reason = ByeReason(s)
		case "reconnectMs":
			f.millisOrNull(&b.Reconnect)
		}
	}
	f.need("reason", b.Reason != "")
	return &b
}

// millisOrNull leaves to as it is for null.
func (f *fields) millisOrNull(to *time.Duration) {
	if string(f.value) != "null" {
		f.millis(to)
	}
}
