package fieldcases

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"rollcall"
	"rollcall/test/harness"
)

// TestBadRequestsAreToldSo: every wrong request has a stable code, and changes
// nothing that was there.
func TestBadRequestsAreToldSo(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	ana := s.OpenSSE(t, harness.Options{User: "ana", Rooms: []string{room}, Data: `{"n":1}`})
	ready := ana.Ready()
	mine := harness.ConnectionPath(room, ready.Connection)
	long := strings.Repeat("x", 257)
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	cases := []struct {
		what   string
		call   harness.Call
		status int
		code   string
		limit  int
	}{
		{"room too long", harness.Call{Path: harness.RoomPath(long, "")}, 400, "bad_request", 256},
		{"stream of a room too long", harness.Call{Path: harness.RoomPath(long, "/stream")}, 400, "bad_request", 256},
		{"room of bad UTF-8", harness.Call{Path: "/v1/rooms/%ff"}, 400, "bad_request", 256},
		{"user of bad UTF-8", harness.Call{Path: harness.RoomPath(room, "/members/%ff")}, 400, "bad_request", 256},
		{"user too long", harness.Call{Path: harness.RoomPath(room, "/members/"+long)}, 400, "bad_request", 256},
		{"nobody", harness.Call{Path: harness.RoomPath(room, "/members/nobody")}, 404, "not_found", 0},
		{"limit 0", harness.Call{Path: harness.RoomPath(room, "/members?limit=0")}, 400, "bad_request", 200},
		{"limit -1", harness.Call{Path: harness.RoomPath(room, "/members?limit=-1")}, 400, "bad_request", 200},
		{"limit text", harness.Call{Path: harness.RoomPath(room, "/members?limit=x")}, 400, "bad_request", 200},
		{"cursor", harness.Call{Path: harness.RoomPath(room, "/members?cursor=x")}, 400, "bad_request", 0},
		{"stream without a room", harness.Call{Path: "/v1/stream"}, 400, "bad_request", 0},
		{"stream of an empty room", harness.Call{Path: "/v1/stream?room="}, 400, "bad_request", 256},
		{"stream of 51 rooms", harness.Call{Path: "/v1/stream?" + rooms(51)}, 429, "rate_limited", 50},
		{"stream with a status", harness.Call{Path: harness.RoomPath(room, "/stream?status=busy")}, 400, "bad_request", 0},
		{"stream with data", harness.Call{Path: harness.RoomPath(room, "/stream?data=5")}, 400, "bad_request", 0},
		{"stream with much data", harness.Call{Path: harness.RoomPath(room, "/stream?data=") + url.QueryEscape(`{"x":"`+strings.Repeat("x", 1024)+`"}`)}, 413, "too_large", 1024},
		{"stream since", harness.Call{Path: harness.RoomPath(room, "/stream?since=x")}, 400, "bad_request", 0},
		{"lookup of nothing", harness.Call{Method: "POST", Path: harness.RoomPath(room, "/members/lookup"), Body: `{}`}, 400, "bad_request", 0},
		{"lookup of text", harness.Call{Method: "POST", Path: harness.RoomPath(room, "/members/lookup"), Body: `{"users":"ana"}`}, 400, "bad_request", 0},
		{"lookup of 1001", harness.Call{Method: "POST", Path: harness.RoomPath(room, "/members/lookup"), Body: list("users", 1001)}, 413, "too_large", 1000},
		{"counts of 501", harness.Call{Method: "POST", Path: "/v1/counts", Body: list("rooms", 501)}, 413, "too_large", 500},
		{"counts of a bad room", harness.Call{Method: "POST", Path: "/v1/counts", Body: `{"rooms":[".."]}`}, 400, "bad_request", 0},
		{"no secret", harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Body: `{"n":1}`}, 401, "unauthorized", 0},
		{"a wrong secret", harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Body: `{"n":1}`, Resume: "x" + ready.Resume}, 401, "unauthorized", 0},
		{"another's secret", harness.Call{Method: "POST", Path: "/v1/connections/other/beat", Body: `{"n":1}`, Resume: ready.Resume}, 403, "forbidden", 0},
		{"a beat that is no JSON", harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Body: `{"n":`, Resume: ready.Resume}, 400, "bad_request", 0},
		{"a beat of text", harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Body: `{"n":"x"}`, Resume: ready.Resume}, 400, "bad_request", 0},
		{"a patch without a secret", harness.Call{Method: "PATCH", Path: mine, Body: `{"status":"idle"}`}, 401, "unauthorized", 0},
		{"a status", harness.Call{Method: "PATCH", Path: mine, Body: `{"status":"offline"}`, Resume: ready.Resume}, 400, "bad_request", 0},
		{"a replace", harness.Call{Method: "PATCH", Path: mine, Body: `{"replace":1}`, Resume: ready.Resume}, 400, "bad_request", 0},
		{"data too deep", harness.Call{Method: "PATCH", Path: mine, Body: `{"data":` + deep + `}`, Resume: ready.Resume}, 413, "too_large", rollcall.MaxDepth},
		{"a body too large", harness.Call{Method: "PATCH", Path: mine, Body: `{"x":"` + strings.Repeat("x", 65536) + `"}`, Resume: ready.Resume}, 413, "too_large", 65536},
		{"a body that is a list", harness.Call{Method: "PATCH", Path: mine, Body: `[]`, Resume: ready.Resume}, 400, "bad_request", 0},
		{"a patch of another room", harness.Call{Method: "PATCH", Path: harness.ConnectionPath("elsewhere", ready.Connection), Body: `{"status":"idle"}`, Resume: ready.Resume}, 410, "gone", 0},
		{"a put for another user", harness.Call{Method: "PUT", Path: mine, Body: `{"user":"ben"}`, Resume: ready.Resume}, 403, "forbidden", 0},
		{"a post for another user", harness.Call{Method: "POST", Path: harness.RoomPath(room, "/connections"), Body: `{"user":"ben"}`}, 403, "forbidden", 0},
		{"no such path", harness.Call{Path: "/v1/nothing"}, 404, "not_found", 0},
		{"no such path of a room", harness.Call{Path: harness.RoomPath(room, "/nothing")}, 404, "not_found", 0},
		{"outside of the API", harness.Call{Path: "/nothing"}, 404, "not_found", 0},
		{"a key that is none", harness.Call{Path: harness.RoomPath(room, ""), Token: "sk_wrong"}, 401, "unauthorized", 0},
	}
	for _, c := range cases {
		a := s.Do(c.call)
		p := a.Problem()
		if a.Status != c.status || p.Code != c.code || p.Limit != c.limit || p.Status != a.Status || p.RequestID == "" || p.Detail == "" {
			t.Errorf("%s: got %d %s (want %d %s, limit %d)", c.what, a.Status, a.Body, c.status, c.code, c.limit)
		}
		if strings.Contains(string(a.Body), ready.Resume) {
			t.Errorf("%s: the answer repeats a secret", c.what)
		}
	}
	if m, ok := s.Member(room, "ana"); !ok || string(m.Data) != `{"n":1}` || m.Status != "active" {
		t.Errorf("ana after all that: %v %+v", ok, m)
	}
	if n := s.Count(room); n != 1 || !ana.Open() || ana.Streams() != 1 {
		t.Errorf("count %d, open %v", n, ana.Open())
	}
}

