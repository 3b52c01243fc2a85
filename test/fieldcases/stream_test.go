package fieldcases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/store"
	"rollcall/test/harness"
)

// TestReplacedObserverIsShownItsRoomAgain: an observer whose old stream is still
// open when it comes back is shown the room on the new one.
func TestReplacedObserverIsShownItsRoomAgain(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		w.Cut()
		w.Reopen()
		joined(t, s, over, w, in("ana"))
	})
}

// TestReleaseEndsTheStream: who has left everything is not left with an open
// stream.
func TestReleaseEndsTheStream(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		ana.Release(false)
		w.Until(soon, "ana leaves", gone(w, "ana"))
		ana.Until(soon, "the stream ends", func() bool { return !ana.Open() })
		if l := w.Leaves(room, "ana"); l[0].Reason != "left" {
			t.Errorf("reason: got %q, want left", l[0].Reason)
		}
	})
}

// TestLateSinceIsOld: a client that resumes and is slow to say what it holds has
// been shown the room by then, and is not taken back.
func TestLateSinceIsOld(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, room)
	ana := joined(t, s, harness.WS, w, in("ana"))
	held := ana.List(room)
	ben := joined(t, s, harness.WS, w, in("ben"))
	ana.Until(soon, "ana sees ben", func() bool { return ana.Has(room, "ben") })
	back := s.Open(t, harness.WS, harness.Options{User: "ana", Resume: ana.Ready().Resume})
	back.Until(soon, "what was not asked for", func() bool { return back.Has(room, "ben") })
	r := back.Ask(fmt.Sprintf(`{"type":"join","room":%q,"since":{"epoch":%q,"version":%d}}`, room, held.Epoch, held.Version))
	if !r.OK {
		t.Errorf("join: %s", r.Raw)
	}
	ben.Leave(room)
	back.Until(soon, "ben leaves", func() bool { return !back.Has(room, "ben") })
	if n := len(back.Events("snapshot", "resumed")); n != 1 {
		t.Errorf("states shown: got %d, want 1", n)
	}
}

// TestPlainStreamsRotate: a client that cannot answer beats proves its life by
// coming back, which nobody sees.
func TestPlainStreamsRotate(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.SSE, room)
	o := in("ana")
	o.Plain = true
	ana := joined(t, s, harness.SSE, w, o)
	o = in("")
	o.Plain, o.Observe = true, true
	observer := s.OpenSSE(t, o)
	id := ana.Ready().Connection
	began := time.Now()
	ana.Until(4*s.Lease, "four rotations", func() bool { return ana.Streams() >= 5 })
	if d := time.Since(began); d < 4*s.Lease*45/100 {
		t.Errorf("four rotations took %v: that is too often", d)
	}
	ana.Until(soon, "the list again", func() bool { l := ana.List(room); return l != nil && l.Stream == ana.Streams() })
	if got := ana.Ready().Connection; got != id {
		t.Errorf("connection: got %s, want %s", got, id)
	}
	for _, c := range []*harness.Client{ana, observer} {
		if len(c.Ends()) == 0 || len(c.Events("beat")) > 0 {
			t.Errorf("%d ends and %d beats", len(c.Ends()), len(c.Events("beat")))
		}
		for _, e := range c.Ends() {
			if e.Bye != "rotate" || e.Back == nil {
				t.Errorf("end: got %+v, want rotate", e)
			}
		}
		if r := c.Retry(); r <= 0 || r > s.Lease/6 || r > 300*time.Millisecond {
			t.Errorf("retry: got %v", r)
		}
		if n := len(c.Events("snapshot")); n > 2 {
			t.Errorf("snapshots: got %d: who comes back is to be told what is new", n)
		}
	}
	sawOnly(t, w, "ana", 1, 0)
}

// TestPlainClientThatStaysAwayExpires: its connection is closed by the server, so
// nobody announced anything, and the lease runs on to its end.
func TestPlainClientThatStaysAwayExpires(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.SSE, room)
	o := in("ana")
	o.Plain = true
	ana := joined(t, s, harness.SSE, w, o)
	at := time.Now()
	ana.Freeze()
	w.Until(s.Gone(), "ana goes", gone(w, "ana"))
	if d := time.Since(at); d < s.Lease*8/10 {
		t.Errorf("gone after %v, want the lease", d)
	}
	if l := w.Leaves(room, "ana"); l[0].Reason != "expired" {
		t.Errorf("reason: got %q, want expired", l[0].Reason)
	}
}

