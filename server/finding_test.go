package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
)

// lastID is what an EventSource says of its stream when it comes back.
func (c *client) lastID() lastEvent {
	c.w.t.Helper()
	text, _ := c.conn.take()
	at := strings.LastIndex(text, "id: ")
	if at < 0 {
		c.w.t.Fatalf("no id: %q", text)
	}
	id, _, _ := strings.Cut(text[at+len("id: "):], "\n")
	return parseLastEvent(id)
}

// returns opens the stream of an EventSource again, with the URL that it began with.
func (w *world) returns(c *client, rooms []rollcall.RoomID, change func(*arrival)) *client {
	w.t.Helper()
	id := c.lastID()
	c.ends(transport.Cut)
	back := w.arrive(string(c.st.c.user), rooms, func(a *arrival) {
		a.repeats, a.last = true, id
		if change != nil {
			change(a)
		}
	})
	if back.st.c.id != c.st.c.id {
		w.t.Fatal("another connection")
	}
	return back
}

// puts adds a lease in a room to the connection of a stream.
func (c *client) puts(room, body string) {
	c.w.t.Helper()
	c.st.c.mu.Lock()
	resume := c.w.h.sign(c.st.c, c.st.no)
	c.st.c.mu.Unlock()
	if code, answer := c.w.ask("PUT", "/v1/rooms/"+room+"/connections/"+string(c.st.c.id), resume, body); code != http.StatusOK {
		c.w.t.Fatalf("PUT: %d %s", code, answer)
	}
}

// wantHere checks how many users are in rooms.
func (w *world) wantHere(want map[rollcall.RoomID]int) {
	w.t.Helper()
	for room, n := range want {
		if here := w.here(room); len(here) != n {
			w.t.Errorf("in the %s are %q, want %d", room, here, n)
		}
	}
}

// An event stream that comes back names the rooms of its URL; what was put on its
// connection besides goes on too, on whichever node, with what was set, and what
// another tab holds is not taken.
func TestAnEventStreamKeepsWhatItsURLDoesNotName(t *testing.T) {
	for _, node := range []string{"the same node", "another node"} {
		for _, rooms := range [][]rollcall.RoomID{lobby, {"lobby", "cellar"}} {
			t.Run(fmt.Sprint(node, len(rooms)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one, two := twoNodes(t)
					to := map[string]*world{"the same node": one, "another node": two}[node]
					one.arrive("bob", []rollcall.RoomID{"kitchen"}, nil)
					ana := one.arrive("ana", rooms, nil)
					tab := one.arrive("ana", []rollcall.RoomID{"hall"}, nil)
					ana.puts("kitchen", `{"status":"idle","data":{"a":1}}`)
					live(time.Second, ana, tab)
					back := to.returns(ana, rooms, nil)
					time.Sleep(time.Second)
					text, _ := back.conn.take()
					if n := strings.Count(text, "event: resumed"); n != len(rooms)+1 || strings.Contains(text, "hall") {
						t.Errorf("it was told %q, want that all of its rooms are as it knows them", text)
					}
					back.puts("kitchen", `{}`)
					resume := to.h.sign(back.st.c, back.st.no)
					if code, body := to.ask("PATCH", "/v1/rooms/kitchen/connections/"+string(ana.st.c.id), resume, `{"data":{"b":2}}`); code != http.StatusOK {
						t.Errorf("PATCH: %d %s", code, body)
					}
					live(80*time.Second, back, tab)
					to.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1, "hall": 1})
					_, body := one.ask("GET", "/v1/rooms/kitchen/members/ana", "", "")
					if !strings.Contains(body, `"status":"idle"`) || !strings.Contains(body, `"data":{"a":1,"b":2}`) {
						t.Errorf("in the kitchen is %s", body)
					}
					text, _ = back.conn.take()
					if leaves := strings.Count(text, `"leave"`); leaves != 1 || !strings.Contains(text, `"room":"kitchen"`) {
						t.Errorf("it was told %q, want that bob has left the kitchen", text)
					}
				})
			})
		}
	}
}

// A room that is only looked at by the URL, and in which a lease was put, is kept, on
// whichever node; under a token that allows no more than to look it is looked at.
func TestALeaseInARoomThatTheURLOnlyLooksAt(t *testing.T) {
	looks := func(a *arrival) { a.rooms[0].observe = true }
	for _, node := range []string{"the same node", "another node"} {
		for capability, want := range map[auth.Capability]int{auth.Presence: 1, auth.Read: 0} {
			t.Run(fmt.Sprint(node, capability), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one, two := twoNodes(t)
					to := map[string]*world{"the same node": one, "another node": two}[node]
					ana := one.arrive("ana", lobby, looks)
					ana.puts("lobby", `{}`)
					grants, err := auth.NewGrants(map[string][]auth.Capability{"lobby": {capability}})
					if err != nil {
						t.Fatal(err)
					}
					back := to.returns(ana, lobby, func(a *arrival) {
						looks(a)
						lesser := *a.identity
						lesser.Grants = grants
						a.identity = &lesser
					})
					live(time.Second, back)
					to.wantHere(map[rollcall.RoomID]int{"lobby": want})
					live(time.Minute, back)
					to.wantHere(map[rollcall.RoomID]int{"lobby": want})
					one.arrive("bob", lobby, nil)
					time.Sleep(time.Second)
					if text, _ := back.conn.take(); !strings.Contains(text, `"join":[{"user":"bob"`) || strings.Contains(text, "ended") {
						t.Errorf("it was told %q, want of bob", text)
					}
				})
			})
		}
	}
}

