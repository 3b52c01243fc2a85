package fieldcases

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"rollcall/test/harness"
)

// TestA44CountIsTheRoster: whatever clients do, the count is the number of those
// on the roster, and a newcomer counts itself.
func TestA44CountIsTheRoster(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		w := s.Watch(t, over, room)
		random := rand.New(rand.NewPCG(7, 7))
		clients := make(map[int]*harness.Client)
		for step := range 120 {
			i := random.IntN(20)
			c := clients[i]
			switch action := random.IntN(5); {
			case c == nil:
				c = s.Open(t, over, in(fmt.Sprintf("u%d", i%12))) // some have two
				clients[i] = c
				if l := c.List(room); !c.Has(room, c.Ready().User) || l.Count != len(l.Members) {
					t.Fatalf("step %d: a newcomer counts %d and has %q", step, l.Count, l.Users())
				}
			case action == 0:
				c.Close()
				delete(clients, i)
			case action == 1:
				c.Cut()
				delete(clients, i)
			case action == 2:
				c.Kill()
				delete(clients, i)
			case action == 3 && c.Open():
				c.Hangup()
				c.Reopen()
			case action == 4 && c.Open():
				if r := c.Set(room, fmt.Sprintf(`{"data":{"step":%d}}`, step)); !r.OK && r.Code != "gone" {
					t.Fatalf("set: %s", r.Raw)
				}
			}
			if n := s.Count(room); n < 0 || n > 12 {
				t.Fatalf("step %d: count %d", step, n)
			}
			if step%40 == 39 {
				w.Until(s.Gone()+soon, "the truth", func() bool {
					here := make(map[string]bool)
					for _, c := range clients {
						if c.Open() {
							here[c.Ready().User] = true
						}
					}
					return s.Count(room) == len(here) && len(w.List(room).Members) == len(here)
				})
				s.Rest()
			}
		}
		for _, c := range clients {
			c.Close()
		}
		w.Until(s.Gone(), "nobody", func() bool { return s.Count(room) == 0 && w.List(room).Count == 0 })
	})
}

// TestA47EmptyRoomsAreForgotten: nothing is kept of a room when nobody is in it.
func TestA47EmptyRoomsAreForgotten(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		const clients, each = 8, 50
		for i := range clients {
			var rooms []string
			for k := range each {
				rooms = append(rooms, fmt.Sprintf("r%d-%d", i, k))
			}
			c := s.Open(t, over, harness.Options{User: fmt.Sprintf("u%d", i), Rooms: rooms})
			if i == 0 {
				harness.Eventually(t, soon, "the number of rooms", func() bool { return s.Metric("rollcall_rooms") == each })
			}
			c.Close()
		}
		names := []string{"rollcall_connections", "rollcall_watched_rooms", "rollcall_rooms", "rollcall_members"}
		harness.Eventually(t, s.Gone()+2*s.Lease, "nothing is left", func() bool {
			for _, name := range names {
				if s.Metric(name) != 0 {
					return false
				}
			}
			return true
		})
	})
}

// TestQuietRoomSendsNothing: while nothing happens in a room its members are told
// nothing, however many they are.
func TestQuietRoomSendsNothing(t *testing.T) {
	harness.Each(t, func(t *testing.T, over harness.Transport) {
		s := harness.Start(t, harness.Config{Lease: 4 * time.Second, Beat: 700 * time.Millisecond})
		var members []*harness.Client
		for i := range 50 {
			members = append(members, s.Open(t, over, in(fmt.Sprintf("u%d", i))))
		}
		for _, c := range members {
			c.Until(soon, "all of them", func() bool { return len(c.List(room).Members) == 50 })
			c.Forget()
		}
		last := members[len(members)-1]
		last.Until(30*s.Beat, "ten beats", func() bool { return len(last.Events("beat")) >= 10 })
		for _, c := range members {
			for _, e := range c.Events() {
				if e.Name != "beat" && e.Name != "(ping)" {
					t.Errorf("an event of a quiet room: %s %s", e.Name, e.Data)
				}
			}
			if !c.Open() {
				t.Error("a member of a quiet room has lost its stream")
			}
		}
	})
}