// TestSinceShortensTheBeginning: what a newcomer says it holds is made current,
// or replaced.
func TestSinceShortensTheBeginning(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		joined(t, s, over, w, in("ana"))
		held := w.List(room)
		open := func(held *harness.List) string {
			t.Helper()
			o := in("")
			o.Observe, o.Held = true, held
			c := s.Open(t, over, o)
			return c.Events("snapshot", "resumed", "diff")[0].Name
		}
		if got := open(held); got != "resumed" {
			t.Errorf("since the present: got %s, want resumed", got)
		}
		joined(t, s, over, w, in("ben"))
		if got := open(held); got != "diff" {
			t.Errorf("since before ben: got %s, want diff", got)
		}
		for _, strange := range []harness.List{
			{Room: room, Epoch: "other", Version: held.Version},
			{Room: room, Epoch: held.Epoch, Version: held.Version * 2},
		} {
			if got := open(&strange); got != "snapshot" {
				t.Errorf("since %s.%d: got %s, want snapshot", strange.Epoch, strange.Version, got)
			}
		}
	})
}

// TestSeveralRoomsResumeTogether: a stream of several rooms that comes back is
// told that all is current, or all of it anew.
func TestSeveralRoomsResumeTogether(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Grace: time.Second})
	ana := s.OpenSSE(t, harness.Options{User: "ana", Rooms: []string{"a", "b", "c"}})
	id := ana.Ready().Connection
	ana.Hangup()
	ana.Reopen()
	if n := len(ana.Events("resumed")); n != 3 {
		t.Errorf("resumed: got %d, want 3", n)
	}
	ben := s.OpenSSE(t, harness.Options{User: "ben", Rooms: []string{"b"}})
	ana.Until(soon, "ben", func() bool { return ana.Has("b", "ben") })
	ana.Hangup()
	ben.Leave("b")
	ana.Reopen()
	s.Rest()
	if ana.Has("b", "ben") || ana.Ready().Connection != id {
		t.Errorf("after ben left: %v, connection %s", ana.List("b").Users(), ana.Ready().Connection)
	}
}

// TestObserversAreNotThere: an observer sees, is not seen, and has nothing to set.
func TestObserversAreNotThere(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		o := in("eve")
		o.Observe = true
		eve := s.Open(t, over, o)
		w := s.Watch(t, over, room)
		joined(t, s, over, w, in("ana"))
		eve.Until(soon, "ana", func() bool { return eve.Has(room, "ana") })
		if r := eve.Set(room, `{"status":"idle"}`); r.OK || r.Code != "forbidden" {
			t.Errorf("set: %s", r.Raw)
		}
		if got := s.Users(room); !slices.Equal(got, []string{"ana"}) {
			t.Errorf("roster: %q", got)
		}
		if r := s.Room(room); r.Count != 1 || r.Connections != 1 {
			t.Errorf("room: %+v", r)
		}
		w.Never(s.Beat, "eve", func() bool { return w.Has(room, "eve") })
	})
}

// TestJoinAfterObserving: who observes and then joins is there.
func TestJoinAfterObserving(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	o := in("ana")
	o.Observe = true
	w := s.Watch(t, harness.WS, room)
	ana := s.OpenWS(t, o)
	s.Know(room, "ana")
	for i := range 3 {
		if r := ana.Ask(fmt.Sprintf(`{"type":"join","room":%q,"data":{"n":%d}}`, room, i)); !r.OK || r.Member == nil {
			t.Errorf("join %d: %s", i, r.Raw)
		}
	}
	w.Until(soon, "the newest state", func() bool { m, _ := w.Member(room, "ana"); return string(m.Data) == `{"n":2}` })
	if r := ana.Ask(`{"type":"join","room":"` + room + `","observe":true}`); !r.OK {
		t.Errorf("observe: %s", r.Raw)
	}
	if m, _ := s.Member(room, "ana"); m.Connections != 1 {
		t.Errorf("connections: got %d, want 1", m.Connections)
	}
	sawOnly(t, w, "ana", 1, 0)
	n := len(ana.Events("snapshot"))
	ana.Ask(`{"type":"snapshot","room":"` + room + `"}`)
	ana.Until(soon, "a snapshot on demand", func() bool { return len(ana.Events("snapshot")) == n+1 })
}

