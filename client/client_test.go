package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"rollcall"
	"rollcall/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func users(list []*rollcall.Member) (ids []rollcall.UserID) {
	for _, m := range list {
		ids = append(ids, m.User)
	}
	return ids
}

func TestRoomFollowsTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{User: "ana", Name: "Ana"}, EnterOptions{})
		if got := s.request.URL.RawQuery; got != "name=Ana&user=ana" {
			t.Errorf("query %q", got)
		}
		changes := r.Changes()
		if first := next(t, changes, KindSnapshot); first.Count != 2 || first.State != StateLive {
			t.Errorf("snapshot %+v", first)
		}
		if r.Self() == nil || r.Self().User != "ana" || c.User() != "ana" || c.Connection() != "c1" {
			t.Errorf("self %v, user %q, connection %q", r.Self(), c.User(), c.Connection())
		}
		s.say(wire.EventDiff, `"room":"r","prev":10,"version":11,"count":2,"join":[{"user":"cy","since":9}],"leave":[{"user":"bob","reason":"closed"}]`)
		if left := next(t, changes, KindLeave); left.Member.User != "bob" || left.Reason != rollcall.ReasonClosed || left.Count != 1 {
			t.Errorf("leave %+v", left)
		}
		if joined := next(t, changes, KindJoin); joined.Member.User != "cy" || joined.Count != 2 {
			t.Errorf("join %+v", joined)
		}
		if d := cmp.Diff([]rollcall.UserID{"cy", "ana"}, users(r.Members())); d != "" {
			t.Error(d)
		}

		left := make(chan error)
		go func() { left <- r.Leave(t.Context()) }()
		s.expect(wire.MessageLeave, "r")
		if err := <-left; err != nil {
			t.Error(err)
		}
		if over := next(t, changes, KindState); over.State != StateOver || over.Err != nil {
			t.Errorf("%+v", over)
		}
		if _, open := <-changes; open {
			t.Error("changes go on after the room is over")
		}
		if err := r.SetStatus(t.Context(), rollcall.StatusIdle); !errors.Is(err, ErrLeft) {
			t.Errorf("set after leave: %v", err)
		}
		go c.Close()
		if code := s.closed(); code != websocket.StatusNormalClosure {
			t.Errorf("closed with %d", code)
		}
	})
}

func TestReconnectResumesAndSaysTheWholeWishAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{Status: rollcall.StatusIdle, Data: json.RawMessage(`{"a": 1}`)})
		changes := r.Changes()
		next(t, changes, KindSnapshot)

		time.Sleep(time.Minute / 12) // a stream that stayed; the server's beats are sooner than that
		cut := time.Now()
		s.cut()
		if state := next(t, changes, KindState); state.State != StateReconnecting || state.Err == nil {
			t.Errorf("%+v", state)
		}
		if r.Count() != 2 || !r.Stale("bob") {
			t.Errorf("%d members, bob stale %v: the roster stays", r.Count(), r.Stale("bob"))
		}
		set := make(chan error)
		go func() { set <- r.Set(t.Context(), json.RawMessage(`{"b":2}`)) }()

		s = f.next()
		if wait := time.Since(cut); wait > backoffFirst {
			t.Errorf("came back after %v", wait)
		}
		if got := s.request.URL.Query().Get("resume"); got != "secret of c1" {
			t.Errorf("resume %q", got)
		}
		synctest.Wait() // the set has been asked for
		s.ready("c1")
		join := s.expect(wire.MessageJoin, "r")
		if join.Status != rollcall.StatusIdle || join.Data != nil || join.Since == nil || *join.Since != (wire.Since{Epoch: "e", Version: 10}) {
			t.Errorf("join %+v", join)
		}
		if m := s.expect(wire.MessageSet, "r"); string(m.Data) != `{"a":1,"b":2}` || !m.Replace {
			t.Errorf("set %s, replace %v", m.Data, m.Replace)
		}
		if err := <-set; err != nil {
			t.Error(err)
		}
		s.say(wire.EventDiff, `"room":"r","prev":10,"version":12,"count":1,"leave":[{"user":"bob","reason":"left"}]`)
		next(t, changes, KindLeave)
		if state := next(t, changes, KindState); state.State != StateLive {
			t.Errorf("%+v", state)
		}
		go c.Close()
		s.expect(wire.MessageLeave, "r")
		s.closed()
	})
}

