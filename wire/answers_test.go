package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

type answerVector struct {
	Name   string `json:"name"`
	Answer string `json:"answer"`
	Body   string `json:"body"`
}

// answers reads each kind of answer and writes it again.
var answers = map[string]func(raw []byte) ([]byte, error){
	"room": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeRoomInfo(raw)
		return wire.AppendRoomInfo(nil, v), err
	},
	"members": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeMembersPage(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendMembersPage(nil, v), nil
	},
	"member": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeMember(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendMember(nil, v), nil
	},
	"lookup": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodePresent(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendPresent(nil, v, nil), nil
	},
	"counts": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeRoomCounts(raw)
		return wire.AppendRoomCounts(nil, v), err
	},
	"audience": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeAudience(raw)
		return wire.AppendAudience(nil, v), err
	},
	"rooms": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeRoomsPage(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendRoomsPage(nil, v), nil
	},
	"lease": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeLeaseAnswer(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendLease(nil, v), nil
	},
	"set": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodePatched(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendPatched(nil, v), nil
	},
	"user": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeUser(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendUser(nil, &v), nil
	},
	"users": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodeUserStatuses(raw)
		return wire.AppendUserStatuses(nil, v), err
	},
	"watch": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodePresentUsers(raw)
		return wire.AppendPresentUsers(nil, v), err
	},
	"page": func(raw []byte) ([]byte, error) {
		v, err := wire.DecodePageAnswer(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendPageAnswer(nil, wire.AppendPageState(nil, &v)), nil
	},
	"problem": func(raw []byte) ([]byte, error) {
		e, id, err := wire.DecodeProblem(raw)
		if err != nil {
			return nil, err
		}
		return wire.AppendProblem(nil, e, id), nil
	},
}

func TestAnswersAreTheseBytes(t *testing.T) {
	var list []answerVector
	readVectors(t, "answers.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			got, err := answers[v.Answer]([]byte(v.Body))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != v.Body {
				t.Errorf("read and written:\n got %s\nwant %s", got, v.Body)
			}
		})
	}
}

// TestAnswersSayWhatTheyMean reads values and not bytes, so that a reader and a
// writer that are wrong in the same way are noticed.
func TestAnswersSayWhatTheyMean(t *testing.T) {
	ana := &rollcall.Member{
		User: "ana", Info: json.RawMessage(`{"name":"Ana"}`), Status: rollcall.StatusActive, Connections: 2, Since: 5, Data: json.RawMessage(`{}`),
	}
	const member = `{"user":"ana","info":{"name":"Ana"},"status":"active","connections":2,"since":5,"data":{}}`
	page, err := wire.DecodeMembersPage([]byte(`{"members":[` + member + `,{"user":"ben","byConnection":[{"connection":"c","status":"idle","data":{"a":1}}]}],"nextCursor":"x","count":9,"version":8}`))
	want := wire.MembersPage{
		Members:      []*rollcall.Member{ana, {User: "ben", Connections: 1}},
		ByConnection: [][]rollcall.ConnectionState{nil, {{Connection: "c", Status: rollcall.StatusIdle, Data: json.RawMessage(`{"a":1}`)}}},
		NextCursor:   "x", Count: 9, Version: 8,
	}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("page: %v (-want +got):\n%s", err, diff)
	}
	lease, err := wire.DecodeLeaseAnswer([]byte(`{"connection":"c","resume":"r","leaseMs":30000,"member":` + member + `}`))
	if diff := cmp.Diff(wire.Lease{Connection: "c", Resume: "r", Lease: 30 * time.Second, Member: ana}, lease); err != nil || diff != "" {
		t.Errorf("lease: %v (-want +got):\n%s", err, diff)
	}
	counts, err := wire.DecodeRoomCounts([]byte(`{"counts":{"__proto__":1,"b":0}}`))
	if diff := cmp.Diff([]wire.RoomCount{{Room: "__proto__", Count: 1}, {Room: "b"}}, counts); err != nil || diff != "" {
		t.Errorf("counts: %v (-want +got):\n%s", err, diff)
	}
	user, err := wire.DecodeUser([]byte(`{"user":"ana","status":"away","rooms":["b","a"],"lastSeen":7}`))
	if diff := cmp.Diff(wire.User{UserStatus: wire.UserStatus{User: "ana", Status: rollcall.StatusAway, LastSeen: 7}, Rooms: []rollcall.RoomID{"b", "a"}}, user); err != nil || diff != "" {
		t.Errorf("user: %v (-want +got):\n%s", err, diff)
	}
	users, err := wire.DecodeUserStatuses([]byte(`{"users":[{"user":"ana","status":null},{"user":"ben","status":"idle"}]}`))
	if diff := cmp.Diff([]wire.UserStatus{{User: "ana"}, {User: "ben", Status: rollcall.StatusIdle}}, users); err != nil || diff != "" {
		t.Errorf("users: %v (-want +got):\n%s", err, diff)
	}
	problem, id, err := wire.DecodeProblem([]byte(`{"status":413,"detail":"d","code":"too_large","limit":7,"requestId":"q"}`))
	if diff := cmp.Diff(&rollcall.Error{Code: rollcall.CodeTooLarge, Detail: "d", Limit: 7}, problem); err != nil || diff != "" || id != "q" {
		t.Errorf("problem: %v, %q (-want +got):\n%s", err, id, diff)
	}
}