// TestLeasesWithoutAStream: POST, PUT, PATCH and DELETE are a presence of their
// own.
func TestLeasesWithoutAStream(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true})
	s.Know(room, "bot", "ana")
	w := s.Watch(t, harness.SSE, room)
	token := s.Token(harness.Claims{User: "bot", Info: json.RawMessage(`{"name":"Bot"}`)})
	type lease struct {
		Connection, Resume string
		LeaseMs            int64
		Member             harness.Member
	}
	ask := func(c harness.Call, status int) (l lease) {
		t.Helper()
		a := s.Do(c)
		if a.Status != status {
			t.Fatalf("%s %s: got %d %s, want %d", c.Method, c.Path, a.Status, a.Body, status)
		}
		a.JSON(&l)
		return l
	}
	path := harness.RoomPath(room, "/connections")
	made := ask(harness.Call{Method: "POST", Path: path, Token: token, Body: `{"data":{"n":1},"ttlMs":1}`}, 201)
	if made.LeaseMs != 5000 || made.Member.User != "bot" || string(made.Member.Info) != `{"name":"Bot"}` || made.Member.Connections != 1 {
		t.Errorf("post: %+v", made)
	}
	w.Until(soon, "the bot", func() bool { return w.Has(room, "bot") })
	mine := harness.ConnectionPath(room, made.Connection)
	began := time.Now()
	ask(harness.Call{Method: "PATCH", Path: mine, Resume: made.Resume, Body: `{"data":{"m":null},"status":"idle"}`}, 200)
	w.Until(soon, "its new state", func() bool {
		m, _ := w.Member(room, "bot")
		return string(m.Data) == `{"n":1,"m":null}` && m.Status == "idle"
	})
	harness.Always(t, time.Until(began.Add(3*time.Second)), "the bot is there", func() bool { return s.Present(room, "bot") })
	renewed := ask(harness.Call{Method: "PUT", Path: mine, Resume: made.Resume, Body: `{"ttlMs":5000}`}, 200)
	if renewed.Connection != made.Connection || string(renewed.Member.Data) != `{"n":1,"m":null}` {
		t.Errorf("put: %+v", renewed)
	}
	harness.Always(t, time.Until(began.Add(6*time.Second)), "the renewed bot is there", func() bool { return s.Present(room, "bot") })
	w.Until(soon, "the bot runs out", gone(w, "bot"))
	if l := w.Leaves(room, "bot"); l[0].Reason != "expired" {
		t.Errorf("reason: got %q, want expired", l[0].Reason)
	}
	ask(harness.Call{Method: "PUT", Path: mine, Resume: renewed.Resume}, 410)
	ask(harness.Call{Method: "PATCH", Path: mine, Resume: renewed.Resume, Body: `{"status":"idle"}`}, 410)
	for range 2 {
		ask(harness.Call{Method: "DELETE", Path: mine, Resume: renewed.Resume}, 204)
	}
	again := ask(harness.Call{Method: "POST", Path: path, Token: token, Body: `{"ttlMs":3600000}`}, 201)
	w.Until(soon, "the bot again", func() bool { return w.Has(room, "bot") })
	if again.LeaseMs != 3600000 {
		t.Errorf("leaseMs: got %d", again.LeaseMs)
	}
	ask(harness.Call{Method: "DELETE", Path: harness.ConnectionPath(room, again.Connection), Resume: again.Resume}, 204)
	w.Until(soon, "the bot leaves", gone(w, "bot"))
	sawOnly(t, w, "bot", 2, 2)

	reader := s.Token(harness.Claims{User: "bot", Grants: map[string][]harness.Capability{"*": {harness.Read}}})
	ask(harness.Call{Method: "POST", Path: path, Token: reader}, 403)
	ask(harness.Call{Method: "POST", Path: path, Body: `{}`}, 400)
	ask(harness.Call{Method: "POST", Path: path, Nobody: true}, 401)
}