func TestNewConnectionJoinsAfresh(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, s := entered(t, f, Options{}, EnterOptions{Data: json.RawMessage(`{"a":1}`)})
		s.conn.Close(4409, "")
		s.cut()
		s = f.next()
		if s.request.URL.Query().Has("resume") {
			t.Error("resumes what somebody else has taken over")
		}
		s.ready("c2")
		if join := s.expect(wire.MessageJoin, "r"); string(join.Data) != `{"a":1}` || join.Since == nil {
			t.Errorf("join %+v", join)
		}
		go c.Close()
		s.closed()
	})
}

func TestGapIsMendedBySnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		changes := r.Changes()
		next(t, changes, KindSnapshot)
		for version := range 3 { // asked for once
			s.say(wire.EventDiff, fmt.Sprintf(`"room":"r","prev":%d,"version":%d,"count":3,"join":[{"user":"dee"}]`, 20+version, 21+version))
		}
		s.expect(wire.MessageSnapshot, "r")
		s.snapshot(23, "dee", "ana", "bob")
		if joined := next(t, changes, KindJoin); joined.Member.User != "dee" {
			t.Errorf("%+v", joined)
		}
		s.say(wire.EventDiff, `"room":"r","prev":23,"version":24,"count":"many"`)
		s.expect(wire.MessageSnapshot, "r")
		go c.Close()
		s.expect(wire.MessageLeave, "r")
		s.closed()
	})
}

func TestSilentServerIsDead(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		silent := time.Now()
		s.conn.CloseRead(t.Context())
		for range 3 { // a ping counts, a beat counts
			time.Sleep(9 * time.Second)
			s.say(wire.EventBeat, `"n":1`)
			time.Sleep(9 * time.Second)
			if err := s.conn.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			silent = time.Now()
		}
		if state, _ := r.State(); state != StateLive {
			t.Errorf("state %v", state)
		}
		next := f.next()
		if d := time.Since(silent); d < 14400*time.Millisecond || d > 14400*time.Millisecond+backoffFirst {
			t.Errorf("given up after %v", d)
		}
		if _, err := r.State(); err == nil {
			t.Error("no reason is given")
		}
		c.cancel()
		c.Close()
		next.cut()
	})
}

func TestByeSaysWhenToComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		started := time.Now()
		s.say(wire.EventBye, `"reason":"draining","reconnectMs":7000`)
		if code := s.closed(); code != -1 {
			t.Errorf("the client answers a bye with close frame %d, which announces that it goes", code)
		}
		s = f.next()
		if d := time.Since(started); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("came back after %v", d)
		}
		s.ready("c1")
		s.say(wire.EventBye, `"reason":"kicked","reconnectMs":null`)
		s.closed()
		f.none(time.Minute)
		var refused *rollcall.Error
		if state, err := r.State(); state != StateOver || !errors.As(err, &refused) || refused.Code != rollcall.CodeForbidden {
			t.Errorf("state %v, error %v", state, err)
		}
		if _, err := c.Enter(t.Context(), "r2", EnterOptions{}); !errors.As(err, &refused) {
			t.Errorf("enter after a farewell for good: %v", err)
		}
		c.Close()
	})
}

func TestPermanentCloseCodesStop(t *testing.T) {
	for code, want := range map[websocket.StatusCode]rollcall.Code{4400: rollcall.CodeBadRequest, 4401: rollcall.CodeUnauthorized, 4403: rollcall.CodeForbidden, 4413: rollcall.CodeTooLarge} {
		bubble(t, func(t *testing.T, f *fake) {
			c, r, s := entered(t, f, Options{Token: "t"}, EnterOptions{})
			if got := s.request.Header.Get("Authorization"); got != "Bearer t" {
				t.Errorf("Authorization %q", got)
			}
			s.conn.Close(code, "no")
			f.none(time.Minute)
			var refused *rollcall.Error
			if state, err := r.State(); state != StateOver || !errors.As(err, &refused) || refused.Code != want {
				t.Errorf("%d: state %v, error %v", code, state, err)
			}
			c.Close()
			s.cut()
		})
	}
}