func TestServerFramesAreTakenApart(t *testing.T) {
	got, err := wire.DecodeFrame([]byte(`[{"type":"beat","n":1}, {"room":"r","type":"count","version":2,"count":3},{"type":"new"}]`))
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	if v, err := wire.DecodeEvent(got[1].Event, got[1].Body); err != nil || v.(*wire.Count).Count != 3 {
		t.Errorf("count: got %v, %v", v, err)
	}
	if v, err := wire.DecodeEvent(got[2].Event, got[2].Body); v != nil || err != nil {
		t.Errorf("an event of a later release: got %v, %v, want nothing", v, err)
	}
	for _, raw := range []string{``, `5`, `{`, `[5]`, `{"n":1}`, `{"type":5}`, `[{"type":"beat"},]`} {
		if _, err := wire.DecodeFrame([]byte(raw)); err == nil {
			t.Errorf("%q: got no error", raw)
		}
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		event wire.Event
		body  string
	}{
		{wire.EventReady, `{}`},
		{wire.EventReady, `{"connection":"c","resume":"r"}`},
		{wire.EventSnapshot, `{"room":"r","epoch":"e","version":1,"mode":"full","count":0}`},
		{wire.EventSnapshot, `{"room":"r","epoch":"e","version":1,"count":0,"members":[]}`},
		{wire.EventSnapshot, `{"room":"r","epoch":"e","version":1,"mode":"full","count":1,"members":[5]}`},
		{wire.EventSnapshot, `{"room":"r","epoch":"e","version":1,"mode":"full","count":1,"members":[{"info":{}}]}`},
		{wire.EventSnapshot, `{"room":"r","epoch":"e","version":1,"mode":"full","count":1,"members":[{"user":"u","data":[]}]}`},
		{wire.EventResumed, `{"room":"r","epoch":"e"}`},
		{wire.EventDiff, `{"room":"r","version":2,"count":1}`},
		{wire.EventDiff, `{"room":"r","prev":1,"count":1}`},
		{wire.EventDiff, `{"room":"r","prev":1,"version":"2","count":1}`},
		{wire.EventDiff, `{"prev":1,"version":2,"count":1}`},
		{wire.EventDiff, `{"room":"r","prev":1,"version":2,"count":1,"leave":["u"]}`},
		{wire.EventDiff, `[]`},
		{wire.EventDiff, `{`},
		{wire.EventCount, `{"room":"r","version":1}`},
		{wire.EventBye, `{"reconnectMs":5}`},
		{wire.EventBye, `{"reason":"slow","reconnectMs":"5"}`},
		{wire.EventError, `{"id":1}`},
		{wire.EventUsers, `{"present":[{"status":"idle"}]}`},
		{wire.EventUsers, `{"present":{}}`},
		{wire.EventUsers, `{"present":[{"user":"u","status":5}]}`},
		{wire.EventUsers, `{"absent":[5]}`},
		{wire.EventContacts, `{"present":[]}`},
		{wire.EventContacts, `{"room":"r","present":["u"]}`},
		{wire.EventContacts, `{"room":"r","absent":[{"user":"u"}]}`},
		{wire.EventPage, `{"room":"r","count":1}`},
		{wire.EventPage, `{"room":"r","page":"p"}`},
		{wire.EventPage, `{"page":"p","count":1}`},
		{wire.EventPage, `{"room":"r","page":"p","count":1,"nextCursor":5}`},
		{wire.EventPage, `{"room":"r","page":"p","count":1,"leave":["u"]}`},
		{wire.EventPage, `{"room":"r","page":"","count":1}`},
	} {
		if v, err := wire.DecodeEvent(c.event, []byte(c.body)); err == nil {
			t.Errorf("%s %s: got %+v, want an error", c.event, c.body, v)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	events := []wire.Event{
		wire.EventReady, wire.EventSnapshot, wire.EventMode, wire.EventResumed, wire.EventDiff, wire.EventCount, wire.EventEnded,
		wire.EventBeat, wire.EventHealth, wire.EventExpiring, wire.EventBye, wire.EventOK, wire.EventError, wire.EventPong, wire.EventUsers,
		wire.EventContacts, wire.EventPage,
	}
	for i, s := range []string{
		`{"connection":"c","resume":"r","user":"u","leaseMs":1,"beatMs":1,"now":1}`,
		`{"room":"r","epoch":"e","version":1,"mode":"full","count":1,"members":[{"user":"u","info":{},"status":"idle","connections":1,"since":1,"data":{"a":1}}],"settlingMs":1}`,
		`{"room":"r","epoch":"e","version":1,"mode":"counts","count":1,"sample":[]}`, `{"room":"r","epoch":"e","version":1}`,
		`{"room":"r","prev":1,"version":2,"count":1,"join":[{"user":"u"}],"update":[],"leave":[{"user":"v","reason":"left"}]}`,
		`{"room":"r","version":2,"count":1}`, `{"room":"r","reason":"left"}`, `{"n":1}`, `{"store":"ok","staleMs":1}`, `{"inMs":1}`,
		`{"reason":"slow","reconnectMs":null}`, `{"id":1,"a":[1,{"b":2}]}`, `{"id":"x","code":"gone","message":"m","retry":true,"limit":1}`, `{"id":1}`,
		`{"present":[{"user":"u","status":"idle","lastSeen":1},{"user":"v","status":null}],"absent":["w"]}`,
		`{"room":"r","present":[{"user":"u","info":{},"status":"idle","connections":1,"since":1,"data":{}}],"absent":["w"]}`,
		`{"room":"r","page":"p","members":[],"join":[{"user":"u"}],"leave":[{"user":"v"}],"nextCursor":"x","count":2}`,
	} {
		f.Add(uint8(i), []byte(s))
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		event := events[int(which)%len(events)]
		if v, err := wire.DecodeEvent(event, raw); err == nil {
			// What was read is written, read again and written the same.
			body := reencode(t, event, v)
			checkCompact(t, body)
			again, err := wire.DecodeEvent(event, body)
			if err != nil {
				t.Fatalf("%s: read again: %v", body, err)
			}
			if second := reencode(t, event, again); string(second) != string(body) {
				t.Errorf("not a fixed point:\n%s\n%s", body, second)
			}
		}
		for _, read := range answers {
			if body, err := read(raw); err == nil {
				checkCompact(t, body)
			}
		}
		if list, err := wire.DecodeFrame(raw); err == nil {
			for _, m := range list {
				checkCompact(t, m.Body)
			}
		}
	})
}