// TestPutAddsARoomToAStream: a lease that is put on a connection with a stream is
// shown on the stream, and lives by it.
func TestPutAddsARoomToAStream(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room, "b")
		ana := s.Open(t, over, harness.Options{User: "ana", Rooms: []string{room}, Multi: true})
		s.Know("b", "ana")
		if r := ana.Call("PUT", "b", "", `{"data":{"n":1}}`); !r.OK {
			t.Fatalf("put: %s", r.Raw)
		}
		ana.Until(soon, "the room on the stream", func() bool { return ana.Has("b", "ana") })
		w.Never(s.Lease+time.Second, "a leave", func() bool { return len(w.Leaves("", "ana")) > 0 })
		ana.Close()
		w.Until(soon, "both leaves", func() bool { return !w.Has("b", "ana") && !w.Has(room, "ana") })
	})
}

// TestClosingBeacon: what a page sends as it goes, as text, is a close; under the
// secret of an older stream it is nothing.
func TestClosingBeacon(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		old := ana.Ready()
		beacon := func(resume string) {
			t.Helper()
			a := s.Do(harness.Call{
				Method: "POST", Path: "/v1/connections/" + old.Connection + "/release", Nobody: true,
				Type: "text/plain;charset=UTF-8", Body: fmt.Sprintf(`{"resume":%q,"closing":true}`, resume),
			})
			if a.Status != 204 {
				t.Errorf("beacon: %d %s", a.Status, a.Body)
			}
		}
		ana.Cut()
		ana.Reopen()
		if ana.Ready().Resume == old.Resume {
			t.Error("a new stream has the old secret")
		}
		beacon(old.Resume)
		w.Never(3*s.Grace, "a leave by an old secret", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		beacon(ana.Ready().Resume)
		w.Until(soon, "ana leaves", gone(w, "ana"))
		if l := w.Leaves(room, "ana"); l[0].Reason != "closed" {
			t.Errorf("reason: got %q, want closed", l[0].Reason)
		}
		beacon(ana.Ready().Resume) // repeated
		sawOnly(t, w, "ana", 1, 1)
	})
}

// TestOldSecretsProveNothing: beats under the secret of an older stream do not
// keep a connection alive; opening under it still works.
func TestOldSecretsProveNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.SSE, room)
	ana := joined(t, s, harness.SSE, w, in("ana"))
	old := ana.Ready()
	ana.Cut()
	ana.Answers(false)
	ana.Reopen()
	w.Until(s.Gone(), "ana goes, for all the beats", func() bool {
		s.Do(harness.Call{Method: "POST", Path: "/v1/connections/" + old.Connection + "/beat", Resume: old.Resume, Body: `{"n":1}`})
		return !w.Has(room, "ana")
	})
	ben := joined(t, s, harness.SSE, w, in("ben"))
	first := ben.Ready()
	ben.Hangup()
	ben.Reopen()
	o := in("ben")
	o.Resume = first.Resume
	again := s.OpenSSE(t, o)
	if got := again.Ready().Connection; got != first.Connection {
		t.Errorf("connection: got %s, want %s", got, first.Connection)
	}
	sawOnly(t, w, "ben", 1, 0)
}

// TestSecretOfAnotherUserIsIgnored: a stream is resumed by its own user alone.
func TestSecretOfAnotherUserIsIgnored(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		w := s.Watch(t, over, room)
		ana := joined(t, s, over, w, in("ana"))
		o := in("ben")
		o.Resume, o.LastEventID = ana.Ready().Resume, ana.LastEventID()
		ben := joined(t, s, over, w, o)
		if ben.Ready().Connection == ana.Ready().Connection || !ana.Open() {
			t.Error("ben has taken ana's connection")
		}
		sawOnly(t, w, "ana", 1, 0)
	})
}

// TestTLS: over HTTP/2 and TLS everything is the same.
func TestTLS(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{TLS: true})
		w := s.Watch(t, over, room)
		if over == harness.SSE && w.Proto() != "HTTP/2.0" {
			t.Fatalf("protocol: got %s", w.Proto())
		}
		ana := joined(t, s, over, w, in("ana"))
		cut := joined(t, s, over, w, in("cut"))
		cut.Cut()
		if r := ana.Set(room, `{"data":{"n":1}}`); !r.OK {
			t.Errorf("set: %s", r.Raw)
		}
		w.Until(s.Gone(), "the one who was cut goes", gone(w, "cut"))
		if !w.Has(room, "ana") {
			t.Error("ana has gone too")
		}
		ana.Close()
		w.Until(soon, "ana leaves", gone(w, "ana"))
		sawOnly(t, w, "ana", 1, 1)
	})
}

