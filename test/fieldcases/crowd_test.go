package fieldcases

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/test/harness"
)

// inModes runs a test in rooms that name their members, and in rooms that tell a
// number.
func inModes(t *testing.T, c harness.Config, test func(t *testing.T, s *harness.Server, over harness.Transport)) {
	t.Parallel()
	for name, modes := range map[string]rollcall.Modes{
		"Full":   {Above: 1000, Below: 900, Every: time.Second},
		"Counts": {Above: 1, Below: 1, Every: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			c.Modes = modes
			harness.Worlds(t, c, test)
		})
	}
}

// crowd keeps members without streams, by the back end.
type crowd struct {
	t *testing.T
	s *harness.Server
}

func (c *crowd) call(method, user, body string) {
	c.t.Helper()
	a := c.s.Do(harness.Call{Method: method, Path: harness.ConnectionPath(room, "of-"+user), Body: body})
	if a.Err != nil || a.Status/100 != 2 {
		c.t.Fatalf("%s of %s: %d, %v, %s", method, user, a.Status, a.Err, a.Body)
	}
	c.s.Know(room, user)
}

func (c *crowd) join(users ...string) {
	c.t.Helper()
	for _, user := range users {
		c.call("PUT", user, fmt.Sprintf(`{"user":%q,"ttlMs":600000}`, user))
	}
}

func (c *crowd) away(users ...string) {
	c.t.Helper()
	for _, user := range users {
		c.call("PUT", user, fmt.Sprintf(`{"user":%q,"ttlMs":600000,"status":"away"}`, user))
	}
}

func (c *crowd) leave(users ...string) {
	c.t.Helper()
	for _, user := range users {
		c.call("DELETE", user, "")
	}
}

func users(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("u%03d", i))
	}
	return all
}

// TestA46PagesShowWhoStaysOnce: somebody reads a room page by page while it changes,
// and somebody else looks at a page of it.
func TestA46PagesShowWhoStaysOnce(t *testing.T) {
	inModes(t, harness.Config{Tokens: true}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		c := &crowd{t, s}
		c.join(users(0, 120)...)
		w := s.Watch(t, over, room)
		if r := w.OpenPage(room, "top", `{"limit":30}`); !r.OK {
			t.Fatalf("open a page: %s", r.Raw)
		}
		w.Until(soon, "the page", func() bool { return w.Page(room, "top") != nil && len(w.Page(room, "top").Users) == 30 })

		seen := make(map[string]int)
		gone := make(map[string]bool)
		cursor := ""
		for page := 0; ; page++ {
			var p struct {
				Members    []harness.Member
				NextCursor *string
			}
			if err := s.Get(harness.RoomPath(room, "/members?limit=30&cursor="+cursor)).JSON(&p); err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Members {
				seen[m.User]++
				if gone[m.User] {
					t.Errorf("%s, who had left, is on page %d", m.User, page)
				}
			}
			if p.NextCursor == nil {
				break
			}
			cursor = *p.NextCursor
			leavers := users(page*2, page*2+2)
			leavers = append(leavers, fmt.Sprintf("u%03d", 110+page)) // was on the first page
			c.leave(leavers...)
			for _, u := range leavers {
				gone[u] = true
			}
			c.join(fmt.Sprintf("new%d", page))
			c.away(users(40+page*10, 50+page*10)...)
		}
		for _, u := range users(0, 120) {
			if n := seen[u]; !gone[u] && n != 1 {
				t.Errorf("%s, who stayed, was seen %d times", u, n)
			}
		}
		first := func() (all []string) {
			var p struct{ Members []harness.Member }
			if err := s.Get(harness.RoomPath(room, "/members?limit=30")).JSON(&p); err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Members {
				all = append(all, m.User)
			}
			slices.Sort(all)
			return all
		}
		w.Until(soon, "the open page to be the first one", func() bool {
			shown := slices.Sorted(slices.Values(w.Page(room, "top").Users))
			return slices.Equal(shown, first())
		})
		for _, bad := range []string{"limit=0", "limit=-1", "limit=x", "cursor=x", "cursor=" + cursor + "A"} {
			a := s.Do(harness.Call{Path: harness.RoomPath(room, "/members?"+bad)})
			if a.Status != http.StatusBadRequest {
				t.Errorf("%s: status %d, want 400", bad, a.Status)
			}
		}
		if a := s.Do(harness.Call{Path: harness.RoomPath("another", "/members?cursor="+cursor)}); cursor != "" && a.Status != http.StatusBadRequest {
			t.Errorf("the cursor of another room: status %d, want 400", a.Status)
		}
		if r := w.OpenPage(room, "top", `{"cursor":"x"}`); r.OK || r.Code != "bad_request" {
			t.Errorf("a page at a cursor of nobody: %s", r.Raw)
		}
		var all []string
		for _, m := range s.Roster(room) {
			all = append(all, m.User)
		}
		c.leave(all...)
		w.Until(soon, "an empty page", func() bool { return len(w.Page(room, "top").Users) == 0 })
		if n := w.Page(room, "top").Left["u119"]; n != "left" {
			t.Errorf("u119 went off the page for the reason %q, want left", n)
		}
	})
}