func rooms(n int) string {
	q := url.Values{}
	for i := range n {
		q.Add("room", fmt.Sprintf("r%d", i))
	}
	return q.Encode()
}

func list(name string, n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("x%d", i)
	}
	raw, _ := json.Marshal(map[string][]string{name: ids})
	return string(raw)
}

// TestWrongVerbsAreToldTheRightOnes: a known path answers another verb with 405
// and Allow.
func TestWrongVerbsAreToldTheRightOnes(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	for path, allow := range map[string]string{
		"/v1/rooms/r":                "GET",
		"/v1/rooms/r/members":        "GET",
		"/v1/rooms/r/members/u":      "GET",
		"/v1/rooms/r/stream":         "GET",
		"/v1/stream":                 "GET",
		"/v1/ws":                     "GET",
		"/v1/rooms/r/connections":    "POST",
		"/v1/counts":                 "POST",
		"/v1/connections/c/beat":     "POST",
		"/v1/connections/c/release":  "POST",
		"/v1/connections/c/auth":     "POST",
		"/v1/rooms/r/connections/c":  "PUT PATCH DELETE",
		"/v1/rooms/r/members/lookup": "GET POST", // GET is that of a user of this name
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"} {
			if strings.Contains(" "+allow+" ", " "+method+" ") {
				continue
			}
			a := s.Do(harness.Call{Method: method, Path: path})
			got := strings.Fields(strings.ReplaceAll(a.Header.Get("Allow"), ",", " "))
			if a.Status != 405 || a.Problem().Code == "" {
				t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
			for _, verb := range strings.Fields(allow) {
				if !strings.Contains(strings.Join(got, " "), verb) {
					t.Errorf("%s %s: Allow is %q, want %q", method, path, got, allow)
				}
			}
		}
	}
}

