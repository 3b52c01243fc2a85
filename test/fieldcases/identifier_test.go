package fieldcases

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"rollcall/test/harness"
)

// TestA28AnyUTF8IsAnID: no byte in an id means anything, in a user or in a room.
func TestA28AnyUTF8IsAnID(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		for _, r := range []string{"r|1", "a{b}c", "{}", "}{", "x:meta", "x", "a/b//c/", "..a", "%2F", "*", `\*`, "\x00\x01", "r\n", "日本/🙂?#&+ "} {
			users := []string{"admin", "admin|x", "a|b|c", "|", "x|", "a/b", "%41", "a\x00b", "🙂", " ", "~", "a\nb", `"`, strings.Repeat("ü", 128)}
			w := s.Watch(t, over, r)
			open := make(map[string]*harness.Client)
			for _, u := range users {
				open[u] = s.Open(t, over, harness.Options{User: u, Rooms: []string{r}})
			}
			w.Until(soon, "all on the list", func() bool { return len(w.List(r).Members) == len(users) })
			got := s.Users(r)
			slices.Sort(got)
			want := slices.Clone(users)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("room %q: got %q, want %q", r, got, want)
			}
			if m, ok := s.Member(r, "admin"); !ok || m.Connections != 1 {
				t.Errorf("room %q: admin is %+v, %v", r, m, ok)
			}
			open["admin|x"].Leave(r)
			open["a/b"].Leave(r)
			w.Until(soon, "two gone", func() bool { return !w.Has(r, "admin|x") && !w.Has(r, "a/b") })
			if !s.Present(r, "admin") || s.Count(r) != len(users)-2 {
				t.Errorf("room %q: after two leaves: %q", r, s.Users(r))
			}
			s.Rest()
			for _, c := range open {
				if !c.Open() {
					continue
				}
				c.Leave(r)
			}
		}
	})
}

// TestA28BackEndIDs: connection ids that the application chose are ids like any
// other.
func TestA28BackEndIDs(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true})
	for i, user := range []string{"admin", "admin|x", "|", "x|"} {
		id := fmt.Sprintf("k|%d/…", i)
		s.Know(room, user)
		a := s.Do(harness.Call{
			Method: "POST", Path: harness.RoomPath(room, "/connections"),
			Body: fmt.Sprintf(`{"user":%q,"connection":%q}`, user, id),
		})
		var made struct{ Connection, Resume string }
		if a.Status != 201 || a.JSON(&made) != nil || made.Connection != id {
			t.Fatalf("post: %d %s", a.Status, a.Body)
		}
		if a := s.Do(harness.Call{Method: "PATCH", Path: harness.ConnectionPath(room, id), Resume: made.Resume, Body: `{"status":"idle"}`}); a.Status != 200 {
			t.Errorf("patch: %d %s", a.Status, a.Body)
		}
	}
	if a := s.Do(harness.Call{Method: "POST", Path: harness.RoomPath(room, "/connections"), Body: `{"user":"other","connection":"k|0/…"}`}); a.Status != 409 || a.Problem().Code != "conflict" {
		t.Errorf("an id that is taken: %d %s", a.Status, a.Body)
	}
	if n := s.Count(room); n != 4 {
		t.Errorf("count: got %d, want 4", n)
	}
	for i := range 4 {
		if a := s.Do(harness.Call{Method: "DELETE", Path: harness.ConnectionPath(room, fmt.Sprintf("k|%d/…", i))}); a.Status != 204 {
			t.Errorf("delete: %d %s", a.Status, a.Body)
		}
	}
}

// TestA29PrototypeKeysAreKeys: names that mean something to a language mean
// nothing here.
func TestA29PrototypeKeysAreKeys(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		joined(t, s, over, w, in("ana"))
		const data = `{"polluted":true,"__proto__":{"p":1},"constructor":null,"":0}`
		for _, user := range []string{"__proto__", "constructor", "prototype", "toString", "hasOwnProperty"} {
			o := in(user)
			o.Data = data
			c := joined(t, s, over, w, o)
			m, ok := s.Member(room, user)
			if !ok || string(m.Data) != data {
				t.Errorf("%s: got %v, %s", user, ok, m.Data)
			}
			if r := c.Set(room, `{"data":{"__proto__":{"p":2}}}`); !r.OK || string(r.Member.Data) != strings.Replace(data, `{"p":1}`, `{"p":2}`, 1) {
				t.Errorf("%s: merged to %s", user, r.Raw)
			}
			if n := s.Count(room); n != 2 {
				t.Errorf("%s: count: got %d, want 2", user, n)
			}
			c.Leave(room)
			w.Until(soon, user+" leaves", gone(w, user))
		}
		if got := s.Users(room); !slices.Equal(got, []string{"ana"}) {
			t.Errorf("roster: got %q, want ana", got)
		}
	})
}

