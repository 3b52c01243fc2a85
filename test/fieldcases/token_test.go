package fieldcases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA48PresenceEndsWithTheToken: before a token ends its client is warned; a
// new one goes on; without, the stream ends, the leave says revoked, and the old
// token opens nothing.
func TestA48PresenceEndsWithTheToken(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		s.Know(room, "ana", "ben")
		w := s.Watch(t, over, room)
		expires := time.Now().Add(3 * time.Second).Truncate(time.Second)
		old := s.Token(harness.Claims{User: "ana", Expires: expires})
		ana := s.Open(t, over, harness.Options{Rooms: []string{room}, Token: old})
		ben := s.Open(t, over, harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ben", Expires: expires})})
		for _, c := range []*harness.Client{ana, ben} {
			c.Until(soon, "a warning", func() bool { return len(c.Events("expiring")) == 1 })
			var warning struct{ InMs int64 }
			json.Unmarshal(c.Events("expiring")[0].Data, &warning)
			if warning.InMs < 0 || warning.InMs > 3000 {
				t.Errorf("expiring: %s", c.Events("expiring")[0].Data)
			}
		}
		fresh := s.Token(harness.Claims{User: "ben"})
		for _, wrong := range []string{s.Token(harness.Claims{User: "ana"}), "nonsense"} {
			if r := renew(ben, wrong); r.OK {
				t.Errorf("a token that is not ben's: %s", r.Raw)
			}
		}
		if r := renew(ben, fresh); !r.OK {
			t.Errorf("renew: %s", r.Raw)
		}
		w.Until(time.Until(expires)+5*time.Second+soon, "ana leaves", gone(w, "ana"))
		if early := time.Until(expires.Add(4900 * time.Millisecond)); early > 0 {
			t.Errorf("ana left %v early", early)
		}
		if l := w.Leaves(room, "ana"); l[0].Reason != "revoked" {
			t.Errorf("reason: got %q, want revoked", l[0].Reason)
		}
		ana.Until(soon, "her stream ends", func() bool { return len(ana.Ends()) == 1 })
		if end := ana.Ends()[0]; end.Bye != "token" || end.Back != nil || over == harness.WS && end.Code != 4401 {
			t.Errorf("end: got %+v, want bye token, not to come back, and 4401", end)
		}
		again := s.Try(t, over, harness.Options{Rooms: []string{room}, Token: old, NoWait: true})
		if a := again.Refused(); a == nil || a.Status != 401 || a.Problem().Code != "unauthorized" {
			t.Errorf("the old token: %+v", a)
		}
		if !ben.Open() || !s.Present(room, "ben") || s.Present(room, "ana") {
			t.Error("ben is to stay and ana to be gone")
		}
		sawOnly(t, w, "ben", 1, 0)
	})
}

func renew(c *harness.Client, token string) *harness.Reply {
	if c.Over == harness.WS {
		return c.Ask(fmt.Sprintf(`{"type":"auth","token":%q}`, token))
	}
	return c.Call("POST", "", "/auth", fmt.Sprintf(`{"token":%q}`, token))
}

// TestA49HiddenIsAbsent: for everybody else a hidden user does not exist, byte
// for byte.
func TestA49HiddenIsAbsent(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		s.Know(room, "ben")
		ben := s.Open(t, over, harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ben"})})
		w := s.Watch(t, over, room)
		w.Until(soon, "ben", func() bool { return w.Has(room, "ben") })
		look := func() (all []byte) {
			for _, c := range []harness.Call{
				{Path: harness.RoomPath(room, "")},
				{Path: harness.RoomPath(room, "/members?connections=1")},
				{Path: harness.RoomPath(room, "/members/ana")},
				{Method: "POST", Path: harness.RoomPath(room, "/members/lookup"), Body: `{"users":["ana","ben"]}`},
				{Method: "POST", Path: "/v1/counts", Body: `{"rooms":["` + room + `"]}`},
			} {
				c.Token = s.Token(harness.Claims{User: "ben"})
				a := s.Do(c)
				body := a.Body
				if p := a.Problem(); p.Code != "" {
					body = []byte(p.Code + p.Detail)
				}
				all = append(all, fmt.Sprintf("%s: %d %s %s\n", c.Path, a.Status, a.Header.Get("ETag"), body)...)
			}
			return all
		}
		without := look()
		members := s.Metric("rollcall_members")
		events := len(w.Events("diff", "snapshot"))
		hidden := harness.Options{Hidden: true, Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ana", Hidden: true}), Status: "idle", Data: `{"x":1}`}
		ana := s.Open(t, over, hidden)
		for range 3 {
			if r := ana.Set(room, `{"status":"active","data":{"x":2}}`); !r.OK {
				t.Errorf("set of a hidden user: %s", r.Raw)
			}
		}
		if with := look(); !bytes.Equal(with, without) {
			t.Errorf("with a hidden user:\n%s\nwithout:\n%s", with, without)
		}
		if !ana.Has(room, "ben") {
			t.Error("a hidden user does not see")
		}
		if n := s.Metric("rollcall_members"); n != members {
			t.Errorf("members: got %g, want %g", n, members)
		}
		ana.Reopen()
		ana.Close()
		w.Never(2*s.Grace+200*time.Millisecond, "an event", func() bool { return len(w.Events("diff", "snapshot")) != events })
		if with := look(); !bytes.Equal(with, without) {
			t.Errorf("after a hidden user:\n%s\nwithout:\n%s", with, without)
		}
		if n := len(ben.Events("diff")); n > 0 && ben.Has(room, "ana") {
			t.Errorf("ben was told of ana")
		}
		s.Know(room, "ana")
		s.Open(t, over, harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ana"})})
		w.Until(soon, "ana, visible", func() bool { return w.Has(room, "ana") })
		sawOnly(t, w, "ana", 1, 0)
	})
}