func TestExpiringTokenIsRenewedAndRefusedOneReplacedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		n := 0
		c, _, s := entered(t, f, Options{TokenFunc: func(context.Context) (string, error) {
			n++
			return fmt.Sprint("t", n), nil
		}}, EnterOptions{})
		s.say(wire.EventExpiring, `"inMs":60000`)
		if m := s.hear(); m.Type != wire.MessageAuth || m.Token != "t2" {
			t.Errorf("says %s %s", m.Type, m.Token)
		}
		s.conn.Close(4401, "")
		s = f.next()
		if got := s.request.Header.Get("Authorization"); got != "Bearer t3" {
			t.Errorf("Authorization %q", got)
		}
		s.conn.Close(4401, "")
		f.none(time.Minute)
		c.Close()
	})
}

func TestRefusedSetIsAnErrorAndTheDataStays(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{Data: json.RawMessage(`{"a":1}`)})
		set := make(chan error)
		go func() { set <- r.Set(t.Context(), json.RawMessage(`{"b":"<&>"}`)) }()
		m := s.hear()
		if string(m.Data) != `{"a":1,"b":"<&>"}` {
			t.Errorf("set %s", m.Data)
		}
		s.refuse(m, rollcall.CodeTooLarge)
		var refused *rollcall.Error
		if err := <-set; !errors.As(err, &refused) || refused.Code != rollcall.CodeTooLarge {
			t.Errorf("error %v", err)
		}
		go func() { set <- r.Replace(t.Context(), json.RawMessage(`{"c":3}`)) }()
		if m := s.expect(wire.MessageSet, "r"); string(m.Data) != `{"c":3}` || !m.Replace {
			t.Errorf("set %s", m.Data)
		}
		if err := <-set; err != nil {
			t.Error(err)
		}
		go func() { set <- r.SetStatus(t.Context(), rollcall.StatusAway) }()
		if m := s.expect(wire.MessageSet, "r"); m.Status != rollcall.StatusAway || string(m.Data) != `{"c":3}` {
			t.Errorf("set %+v", m)
		}
		if err := <-set; err != nil {
			t.Error(err)
		}
		if err := r.Set(t.Context(), json.RawMessage(`[1]`)); err == nil {
			t.Error("data that is no object was taken")
		}
		go c.Close()
		s.expect(wire.MessageLeave, "r")
		s.closed()
	})
}

func TestSetsInFlightAreOneAndTheNewestWins(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		sets := make(chan error)
		set := func(data string) {
			go func() { sets <- r.Set(t.Context(), json.RawMessage(data)) }()
			synctest.Wait()
		}
		set(`{"n":0}`)
		first := s.hear()
		for n := 1; n <= 100; n++ {
			set(fmt.Sprintf(`{"n":%d}`, n))
		}
		s.say(wire.EventOK, fmt.Sprintf(`"id":%s`, first.ID))
		if m := s.expect(wire.MessageSet, "r"); string(m.Data) != `{"n":100}` {
			t.Errorf("set %s", m.Data)
		}
		for range 101 {
			if err := <-sets; err != nil {
				t.Error(err)
			}
		}
		go c.Close()
		s.expect(wire.MessageLeave, "r")
		s.closed()
	})
}