// TestTokenByMessage: a WebSocket that says by message who it is.
func TestTokenByMessage(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true})
	s.Know(room, "ana")
	w := s.Watch(t, harness.WS, room)
	for _, by := range []string{"message", "subprotocol", "query"} {
		ana := s.OpenWS(t, harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ana"}), TokenBy: by})
		w.Until(soon, "ana, by "+by, func() bool { return w.Has(room, "ana") })
		ana.Leave(room)
		w.Until(soon, "ana leaves", gone(w, "ana"))
	}
	for _, first := range []string{`{"type":"join","room":"r"}`, `{"type":"auth","token":"x"}`, `{"type":"auth","id":1,"token":"x"}`, "nonsense", `{"type":"auth","token":"` + harness.APIKey + `"}`} {
		c := s.OpenWS(t, harness.Options{NoWait: true, Quiet: true})
		c.Send(first)
		c.Until(soon, "the end after "+first, func() bool { return len(c.Ends()) == 1 })
		if code := c.Ends()[0].Code; code != 4401 && code != 4403 {
			t.Errorf("%s: got %d, want 4401", first, code)
		}
		if asks := strings.Contains(first, `"id"`); (len(c.Events("error")) == 1) != asks {
			t.Errorf("%s: answered %v, want %v", first, !asks, asks)
		}
		if len(c.Events("ready")) > 0 {
			t.Errorf("%s: ready", first)
		}
	}
}

// TestWebSocketResumesAllItsRooms: a connection that comes back has every lease
// that it had, also in rooms that it does not name.
func TestWebSocketResumesAllItsRooms(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, "a", "b")
	ana := s.OpenWS(t, harness.Options{User: "ana", Rooms: []string{"a", "b"}, Data: `{"n":1}`})
	w.Until(soon, "ana", func() bool { return w.Has("a", "ana") && w.Has("b", "ana") })
	ana.Cut()
	back := s.OpenWS(t, harness.Options{User: "ana", Resume: ana.Ready().Resume})
	back.Until(soon, "both rooms", func() bool { return back.Has("a", "ana") && back.Has("b", "ana") })
	if got := back.Ready().Connection; got != ana.Ready().Connection {
		t.Errorf("connection: got %s, want %s", got, ana.Ready().Connection)
	}
	w.Never(s.Lease+500*time.Millisecond, "a leave or a join", func() bool {
		return len(w.Leaves("", "ana")) > 0 || len(w.Joins("", "ana")) > 2
	})
	back.Ping([]byte("hello"))
	back.Until(soon, "a pong", func() bool {
		e := back.Events("(pong)")
		return len(e) == 1 && string(e[0].Data) == "hello"
	})
	if r := back.Ask(`{"type":"ping"}`); !r.OK {
		t.Errorf("ping: %s", r.Raw)
	}
}

// TestCloseCodesOfClients: a WebSocket that ends with a close frame is closed,
// whatever its code; one that ends without was cut.
func TestCloseCodesOfClients(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.WS, room)
	for what, payload := range map[string]string{"1000": "\x03\xe8", "1001": "\x03\xe9bye", "none": "", "4000": "\x0f\xa0"} {
		ana := joined(t, s, harness.WS, w, in("ana "+what))
		at := time.Now()
		ana.SendFrame(8, []byte(payload))
		w.Until(soon, "the leave after "+what, gone(w, "ana "+what))
		if l := w.Leaves(room, "ana "+what); l[0].Reason != "closed" || time.Since(at) < s.Grace {
			t.Errorf("%s: %q after %v", what, l[0].Reason, time.Since(at))
		}
	}
	ana := joined(t, s, harness.WS, w, in("ana"))
	at := time.Now()
	ana.Hangup()
	w.Until(s.Gone(), "the leave of one who was cut", gone(w, "ana"))
	if l := w.Leaves(room, "ana"); l[0].Reason != "expired" || time.Since(at) < s.Lease/2 {
		t.Errorf("cut: %q after %v", l[0].Reason, time.Since(at))
	}
}