// TestBadMessagesAreToldSo: every wrong message of a WebSocket is answered, by
// its id where it has one; the connection stays, and so does everything that was
// there.
func TestBadMessagesAreToldSo(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, room)
	o := in("ana")
	o.Data = `{"n":1}`
	ana := joined(t, s, harness.WS, w, o)
	long := strings.Repeat("x", 257)
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for message, code := range map[string]string{
		`{"type":"unknown"}`:                                       "bad_request",
		`{"type":5}`:                                               "bad_request",
		`{"typ":"join"}`:                                           "bad_request",
		`{"type":"join"}`:                                          "bad_request",
		`{"type":"join","room":""}`:                                "bad_request",
		`{"type":"join","room":"."}`:                               "bad_request",
		`{"type":"join","room":".."}`:                              "bad_request",
		`{"type":"join","room":"` + long + `"}`:                    "bad_request",
		`{"type":"join","room":7}`:                                 "bad_request",
		`{"type":"join","room":"a","status":"offline"}`:            "bad_request",
		`{"type":"join","room":"a","data":[]}`:                     "bad_request",
		`{"type":"join","room":"a","observe":1}`:                   "bad_request",
		`{"type":"join","room":"a","since":"x"}`:                   "bad_request",
		`{"type":"set","room":"elsewhere","status":"idle"}`:        "gone",
		`{"type":"set","room":"` + room + `","data":` + deep + `}`: "too_large",
		`{"type":"snapshot","room":"elsewhere"}`:                   "gone",
		`{"type":"auth"}`:                                          "bad_request",
		`{"type":"auth","token":"x"}`:                              "unauthorized",
	} {
		if r := ana.Ask(message); r.OK || r.Code != code {
			t.Errorf("%s: got %s, want %s", message, r.Raw, code)
		}
	}
	for _, text := range []string{"", " ", "x", "5", `"s"`, "null", "{", "[", `[1,"x",null]`, `{"type":"ping"`, "[" + strings.Repeat("{},", 300) + "{}]"} {
		n := len(ana.Events("error"))
		ana.Send(text)
		ana.Until(soon, "an error for "+text, func() bool { return len(ana.Events("error")) > n })
	}
	// A bad message takes its neighbours with it no further than itself.
	n := len(ana.Events("pong"))
	ana.Send(`[{"type":"ping","id":"a"},{"type":"nonsense","id":"b"},7,{"type":"ping","id":"c"}]`)
	ana.Until(soon, "both pongs", func() bool { return len(ana.Events("pong")) == n+2 })
	if r := ana.Ask(`{"type":"leave","room":"never there"}`); !r.OK {
		t.Errorf("leave of a room where it is not: %s", r.Raw)
	}
	if m, ok := s.Member(room, "ana"); !ok || string(m.Data) != `{"n":1}` || m.Status != "active" {
		t.Errorf("ana after all that: %v %+v", ok, m)
	}
	if !ana.Open() {
		t.Error("the connection has not stayed")
	}
	sawOnly(t, w, "ana", 1, 0)
}

// TestBrokenFramesCloseTheWebSocket: what breaks the protocol below is answered
// with the code of the RFC, and costs others nothing.
func TestBrokenFramesCloseTheWebSocket(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, room)
	for i, c := range []struct {
		what string
		do   func(*harness.Client)
		code int
	}{
		{"binary", func(c *harness.Client) { c.SendFrame(2, []byte("{}")) }, 1003},
		{"unmasked", func(c *harness.Client) { c.SendBytes([]byte{0x81, 0x02, '{', '}'}) }, 1002},
		{"reserved bits", func(c *harness.Client) { c.SendBytes([]byte{0xf1, 0x80, 1, 2, 3, 4}) }, 1002},
		{"an unknown opcode", func(c *harness.Client) { c.SendFrame(3, nil) }, 1002},
		{"a large ping", func(c *harness.Client) { c.SendFrame(9, make([]byte, 126)) }, 1002},
		{"too big", func(c *harness.Client) { c.Send(`{"x":"` + strings.Repeat("x", 70000) + `"}`) }, 1009},
		{"a bad close code", func(c *harness.Client) { c.SendFrame(8, []byte{0x03, 0xed}) }, 1002},
	} {
		user := fmt.Sprintf("ana%d", i)
		ana := joined(t, s, harness.WS, w, in(user))
		c.do(ana)
		ana.Until(soon, c.what+" ends it", func() bool { return len(ana.Ends()) == 1 })
		if end := ana.Ends()[0]; end.Code != c.code {
			t.Errorf("%s: got %d %q, want %d", c.what, end.Code, end.Reason, c.code)
		}
	}
	if !w.Open() {
		t.Error("another client has lost its stream")
	}
}

