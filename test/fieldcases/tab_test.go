package fieldcases

import (
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA04OnlyTheLastTabLeaves: one join at the first tab, one leave at the last.
func TestA04OnlyTheLastTabLeaves(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		connections := func(n int) {
			t.Helper()
			harness.Eventually(t, soon, "the number of ana's connections", func() bool {
				m, ok := s.Member(room, "ana")
				if !ok || s.Count(room) != 1 {
					t.Fatalf("ana is not there once: present %v, count %d", ok, s.Count(room))
				}
				return m.Connections == n
			})
			s.Rest()
		}
		t1 := joined(t, s, over, w, in("ana"))
		connections(1)
		t2 := s.Open(t, over, in("ana"))
		connections(2)
		t3 := s.Open(t, over, in("ana"))
		connections(3)
		t1.Close()
		connections(2)
		t3.Close()
		connections(1)
		w.Never(2*s.Grace, "a leave before the last tab", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		t2.Close()
		w.Until(soon, "ana's leave", gone(w, "ana"))
		sawOnly(t, w, "ana", 1, 1)
		if l := w.Leaves(room, "ana"); l[0].Reason != "closed" {
			t.Errorf("reason: got %q, want closed", l[0].Reason)
		}
	})
}

// TestA06OldConnectionDoesNotRemoveTheNew: the end of a dead connection names
// the connection, not the user.
func TestA06OldConnectionDoesNotRemoveTheNew(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c1 := joined(t, s, over, w, in("ana"))
		c1.Cut()
		w.Never(time.Second, "a leave", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		s.Open(t, over, in("ana"))
		harness.Eventually(t, s.Gone(), "the server ends the dead stream", func() bool {
			if !s.Present(room, "ana") {
				t.Fatal("ana is gone")
			}
			return s.Metric("rollcall_connections") == 2
		})
		c1.Hangup() // and now the old socket ends for real
		w.Never(time.Second, "a leave", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		sawOnly(t, w, "ana", 1, 0)
		if m, _ := s.Member(room, "ana"); m.Connections != 1 {
			t.Errorf("connections: got %d, want 1", m.Connections)
		}
	})
}

// TestA06ResumedConnectionOutlivesItsOldSocket: the same with a client that comes
// back as the same connection.
func TestA06ResumedConnectionOutlivesItsOldSocket(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		c := joined(t, s, over, w, in("ana"))
		id := c.Ready().Connection
		c.Cut()
		w.Never(500*time.Millisecond, "a leave", func() bool { return len(w.Leaves(room, "ana")) > 0 })
		c.Reopen()
		if got := c.Ready().Connection; got != id {
			t.Errorf("connection: got %s, want %s again", got, id)
		}
		w.Never(s.Lease+500*time.Millisecond, "a leave or another join", func() bool {
			return len(w.Leaves(room, "ana"))+len(w.Joins(room, "ana")) > 1
		})
	})
}

// TestA16DevicesDoNotFightOverTheStatus: the status of a user is the highest of
// its devices, however often each of them repeats its own.
func TestA16DevicesDoNotFightOverTheStatus(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		o1, o2 := in("ana"), in("ana")
		o1.Status, o2.Status = "active", "away"
		d1 := joined(t, s, over, w, o1)
		d2 := s.Open(t, over, o2)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			for device, word := range map[*harness.Client]string{d1: "active", d2: "away"} {
				if r := device.Set(room, `{"status":"`+word+`"}`); !r.OK {
					t.Fatalf("set: %s", r.Raw)
				}
			}
			if m, _ := s.Member(room, "ana"); m.Status != "active" {
				t.Fatalf("status: got %q, want active", m.Status)
			}
			w.Never(s.Beat/4, "a change of the status", func() bool { m, _ := w.Member(room, "ana"); return m.Status != "active" })
		}
		if n := len(w.Updates(room, "ana")); n > 1 {
			t.Errorf("updates: got %d, want one at most, for the second connection", n)
		}
		d1.Close()
		w.Until(soon, "away", func() bool { m, _ := w.Member(room, "ana"); return m.Status == "away" })
		was, turns := "active", 0
		for _, u := range w.Updates(room, "ana") {
			if u.Member.Status != was {
				was, turns = u.Member.Status, turns+1
			}
		}
		if turns != 1 {
			t.Errorf("the status changed %d times, want once", turns)
		}
		sawOnly(t, w, "ana", 1, 0)
	})
}

// TestA42DuplicatedTabsAreTwoConnections: a tab that was duplicated has the
// secret of the first one, and both go on.
func TestA42DuplicatedTabsAreTwoConnections(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		o := in("ana")
		o.Data = `{"tab":1}`
		first := joined(t, s, over, w, o)
		copied := in("ana")
		copied.Resume = first.Ready().Resume
		second := s.Open(t, over, copied)
		if got, want := second.Ready().Connection, first.Ready().Connection; got != want {
			t.Errorf("connection of the copy: got %s, want %s", got, want)
		}
		first.Until(soon, "the first is replaced", func() bool { return len(first.Ends()) == 1 })
		if end := first.Ends()[0]; end.Bye != "replaced" || over == harness.WS && end.Code != 4409 {
			t.Errorf("end of the first: got %+v, want replaced and 4409", end)
		}
		again := s.Open(t, over, o) // without the secret, as a replaced client comes back
		if again.Ready().Connection == second.Ready().Connection {
			t.Error("both tabs have one connection")
		}
		second.Set(room, `{"data":{"tab":2},"replace":true}`)
		again.Set(room, `{"data":{"tab":3},"replace":true}`)
		second.Set(room, `{"status":"idle"}`)
		w.Until(soon, "two connections", func() bool {
			m, _ := w.Member(room, "ana")
			return m.Connections == 2 && string(m.Data) == `{"tab":3}`
		})
		again.Close()
		w.Until(soon, "the state of the tab that stays", func() bool {
			m, _ := w.Member(room, "ana")
			return m.Connections == 1 && string(m.Data) == `{"tab":2}` && m.Status == "idle"
		})
		if !second.Open() || !second.Has(room, "ana") {
			t.Error("the tab that stays has lost its stream or its list")
		}
		sawOnly(t, w, "ana", 1, 0)
	})
}