// Who comes back to a node where she was before does not enter again what she left
// meanwhile on another one, whether or not it can be told where users are.
func TestWhoComesBackIsNotWhereSheLeftMeanwhile(t *testing.T) {
	for _, proto := range []protocol{protocolSSE, protocolWS} {
		for _, blind := range []bool{false, true} {
			t.Run(fmt.Sprint(protocolNames[proto], blind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one, two := twoNodes(t)
					one.h.store.(half).blind = blind
					over := func(w *world, last lastEvent) *client {
						return w.arrive("ana", lobby, func(a *arrival) {
							if a.proto, a.last = proto, last; last.resume != "" && proto == protocolWS {
								a.rooms, a.multi = nil, true
							}
						})
					}
					secret := func(c *client) lastEvent {
						c.st.c.mu.Lock()
						defer c.st.c.mu.Unlock()
						return lastEvent{resume: c.w.h.sign(c.st.c, c.st.no)}
					}
					ana := over(one, lastEvent{})
					ana.puts("kitchen", `{}`)
					ana.puts("cellar", `{}`)
					ana.ends(transport.Cut)
					there := over(two, secret(ana))
					for _, room := range []string{"kitchen", "cellar"} {
						if blind {
							there.puts(room, `{}`)
						}
					}
					if code, body := two.ask("DELETE", "/v1/rooms/kitchen/connections/"+string(ana.st.c.id), secret(there).resume, ""); code != http.StatusNoContent {
						t.Fatalf("DELETE: %d %s", code, body)
					}
					there.ends(transport.Cut)
					back := over(one, secret(there))
					live(time.Minute, back)
					one.wantHere(map[rollcall.RoomID]int{"kitchen": 0, "cellar": 1})
				})
			})
		}
	}
}

// The URL's rooms come also if it cannot be told where users are; and what else there
// was is found by the next return for which it can, on the same node too.
func TestWhatCannotBeFoundIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		p := one.h.store.(half).pair
		ana := one.arrive("ana", lobby, nil)
		ana.puts("kitchen", `{}`)
		p.blind = true
		back := two.returns(ana, lobby, nil)
		live(5*time.Second, back)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1})
		p.blind = false
		back = two.returns(back, lobby, nil)
		live(time.Minute, back)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1})
	})
}

// One return from another node asks once where the user is, and for one lease in each
// room where other tabs of the user are; a return to the same node asks nothing, that
// of a stream that only looks on neither.
func TestWhatItCostsToFindOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		p := one.h.store.(half).pair
		ana := one.arrive("ana", lobby, nil)
		viewer := one.arrive("eve", lobby, func(a *arrival) { a.rooms[0].observe = true })
		one.arrive("ana", []rollcall.RoomID{"hall", "attic"}, nil)
		cost := func(do func()) (asked int, rooms []rollcall.RoomID) {
			p.mu.Lock()
			asked, p.ops = p.asked, nil
			p.mu.Unlock()
			do()
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, op := range p.ops {
				rooms = append(rooms, op.Room)
			}
			slices.Sort(rooms)
			return p.asked - asked, rooms
		}
		for i, c := range []struct {
			to    *world
			asked int
			rooms []rollcall.RoomID
		}{
			{one, 0, lobby},
			{two, 1, []rollcall.RoomID{"attic", "hall", "lobby"}},
			{two, 0, lobby},
			{one, 1, []rollcall.RoomID{"attic", "hall", "lobby"}},
		} {
			asked, rooms := cost(func() { ana = c.to.returns(ana, lobby, nil) })
			if asked != c.asked || !slices.Equal(rooms, c.rooms) {
				t.Errorf("return %d asked %d times where ana is and for leases in %q, want %d and %q", i+1, asked, rooms, c.asked, c.rooms)
			}
			asked, rooms = cost(func() {
				viewer = c.to.returns(viewer, lobby, func(a *arrival) { a.rooms[0].observe = true })
			})
			if asked != c.asked || len(rooms) != 0 {
				t.Errorf("return %d of a viewer asked %d times where she is and for leases in %q, want %d and none", i+1, asked, rooms, c.asked)
			}
		}
	})
}

// Who is turned away keeps what the URL does not name too, and is looked for once.
func TestWhoIsTurnedAwayKeepsWhatItsURLDoesNotName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		p := one.h.store.(half).pair
		ana := one.arrive("ana", lobby, nil)
		one.arrive("ana", []rollcall.RoomID{"hall"}, nil)
		ana.puts("kitchen", `{}`)
		id := ana.lastID()
		ana.ends(transport.Cut)
		for range 4 {
			time.Sleep(20 * time.Second)
			two.h.keep(t.Context(), &arrival{
				identity: auth.GuestIdentity("ana"), last: id, rooms: []entry{{room: "lobby"}}, repeats: true,
			})
		}
		time.Sleep(20 * time.Second)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1, "hall": 0})
		if p.asked != 1 {
			t.Errorf("it was asked %d times where ana is, want once", p.asked)
		}
		time.Sleep(20 * time.Second)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 0, "kitchen": 0})
	})
}

// A room that could not be found is left all the same, by who says so.
func TestWhatCannotBeFoundIsLeftAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		p := one.h.store.(half).pair
		ana := one.arrive("ana", lobby, nil)
		tab := one.arrive("bob", []rollcall.RoomID{"kitchen"}, nil)
		ana.puts("kitchen", `{}`)
		p.blind = true
		back := two.returns(ana, lobby, nil)
		back.st.c.mu.Lock()
		resume := two.h.sign(back.st.c, back.st.no)
		back.st.c.mu.Unlock()
		if code, body := two.ask("DELETE", "/v1/rooms/kitchen/connections/"+string(ana.st.c.id), resume, ""); code != http.StatusNoContent {
			t.Fatalf("DELETE: %d %s", code, body)
		}
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1})
		p.blind = false
		back = two.returns(back, lobby, nil)
		live(time.Second, back, tab)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1})
	})
}