// TestA30BrokenTextHurtsNobodyElse: invalid text goes no further than to whoever
// sent it.
func TestA30BrokenTextHurtsNobodyElse(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		var others []*harness.Client
		for i := range 5 {
			others = append(others, joined(t, s, over, w, in(fmt.Sprintf("u%d", i))))
		}
		c := joined(t, s, over, w, in("ana"))
		if code := setRaw(c, `{"data":{"name":"\ud83d"}}`); code != "" && code != "bad_request" {
			t.Errorf("a lone surrogate: got %q", code)
		} else if code == "" {
			w.Until(soon, "a replacement", func() bool { m, _ := w.Member(room, "ana"); return strings.Contains(string(m.Data), "\ufffd") })
		}
		bad := "{\"data\":{\"name\":\"\xc0\x80\"}}"
		if over == harness.SSE {
			if r := c.Call("PATCH", room, "", bad); r.Code != "bad_request" {
				t.Errorf("overlong zero: got %s", r.Raw)
			}
			if a := s.Do(harness.Call{Path: "/v1/rooms/%C0%80"}); a.Status != 400 || a.Problem().Code != "bad_request" {
				t.Errorf("a room that is no UTF-8: %d %s", a.Status, a.Body)
			}
		} else {
			c.Send(`{"type":"set","room":"` + room + `",` + bad[1:])
			c.Until(soon, "the end", func() bool { return len(c.Ends()) == 1 })
			if end := c.Ends()[0]; end.Code != 1007 {
				t.Errorf("close code: got %d, want 1007", end.Code)
			}
		}
		joined(t, s, over, w, in("new"))
		for _, o := range others {
			if !o.Open() || o.Streams() != 1 {
				t.Error("another client has lost its stream")
			}
			o.Until(soon, "the newcomer", func() bool { return o.Has(room, "new") })
		}
	})
}

// TestA31TextIsNoField: whatever stands in an id, an info or data, it starts no
// field and no event of its own.
func TestA31TextIsNoField(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		const user = "u\nid: 99\r\nretry: 1"
		const name = "x\n\nevent: leave\ndata: {\"user\":\"ben\"}\n\nid: 98\r\r\n\u2028\u2029\u0085"
		info, _ := json.Marshal(map[string]string{"name": name})
		w := s.Watch(t, over, room)
		id, retry := w.LastEventID(), w.Retry()
		s.Know(room, user)
		c := s.Open(t, over, harness.Options{
			Rooms: []string{room}, Token: s.Token(harness.Claims{User: user, Info: info}), Data: string(info),
		})
		w.Until(soon, "the join", func() bool { return w.Has(room, user) })
		c.Set(room, `{"data":{"event: bye\n\n":"\n\nevent: bye\n\n"}}`)
		w.Until(soon, "the update", func() bool { return len(w.Updates(room, user)) == 1 })
		m, _ := w.Member(room, user)
		var got struct{ Name string }
		json.Unmarshal(m.Info, &got)
		if got.Name != name {
			t.Errorf("name: got %q, want %q", got.Name, name)
		}
		for _, e := range w.Events() {
			if !slices.Contains([]string{"ready", "snapshot", "diff", "beat", "(ping)"}, e.Name) {
				t.Errorf("an event %q came: %s", e.Name, e.Data)
			}
		}
		if over == harness.SSE {
			before, _, _ := strings.Cut(id, "~")
			after, _, _ := strings.Cut(w.LastEventID(), "~")
			if before != after || w.Retry() != retry {
				t.Errorf("id %q and retry %v have become %q and %v", id, retry, w.LastEventID(), w.Retry())
			}
		}
		if a := s.Do(harness.Call{Path: harness.RoomPath(room, "/members/"+url.PathEscape(user))}); a.Status != 200 {
			t.Errorf("member: %d %s", a.Status, a.Body)
		}
	})
}