// TestDrainKeepsLeases: a node that goes away says goodbye, and takes nobody off
// the roster.
func TestDrainKeepsLeases(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{})
		ana := s.Open(t, over, in("ana"))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Embedded().Drain(ctx, 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		ana.Until(soon, "the goodbye", func() bool { return len(ana.Ends()) == 1 })
		if e := ana.Ends()[0]; e.Bye != "draining" || e.Back == nil || over == harness.WS && e.Code != 4503 {
			t.Errorf("end: got %+v, want draining and 4503", e)
		}
		if !s.Present(room, "ana") {
			t.Error("ana is gone")
		}
		o := in("ben")
		o.NoWait = true
		ben := s.Open(t, over, o)
		ben.Until(soon, "the goodbye", func() bool { return len(ben.Ends()) == 1 })
		if e := ben.Ends()[0]; e.Bye != "draining" || e.Back == nil {
			t.Errorf("end of a newcomer: got %+v, want draining", e)
		}
		if s.Present(room, "ben") {
			t.Error("ben is present on a node that drains")
		}
	})
}

// TestSettlingIsTold: a store that has lost its memory says so with all it says.
func TestSettlingIsTold(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{Settling: true})
		w := s.Watch(t, over, room)
		var told struct{ SettlingMs int64 }
		json.Unmarshal(w.Events("snapshot")[0].Data, &told)
		if told.SettlingMs <= 0 || told.SettlingMs > s.Lease.Milliseconds() {
			t.Errorf("settlingMs: got %d", told.SettlingMs)
		}
		if h := s.Get(harness.RoomPath(room, "")).Header.Get("Rollcall-Settling"); h == "" || strings.HasPrefix(h, "-") {
			t.Errorf("Rollcall-Settling: got %q", h)
		}
		joined(t, s, over, w, in("ana"))
		harness.Eventually(t, s.Gone(), "settled", func() bool {
			return s.Get(harness.RoomPath(room, "")).Header.Get("Rollcall-Settling") == ""
		})
	})
}

// TestServerKeysHaveNoPresence: a key of a back end observes, and is in no room.
func TestServerKeysHaveNoPresence(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{Tokens: true})
		s.Know(room, "ana")
		key := harness.Options{Rooms: []string{room}, Token: harness.APIKey, Hidden: true, Observe: true}
		watching := s.Open(t, over, key)
		key.Observe, key.NoWait = false, true
		joining := s.Try(t, over, key)
		if over == harness.SSE {
			if a := joining.Refused(); a == nil || a.Status != 403 || a.Problem().Code != "forbidden" {
				t.Errorf("join with a key: got %+v, want 403", a)
			}
		} else {
			joining.Until(soon, "a refusal", func() bool { return len(joining.Events("error")) == 1 })
			if r := joining.Ask(`{"type":"join","room":"` + room + `"}`); r.OK || r.Code != "forbidden" {
				t.Errorf("join with a key: got %s, want forbidden", r.Raw)
			}
		}
		s.Open(t, over, harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ana"})})
		watching.Until(soon, "ana", func() bool { return watching.Has(room, "ana") })
		if got := s.Users(room); !slices.Equal(got, []string{"ana"}) {
			t.Errorf("roster: got %q, want ana alone", got)
		}
		if a := s.Do(harness.Call{Path: harness.RoomPath(room, ""), Nobody: true}); a.Status != 401 || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("nobody: %d %s", a.Status, a.Body)
		}
	})
}

// TestEventSourceComesBackWithItsOldURL: what an EventSource said at its first
// request, and says again with each one, does not undo what was set since; and
// its Last-Event-ID is newer than a `since` in the URL.
func TestEventSourceComesBackWithItsOldURL(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.SSE, room)
	held := w.List(room)
	o := in("ana")
	o.Status, o.Data, o.Held = "active", `{"n":1}`, held
	ana := joined(t, s, harness.SSE, w, o)
	ana.Set(room, `{"status":"away","data":{"n":2}}`)
	is := func(status, data string) func() bool {
		return func() bool { m, _ := w.Member(room, "ana"); return m.Status == status && string(m.Data) == data }
	}
	w.Until(soon, "the new state", is("away", `{"n":2}`))
	for range 3 {
		ana.Hangup()
		ana.Reopen()
		w.Never(100*time.Millisecond, "another state", func() bool { return !is("away", `{"n":2}`)() })
	}
	for _, u := range w.Updates(room, "ana") {
		if u.Member.Status != "away" {
			t.Errorf("an update says %q, %s", u.Member.Status, u.Member.Data)
		}
	}
	sawOnly(t, w, "ana", 1, 0)
}