// TestA17WhoDiedIsGoneFromEveryWindow: nobody reports the end of a client that has
// died. The server finds out by time alone, and tells who looks.
func TestA17WhoDiedIsGoneFromEveryWindow(t *testing.T) {
	inModes(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		for _, user := range []string{"ben", "cleo"} {
			s.Open(t, over, in(user))
		}
		if r := w.OpenPage(room, "p", `{}`); !r.OK {
			t.Fatalf("open a page: %s", r.Raw)
		}
		if r := w.Contacts(room, "ana", "ben", "nobody"); !r.OK || strings.Contains(string(r.Raw), "ana") || !strings.Contains(string(r.Raw), "ben") {
			t.Fatalf("contacts: %s", r.Raw)
		}
		ana := s.Open(t, over, harness.Options{User: "ana", Rooms: []string{room}, Status: "active"})
		w.Until(soon, "ana on the page and among the contacts", func() bool {
			return slices.Contains(w.Page(room, "p").Users, "ana") && w.ContactsTold(room)["ana"]
		})
		died := time.Now()
		ana.Cut()
		w.Never(s.Lease/2, "told that ana has gone, whose lease runs", func() bool {
			return !slices.Contains(w.Page(room, "p").Users, "ana") || !w.ContactsTold(room)["ana"]
		})
		w.Until(s.Gone()+2*time.Second-time.Since(died)+soon/3, "told that ana has gone", func() bool {
			here, told := w.ContactsTold(room)["ana"]
			return !slices.Contains(w.Page(room, "p").Users, "ana") && told && !here
		})
		if reason := w.Page(room, "p").Left["ana"]; reason != "expired" {
			t.Errorf("ana went off the page for the reason %q, want expired", reason)
		}
		var found struct {
			Status   *string
			LastSeen int64
		}
		harness.Eventually(t, soon, "ana is nowhere", func() bool {
			return s.Get("/v1/users/ana").JSON(&found) == nil && found.Status == nil
		})
		if age := died.Sub(time.UnixMilli(found.LastSeen)); age < -time.Second || age > time.Minute {
			t.Errorf("ana was last seen %v before the end of the stream", age)
		}
		if s.Present(room, "ana") {
			t.Error("ana is read as a member")
		}
		if told := w.ContactsTold(room); len(told) != 1 {
			t.Errorf("told of contacts that did not change: %v", told)
		}
	})
}

// TestA24ReturnOfACrowdIsSilent: a proxy goes away under everybody and comes back.
func TestA24ReturnOfACrowdIsSilent(t *testing.T) {
	const members = 60
	modes := rollcall.Modes{Above: 20, Below: 15, Every: time.Second}
	// A grace of a second is also the time in which the ends of a crowd are judged.
	// On a busy machine a crowd needs seconds to come back.
	harness.Worlds(t, harness.Config{Modes: modes, Grace: time.Second, Lease: 8 * time.Second, Beat: 2 * time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		p := s.NewProxy(t)
		w := s.Watch(t, over, room)
		all := make([]*harness.Client, members)
		for i := range all {
			all[i] = s.Open(t, over, harness.Options{
				User: fmt.Sprintf("u%03d", i), Rooms: []string{room}, URL: p.URL, Reconnect: true,
			})
		}
		w.Until(soon, "the number of everybody", func() bool { return w.List(room).Count == members })
		for _, c := range append(all, w) {
			c.Forget()
		}
		began := time.Now()
		p.Refuse(true)
		p.Drop()
		time.Sleep(s.Lease / 8) //house:sleep the time of an outage
		p.Refuse(false)
		for _, c := range all {
			c.Until(s.Lease*2, "back", func() bool { return c.Open() && c.Streams() > 1 && c.List(room) != nil })
		}
		time.Sleep(time.Second) //house:sleep what would be told is told by then
		took := time.Since(began)
		for _, c := range append(all, w) {
			counts := c.Events("count")
			if len(counts) > int(took/time.Second)+1 {
				t.Errorf("%d counts in %v", len(counts), took)
			}
			for _, e := range counts {
				var d struct{ Count int }
				if json.Unmarshal(e.Data, &d); d.Count != members {
					t.Errorf("somebody was told of %d members", d.Count)
				}
			}
			if n := len(c.Events("diff")); n > 0 {
				t.Errorf("%d diffs in counts mode", n)
			}
		}
		if n := s.Count(room); n != members {
			t.Errorf("%d members after the return, want %d", n, members)
		}
	})
}
