package fieldcases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA12ReconnectKeepsTheStatus: a new stream of a connection is away if the old
// one was.
func TestA12ReconnectKeepsTheStatus(t *testing.T) {
	harness.Worlds(t, harness.Config{Grace: time.Second}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c := joined(t, s, over, w, in("ana"))
		if r := c.Set(room, `{"status":"away"}`); !r.OK {
			t.Fatalf("set: %s", r.Raw)
		}
		w.Until(soon, "away", func() bool { m, _ := w.Member(room, "ana"); return m.Status == "away" })
		for i := range 5 {
			switch i % 3 {
			case 0:
				c.Cut()
			case 1:
				c.Hangup()
			case 2:
				c.Close()
			}
			c.Reopen()
			if m, ok := s.Member(room, "ana"); !ok || m.Status != "away" {
				t.Fatalf("after reconnect %d: present %v, %q", i, ok, m.Status)
			}
		}
		w.Never(2*s.Grace, "somebody else than an away ana", func() bool { m, ok := w.Member(room, "ana"); return !ok || m.Status != "away" })
		for _, u := range w.Updates(room, "ana") {
			if u.Member.Status != "away" {
				t.Errorf("an update says %q", u.Member.Status)
			}
		}
		sawOnly(t, w, "ana", 1, 0)
	})
}

// TestA13UpdateIsNoLeave: a change of one's own state is an update and nothing
// else, and the newest wins.
func TestA13UpdateIsNoLeave(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		o := in("ana")
		o.Data = `{"n":0}`
		c := joined(t, s, over, w, o)
		for i := 1; i <= 20; i++ {
			if r := c.Set(room, fmt.Sprintf(`{"data":{"n":%d}}`, i)); !r.OK || r.Member == nil || string(r.Member.Data) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Fatalf("set %d: %s", i, r.Raw)
			}
		}
		w.Until(soon, "the last state", func() bool { m, _ := w.Member(room, "ana"); return string(m.Data) == `{"n":20}` })
		updates, last := w.Updates(room, "ana"), 0
		if len(updates) < 1 || len(updates) > 20 {
			t.Errorf("updates: got %d, want 1 to 20", len(updates))
		}
		for _, u := range updates {
			var data struct{ N int }
			json.Unmarshal(u.Member.Data, &data)
			if data.N <= last {
				t.Errorf("%d comes after %d", data.N, last)
			}
			last = data.N
		}
		sawOnly(t, w, "ana", 1, 0)
	})
}

// TestA14NoTimerIsNeeded: a client lives for as long as it answers, from the
// handler of what arrives; it needs no timer of its own.
func TestA14NoTimerIsNeeded(t *testing.T) {
	harness.Worlds(t, harness.Config{Lease: 2 * time.Second, Beat: 600 * time.Millisecond}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c := joined(t, s, over, w, in("ana"))
		w.Never(10*s.Lease, "a leave or a second join", func() bool {
			return len(w.Leaves(room, "ana")) > 0 || len(w.Joins(room, "ana")) > 1
		})
		if c.Streams() != 1 || !c.Open() {
			t.Errorf("ana has had %d streams, and open is %v", c.Streams(), c.Open())
		}
		c.Kill()
		w.Until(s.Gone(), "ana goes", gone(w, "ana"))
		sawOnly(t, w, "ana", 1, 1)
	})
}

// TestA15ReconnectDoesNotFlicker: gaps within the lease are nobody's business; a
// longer one is one leave and one join.
func TestA15ReconnectDoesNotFlicker(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		joined(t, s, over, w, in("ben"))
		c := joined(t, s, over, w, in("ana"))
		for i := range 10 {
			c.Cut()
			gap := time.Duration(i+1) * 100 * time.Millisecond
			w.Never(gap, "a leave or a join", func() bool {
				return len(c.List(room).Members) != 2 || len(w.Leaves("", "")) > 0 || len(w.Joins(room, "ana")) > 1
			})
			c.Reopen()
			if n := len(c.List(room).Members); n != 2 {
				t.Fatalf("ana's list has %d members after reconnect %d", n, i)
			}
		}
		c.Cut()
		w.Until(s.Gone(), "ana's leave", gone(w, "ana"))
		c.Reopen()
		w.Until(soon, "ana's return", func() bool { return w.Has(room, "ana") })
		sawOnly(t, w, "ana", 2, 1)
		sawOnly(t, w, "ben", 1, 0)
	})
}