// TestExpiredEventSourceStartsAfresh: an EventSource that was told that its lease
// has ended holds nothing any more, and its Last-Event-ID does not say otherwise.
func TestExpiredEventSourceStartsAfresh(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	w := s.Watch(t, harness.SSE, room)
	o := in("ana")
	o.Silent, o.Reconnect = true, true
	ana := joined(t, s, harness.SSE, w, o)
	ana.Until(s.Gone()+soon, "she expires and comes back", func() bool { return ana.Streams() == 2 && ana.Has(room, "ana") })
	if e := ana.Ends()[0]; e.Bye != "expired" {
		t.Errorf("end: got %+v, want expired", e)
	}
	ana.Answers(true)
	w.Until(soon, "her return", func() bool { return len(w.Joins(room, "ana")) == 2 })
	sawOnly(t, w, "ana", 2, 1)
}

// TestBeatAfterTheEndLengthensNothing: what a client still says once its stream
// is closed does not keep it.
func TestBeatAfterTheEndLengthensNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Grace: 600 * time.Millisecond})
	w := s.Watch(t, harness.SSE, room)
	ana := joined(t, s, harness.SSE, w, in("ana"))
	ready := ana.Ready()
	ana.Close()
	at := time.Now()
	w.Until(soon, "ana leaves", func() bool {
		s.Do(harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Resume: ready.Resume, Body: "{}"})
		return !w.Has(room, "ana")
	})
	if d := time.Since(at); d < 500*time.Millisecond || d > s.Lease {
		t.Errorf("ana left after %v, want the grace of %v", d, s.Grace)
	}
	if l := w.Leaves(room, "ana"); l[0].Reason != "closed" {
		t.Errorf("reason: got %q, want closed", l[0].Reason)
	}
	for _, c := range []harness.Call{
		{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Resume: ready.Resume, Body: "{}"},
		{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/auth", Resume: ready.Resume, Body: `{"token":"x"}`},
		{Method: "PATCH", Path: harness.ConnectionPath(room, ready.Connection), Resume: ready.Resume, Body: `{"status":"idle"}`},
		{Method: "PUT", Path: harness.ConnectionPath(room, ready.Connection), Resume: ready.Resume, Body: `{}`},
	} {
		if a := s.Do(c); a.Status != 410 || a.Problem().Code != "gone" {
			t.Errorf("%s %s after the end: %d %s", c.Method, c.Path, a.Status, a.Body)
		}
	}
}

// gatedStore lets the first look at a room wait.
type gatedStore struct {
	store.Store
	room    rollcall.RoomID
	waiting chan struct{} // closed by the first look
	open    chan struct{} // closed by the test
	once    sync.Once
}

func (g *gatedStore) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if q.Room == g.room && q.Want == rollcall.WantSnapshot {
		g.once.Do(func() { close(g.waiting) })
		<-g.open
	}
	return g.Store.Read(ctx, q)
}

// TestOldStreamEndsWhileTheNewOneOpens: the end of a stream does not forget the
// connection under one that is about to open.
func TestOldStreamEndsWhileTheNewOneOpens(t *testing.T) {
	t.Parallel()
	gate := &gatedStore{room: "b", waiting: make(chan struct{}), open: make(chan struct{})}
	s := harness.Start(t, harness.Config{Wrap: func(inner store.Store) store.Store {
		gate.Store = inner
		return gate
	}})
	old := s.Watch(t, harness.SSE, room)
	opened := make(chan *harness.Client)
	go func() {
		opened <- s.Try(t, harness.SSE, harness.Options{Rooms: []string{room, "b"}, Observe: true, Resume: old.Ready().Resume})
	}()
	<-gate.waiting
	old.Hangup()
	harness.Eventually(t, soon, "the old stream has ended", func() bool { return s.Metric("rollcall_connections") == 0 })
	close(gate.open)
	c := <-opened
	if a := c.Refused(); a != nil {
		t.Fatalf("refused: %d %s", a.Status, a.Body)
	}
	c.Until(soon, "both rooms", func() bool { return c.List(room) != nil && c.List("b") != nil })
	joined(t, s, harness.SSE, c, in("ana"))
	c.Never(s.Lease+time.Second, "the stream ends", func() bool { return !c.Open() })
}