func TestEnterTellsWhyNot(t *testing.T) {
	var refused *rollcall.Error
	bubble(t, func(t *testing.T, f *fake) { // nobody there
		f.setDown(errDown)
		c := f.client(Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Enter(ctx, "r", EnterOptions{}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		c.Close()
	})
	bubble(t, func(t *testing.T, f *fake) { // not this token
		f.setRefuse(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			w.Write(wire.AppendProblem(nil, rollcall.Errorf(rollcall.CodeUnauthorized, "the token has expired"), "x"))
		})
		c := f.client(Options{Token: "old"})
		if _, err := c.Enter(t.Context(), "r", EnterOptions{}); !errors.As(err, &refused) || refused.Detail != "the token has expired" {
			t.Errorf("error %v", err)
		}
		c.Close()
	})
	bubble(t, func(t *testing.T, f *fake) { // not this room, and later that one
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		if _, err := c.Enter(t.Context(), "r", EnterOptions{}); !errors.As(err, &refused) || refused.Code != rollcall.CodeConflict {
			t.Errorf("twice: %v", err)
		}
		done := make(chan error)
		go func() {
			_, err := c.Enter(t.Context(), "private", EnterOptions{Observe: true})
			done <- err
		}()
		m := s.hear()
		if !m.Observe || m.Status != rollcall.StatusUnset {
			t.Errorf("join %+v", m)
		}
		s.refuse(m, rollcall.CodeForbidden)
		if err := <-done; !errors.As(err, &refused) || refused.Code != rollcall.CodeForbidden {
			t.Errorf("forbidden: %v", err)
		}
		go func() {
			_, err := c.Enter(t.Context(), "busy", EnterOptions{Observe: true})
			done <- err
		}()
		s.refuse(s.hear(), rollcall.CodeRateLimited)
		s.expect(wire.MessageJoin, "busy")
		s.say(wire.EventSnapshot, `"room":"busy","epoch":"e","version":1,"mode":"full","count":0,"members":[]`)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if state, _ := r.State(); state != StateLive {
			t.Errorf("the other room is %v", state)
		}
		go c.Close()
		s.closed()
	})
}

func TestEndedLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		changes := r.Changes()
		next(t, changes, KindSnapshot)
		s.say(wire.EventEnded, `"room":"r","reason":"expired"`)
		if e := next(t, changes, KindEnded); e.Reason != rollcall.ReasonExpired {
			t.Errorf("%+v", e)
		}
		s.expect(wire.MessageJoin, "r")
		s.say(wire.EventEnded, `"room":"r","reason":"kicked"`)
		next(t, changes, KindEnded)
		if over := next(t, changes, KindState); over.State != StateOver || over.Err == nil {
			t.Errorf("%+v", over)
		}
		go c.Close()
		s.closed()
	})
}

func TestSettlingMembersAreGivenUpInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		changes := r.Changes()
		next(t, changes, KindSnapshot)
		started := time.Now()
		s.say(wire.EventSnapshot, `"room":"r","epoch":"e2","version":99,"mode":"full","count":1,"members":[{"user":"ana","status":"active","since":2}],"settlingMs":8000`)
		synctest.Wait()
		if r.Count() != 2 || !r.Stale("bob") || r.Stale("ana") {
			t.Errorf("count %d, stale bob %v, ana %v", r.Count(), r.Stale("bob"), r.Stale("ana"))
		}
		if left := next(t, changes, KindLeave); left.Member.User != "bob" || time.Since(started) != 8*time.Second {
			t.Errorf("%+v after %v", left, time.Since(started))
		}
		go c.Close()
		s.expect(wire.MessageLeave, "r")
		s.closed()
	})
}

func TestCloseWithoutStreamReleasesByHTTP(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, s := entered(t, f, Options{}, EnterOptions{})
		f.setRefuse(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		s.cut()
		time.Sleep(time.Second)
		c.Close()
		if d := cmp.Diff([]string{`POST /v1/connections/c1/release {"resume":"secret of c1"}`}, f.requests()); d != "" {
			t.Error(d)
		}
	})
}

func TestCloseDoesNotWaitForADeafServer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, r, s := entered(t, f, Options{}, EnterOptions{})
		started := time.Now()
		c.Close() // nobody reads the other end
		if d := time.Since(started); d > 2*closeWait {
			t.Errorf("took %v", d)
		}
		if _, err := c.Enter(t.Context(), "r", EnterOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("enter: %v", err)
		}
		if state, err := r.State(); state != StateOver || err != nil {
			t.Errorf("state %v, %v", state, err)
		}
		s.cut()
	})
}

func TestServerThatEndsStreamsAtOnceIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, s := entered(t, f, Options{}, EnterOptions{})
		s.cut()
		started := time.Now()
		for range 8 {
			s := f.next()
			s.ready("c1")
			s.conn.Close(4500, "")
			s.cut()
		}
		if d := time.Since(started); d < 2*time.Second {
			t.Errorf("8 attempts in %v", d)
		}
		c.Close()
	})
}

func TestOptions(t *testing.T) {
	for _, url := range []string{"", "localhost:8080", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Options{URL: url}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	c, err := New(Options{URL: "wss://x.test/presence/?q=1", APIKey: "sk_1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.endpoint.at(nil, "rooms", "doc/42 *"); got != "https://x.test/presence/v1/rooms/doc%2F42%20%2A" && got != "https://x.test/presence/v1/rooms/doc%2F42%20*" {
		t.Errorf("address %q", got)
	}
	c.Close()
	c.Close()
}