// TestA27TooLargeIsRefused: what is over a limit is refused with that limit; the
// old state and the connection stay.
func TestA27TooLargeIsRefused(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c := joined(t, s, over, w, in("ana"))
		sized := func(n int) string { return `{"p":"` + strings.Repeat("x", n-len(`{"p":""}`)) + `"}` }
		if r := c.Set(room, `{"data":`+sized(1024)+`}`); !r.OK {
			t.Fatalf("1024 bytes: %s", r.Raw)
		}
		for what, data := range map[string]string{
			"one more byte":       sized(1025),
			"in bytes of UTF-8":   `{"p":"` + strings.Repeat("é", 509) + `"}`,
			"after merging":       `{"q":1}`,
			"far too large":       sized(20000),
			"only with its space": `{"q":` + strings.Repeat(" ", 1200) + `"` + strings.Repeat("y", 600) + `"}`,
		} {
			r := c.Set(room, `{"data":`+data+`}`)
			if r.OK || r.Code != "too_large" || r.Limit != 1024 || r.Retry {
				t.Errorf("%s: got %s", what, r.Raw)
			}
		}
		if r := c.Set(room, `{"replace":true,"data":{"p":"`+strings.Repeat("é", 508)+`"}}`); !r.OK {
			t.Errorf("1024 bytes of UTF-8: %s", r.Raw)
		}
		if r := c.Set(room, `{"replace":true,"data":`+sized(1024)+`}`); !r.OK {
			t.Errorf("back: %s", r.Raw)
		}
		w.Until(soon, "the value of 1024 bytes", func() bool { m, _ := w.Member(room, "ana"); return string(m.Data) == sized(1024) })
		sawOnly(t, w, "ana", 1, 0)
		if c.Streams() != 1 || !c.Open() {
			t.Error("the connection has not stayed")
		}
	})
}

// TestA32NumbersStayAsWritten: what is no JSON is refused, and what is stays as
// it was written.
func TestA32NumbersStayAsWritten(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		o := in("ana")
		o.Data = `{"was":1}`
		c := joined(t, s, over, w, o)
		was := `{"was":1}`
		for _, data := range []string{
			`{"x":NaN}`, `{"x":Infinity}`, `{"x":-Infinity}`, `{"x":01}`, `{"x":+1}`, `{"x":.5}`, `{"x":1.}`,
			`{"x":undefined}`, `{x:1}`, `{'x':1}`, `{"x":1,}`, `[]`, `5`, `"s"`, `[{}]`, `true`,
		} {
			first := setRaw(c, `{"data":`+data+`}`)
			if first != "bad_request" {
				t.Errorf("%s: got %q, want bad_request", data, first)
			}
			if again := setRaw(c, `{"data":`+data+`}`); again != first {
				t.Errorf("%s: got %q and then %q", data, first, again)
			}
			if m, _ := s.Member(room, "ana"); string(m.Data) != was {
				t.Errorf("%s: left %s", data, m.Data)
			}
		}
		if one, two := setRaw(c, `{"data":null}`), setRaw(c, `{"data":null}`); one != two {
			t.Errorf("null: got %q and then %q", one, two)
		}
		if one, two := setRaw(c, `{"data":{"x":1e999}}`), setRaw(c, `{"data":{"x":1e999}}`); one != "bad_request" || two != one {
			t.Errorf("1e999, which no reader can hold: got %q and %q, want bad_request", one, two)
		}
		for _, data := range []string{`{"x":null}`, `{"id":9007199254740993}`, `{"y":-0,"z":1E+2,"w":0.10}`, `{"x":123456789012345678901234567890.5}`} {
			if code := setRaw(c, `{"replace":true,"data":`+data+`}`); code != "" {
				t.Errorf("%s: refused with %q", data, code)
			}
			w.Until(soon, data+" byte for byte", func() bool { m, _ := w.Member(room, "ana"); return string(m.Data) == data })
			if m, _ := s.Member(room, "ana"); string(m.Data) != data {
				t.Errorf("roster: got %s, want %s", m.Data, data)
			}
		}
		if c.Streams() != 1 || !c.Open() {
			t.Error("the connection has not stayed")
		}
	})
}

// setRaw sets with a body that need not be JSON, and returns the code of the
// refusal.
func setRaw(c *harness.Client, body string) string {
	if c.Over == harness.SSE {
		return c.Call("PATCH", room, "", body).Code
	}
	n := len(c.Events("ok", "error"))
	c.Send(`{"type":"set","id":"raw","room":"` + room + `",` + body[1:])
	var r harness.Reply
	c.Until(soon, "an answer", func() bool {
		e := c.Events("ok", "error")
		if len(e) == n {
			return false
		}
		var told struct{ Code string }
		json.Unmarshal(e[n].Data, &told)
		r.Code = told.Code
		return true
	})
	return r.Code
}