// TestRatesAreLimited: sets are coalesced and never refused; of other messages
// those over the burst are refused, and who goes on is closed.
func TestRatesAreLimited(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Limits: func(l *rollcall.Limits) { l.MessagesPerSecond, l.MessageBurst = 5, 20 }})
	w := s.Watch(t, harness.WS, room)
	setter := joined(t, s, harness.WS, w, in("setter"))
	for i := 1; i <= 100; i++ {
		setter.Send(fmt.Sprintf(`{"type":"set","room":%q,"data":{"n":%d}}`, room, i))
	}
	w.Until(soon, "the last of 100 sets", func() bool { m, _ := w.Member(room, "setter"); return string(m.Data) == `{"n":100}` })
	if n := len(w.Updates(room, "setter")); n > 30 {
		t.Errorf("updates: got %d, want few", n)
	}
	if n := len(setter.Events("error")); n > 0 {
		t.Errorf("errors: got %d, want none", n)
	}
	talker := joined(t, s, harness.WS, w, in("talker"))
	for range 60 {
		talker.Send(`{"type":"ping"}`)
	}
	talker.Until(soon, "the end", func() bool { return len(talker.Ends()) == 1 })
	var refusal struct {
		Code  string
		Retry bool
		Limit int
	}
	errors := talker.Events("error")
	if len(errors) == 0 || json.Unmarshal(errors[0].Data, &refusal) != nil || refusal.Code != "rate_limited" || !refusal.Retry || refusal.Limit != 5 {
		t.Errorf("errors: got %d, the first %+v", len(errors), refusal)
	}
	if end := talker.Ends()[0]; end.Code != 4529 {
		t.Errorf("close code: got %d, want 4529", end.Code)
	}
	caller := s.OpenSSE(t, in("caller"))
	ready := caller.Ready()
	refused := 0
	for range 40 {
		a := s.Do(harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Resume: ready.Resume, Body: "{}"})
		if a.Status == 429 {
			refused++
			if a.Problem().Code != "rate_limited" || a.Header.Get("Retry-After") == "" {
				t.Errorf("429: %s, Retry-After %q", a.Body, a.Header.Get("Retry-After"))
			}
		}
	}
	if refused == 0 || !caller.Open() {
		t.Errorf("of 40 calls %d were refused, and open is %v", refused, caller.Open())
	}
}

// TestFullNodeSaysSo: a node with as many streams as it takes says busy, in the
// way that each client understands.
func TestFullNodeSaysSo(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{Limits: func(l *rollcall.Limits) { l.Connections = 2 }})
		w := s.Watch(t, over, room)
		joined(t, s, over, w, in("ana"))
		o := in("ben")
		o.NoWait = true
		ben := s.Open(t, over, o)
		ben.Until(soon, "the end", func() bool { return len(ben.Ends()) == 1 })
		if end := ben.Ends()[0]; end.Bye != "busy" || end.Back == nil || over == harness.WS && end.Code != 4529 {
			t.Errorf("end: got %+v, want bye busy, to come back, and 4529", end)
		}
		if over == harness.SSE && ben.Retry() <= 0 {
			t.Error("a refused EventSource was not told when to come back")
		}
		if s.Present(room, "ben") {
			t.Error("who was refused is present")
		}
	})
}

// TestConnectionsOfAUserAreLimited: the 51st connection of a user in a room is
// refused, and the others stay.
func TestConnectionsOfAUserAreLimited(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Limits: func(l *rollcall.Limits) { l.ConnectionsPerUser, l.RoomsPerConnection = 3, 4 }})
	for range 3 {
		s.OpenSSE(t, in("ana"))
	}
	o := in("ana")
	o.NoWait = true
	c := s.Try(t, harness.SSE, o)
	if a := c.Refused(); a == nil || a.Status != 429 || a.Problem().Code != "rate_limited" || a.Problem().Limit != 3 {
		t.Errorf("the fourth: %+v", a)
	}
	ws := s.OpenWS(t, harness.Options{User: "ana"})
	if r := ws.Ask(`{"type":"join","room":"` + room + `"}`); r.OK || r.Code != "rate_limited" || r.Limit != 3 {
		t.Errorf("the fourth over WebSocket: %s", r.Raw)
	}
	for i := range 4 {
		r := fmt.Sprintf("r%d", i)
		s.Know(r, "ana")
		if a := ws.Ask(`{"type":"join","room":"` + r + `"}`); !a.OK {
			t.Errorf("%s: %s", r, a.Raw)
		}
	}
	if r := ws.Ask(`{"type":"join","room":"r5"}`); r.OK || r.Code != "rate_limited" || r.Limit != 4 {
		t.Errorf("one room more: %s", r.Raw)
	}
	if m, _ := s.Member(room, "ana"); m.Connections != 3 {
		t.Errorf("connections: got %d, want 3", m.Connections)
	}
}
