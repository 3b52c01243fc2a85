package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
	"rollcall/wire"
)

// pair is two nodes on one store, in virtual time.
type pair struct {
	*store.Memory

	mu    sync.Mutex
	feeds []func(*rollcall.Frame)       // Guarded by mu.
	hears map[string][]func(msg []byte) // Guarded by mu.
	asked int                           // Guarded by mu. How often it was asked where users are.
	ops   []rollcall.Op                 // Guarded by mu. All that were carried out.
	blind bool                          // Guarded by mu. It cannot tell where users are.
	posts []string                      // Guarded by mu. All that was said of signals.
	ears  []*ear                        // Guarded by mu.
}

// ear hears of the signals of a room.
type ear struct {
	room rollcall.RoomID
	hear func([]byte)
}

// half is the store as one node of a pair sees it.
type half struct{ *pair }

func (n half) Shared() bool { return true }
func (n half) Close() error { return nil }

func (n half) Feed(fn func(*rollcall.Frame)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.feeds = append(n.feeds, fn)
}

func (n half) Users(ctx context.Context, users []rollcall.UserID) (rollcall.UsersAnswer, error) {
	n.mu.Lock()
	n.asked++
	blind := n.blind
	n.mu.Unlock()
	if blind {
		return rollcall.UsersAnswer{}, store.ErrNoIndex
	}
	return n.Memory.Users(ctx, users)
}

func (n half) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	n.mu.Lock()
	n.ops = append(n.ops, ops...)
	n.mu.Unlock()
	return n.Memory.Apply(ctx, ops)
}

func (n half) PublishSignals(_ context.Context, room rollcall.RoomID, message []byte) error {
	n.mu.Lock()
	n.posts = append(n.posts, string(message))
	ears := slices.Clone(n.ears)
	n.mu.Unlock()
	for _, e := range ears {
		if e.room == room {
			e.hear(message)
		}
	}
	return nil
}

func (n half) SubscribeSignals(room rollcall.RoomID, heard func([]byte), ready func()) (stop func()) {
	e := &ear{room, heard}
	n.mu.Lock()
	n.ears = append(n.ears, e)
	n.mu.Unlock()
	ready()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ears = slices.DeleteFunc(n.ears, func(other *ear) bool { return other == e })
	}
}

func (n half) Listen(node string, fn func([]byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hears[node] = append(n.hears[node], fn)
}

func (n half) Send(_ context.Context, node string, message []byte) (int, error) {
	n.mu.Lock()
	all := n.hears[node]
	n.mu.Unlock()
	for _, fn := range all {
		fn(message)
		fn(message) // on another line
	}
	return len(all), nil
}

// TestAMessageIsHeardOnce: a message that comes on two lines is taken once, whatever
// others a node, or one of its name before it, has sent.
func TestAMessageIsHeardOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heard
		question, answer := &call{From: "one", ID: 7, Method: "PUT"}, &call{From: "one", ID: 7}
		other := &call{From: "two", ID: 7, Method: "PUT"}
		for _, c := range []*call{question, answer, other} {
			if h.again(c) {
				t.Errorf("%+v was not heard before", c)
			}
		}
		for range 10 {
			time.Sleep(heardFor / 10)
			for _, c := range []*call{question, answer, other} {
				if !h.again(c) {
					t.Errorf("%+v was heard before", c)
				}
			}
		}
		time.Sleep(3 * heardFor)
		h.again(&call{From: "one", ID: 8})
		time.Sleep(2 * heardFor)
		if h.again(question); len(h.now)+len(h.before) > 2 {
			t.Errorf("%d messages are kept", len(h.now)+len(h.before))
		}
	})
}

func twoNodes(t *testing.T) (one, two *world) {
	t.Helper()
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	p := &pair{Memory: m, hears: make(map[string][]func([]byte))}
	m.Feed(func(f *rollcall.Frame) {
		for _, fn := range p.feeds {
			fn(f)
		}
	})
	servers, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeys(auth.SecretKey("", []byte(testSecret)))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewJWT(auth.JWTOptions{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*world
	for _, name := range []string{"one", "two"} {
		s, err := New(Options{
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Chain(servers, tokens, auth.Guests{}),
			Store: half{p}, Secret: []byte("0123456789abcdef"), NodeID: name,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		nodes = append(nodes, &world{t: t, h: s.h, m: m, s: s})
	}
	return nodes[0], nodes[1]
}

// dies ends a node of two without a word.
func (w *world) dies() {
	p := w.h.store.(half).pair
	p.mu.Lock()
	delete(p.hears, w.h.node)
	p.mu.Unlock()
	w.s.Close()
}

// resume is the secret of the stream.
func (c *client) resume() string {
	c.w.t.Helper()
	text, _ := c.conn.take()
	for _, e := range events(text) {
		if data, ok := strings.CutPrefix(e, "ready "); ok {
			var ready struct{ Resume string }
			if err := json.Unmarshal([]byte(data), &ready); err != nil {
				c.w.t.Fatal(err)
			}
			return ready.Resume
		}
	}
	c.w.t.Fatal("no ready")
	return ""
}

// ask is a call of a connection that lands on this node.
func (w *world) ask(method, path, resume, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if resume != "" {
		r.Header.Set("Rollcall-Resume", resume)
	}
	answer := httptest.NewRecorder()
	w.s.ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

// move opens the stream of a client on another node, by its resume secret.
func (w *world) move(c *client, resume string) *client {
	moved := w.arrive(string(c.st.c.user), lobby, func(a *arrival) { a.last.resume = resume })
	if moved.st.c.id != c.st.c.id {
		w.t.Fatal("another connection")
	}
	return moved
}

func TestWhatIsSetGoesAlongToAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", lobby, func(a *arrival) {
			a.rooms[0].status, a.rooms[0].data = rollcall.StatusAway, json.RawMessage(`{"a":1}`)
		})
		path := "/v1/rooms/lobby/connections/" + string(ana.st.c.id)
		for i, w := range []*world{two, one, two} {
			ana = w.move(ana, ana.resume())
			resume := ana.resume()
			data := []string{`{"b":2}`, `{"c":3}`, `{"d":4}`}[i]
			if code, body := w.ask("PATCH", path, resume, `{"data":`+data+`}`); code != http.StatusOK {
				t.Fatalf("PATCH: %d %s", code, body)
			}
			ana.conn.mu.Lock()
			ana.conn.got.WriteString("event: ready\ndata: {\"resume\":\"" + resume + "\"}\n\n")
			ana.conn.mu.Unlock()
		}
		_, body := two.ask("GET", "/v1/rooms/lobby/members/ana", "", "")
		if want := `"status":"away"`; !strings.Contains(body, want) {
			t.Errorf("%s, want %s", body, want)
		}
		if want := `"data":{"a":1,"b":2,"c":3,"d":4}`; !strings.Contains(body, want) {
			t.Errorf("%s, want %s", body, want)
		}
	})
}

func TestTheURLOfAnEventSourceSaysNothingNewOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		asks := func(a *arrival) {
			a.rooms[0].status, a.asked = rollcall.StatusAway, 7
		}
		ana := one.arrive("ana", lobby, asks)
		resume := ana.resume()
		if code, body := one.ask("PATCH", "/v1/rooms/lobby/connections/"+string(ana.st.c.id), resume, `{"status":"idle"}`); code != http.StatusOK {
			t.Fatalf("PATCH: %d %s", code, body)
		}
		two.arrive("ana", lobby, func(a *arrival) {
			asks(a)
			a.repeats, a.last = true, lastEvent{resume: resume, asked: 7}
		})
		if _, body := one.ask("GET", "/v1/rooms/lobby/members/ana", "", ""); !strings.Contains(body, `"status":"idle"`) {
			t.Errorf("%s, want what was set last", body)
		}
	})
}

// A call goes to the node that gave its secret, also if it lands where the
// connection was before.
func TestACallReachesAConnectionThatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", lobby, nil)
		there := two.move(ana, ana.resume())
		resume := there.resume()
		path := "/v1/connections/" + string(ana.st.c.id)
		time.Sleep(20 * time.Second)
		if code, body := one.ask("POST", path+"/beat", resume, `{}`); code != http.StatusNoContent {
			t.Fatalf("beat: %d %s", code, body)
		}
		time.Sleep(20 * time.Second)
		if len(two.here("lobby")) != 1 {
			t.Fatal("the beat did not count")
		}
		if code, body := one.ask("PATCH", "/v1/rooms/lobby/connections/"+string(ana.st.c.id), resume, `{"status":"idle"}`); code != http.StatusOK {
			t.Errorf("PATCH: %d %s", code, body)
		}
		if code, body := one.ask("DELETE", "/v1/rooms/lobby/connections/"+string(ana.st.c.id), resume, ""); code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", code, body)
		}
		if here := two.here("lobby"); len(here) != 0 {
			t.Errorf("here: %v, want nobody", here)
		}
	})
}

// Who leaves a room on another node than before is not brought back by the old one,
// whose stream is still open: that one is told that it has been replaced.
func TestWhoLeavesOnAnotherNodeIsNotBroughtBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		old := one.arrive("ana", lobby, nil)
		there := two.move(old, old.resume())
		resume := there.resume()
		if code, body := two.ask("DELETE", "/v1/rooms/lobby/connections/"+string(old.st.c.id), resume, ""); code != http.StatusNoContent {
			t.Fatalf("DELETE: %d %s", code, body)
		}
		for range 3 {
			old.answer() // as a link that is only slow would bring it
			time.Sleep(one.h.timing.Beat)
			if here := one.here("lobby"); len(here) != 0 {
				t.Errorf("%q are here", here)
			}
		}
		if told := strings.Join(old.eventsOf("bye"), " "); !strings.Contains(told, "replaced") {
			t.Errorf("the old stream was told %q", told)
		}
	})
}

// A client that goes while it opens a stream on another node still has its lease.
func TestAnOpeningThatIsGivenUpEndsNoLeaseOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", lobby, nil)
		o, err := two.h.open(t.Context(), arrival{
			identity: auth.GuestIdentity("ana"), last: lastEvent{resume: ana.resume()}, rooms: []entry{{room: "lobby"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		o.abandon()
		if here := one.here("lobby"); len(here) != 1 {
			t.Errorf("here: %v, want ana", here)
		}
	})
}

// A lease without a stream dates from the request that asked for it: a store that
// has forgotten it is told so.
func TestALeaseWithoutAStreamDatesFromItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _ := twoNodes(t)
		time.Sleep(time.Hour)
		code, body := one.ask("POST", "/v1/rooms/lobby/connections?user=bot", "", `{"ttlMs":60000}`)
		if code != http.StatusCreated {
			t.Fatalf("POST: %d %s", code, body)
		}
		var lease struct{ Connection, Resume string }
		if err := json.Unmarshal([]byte(body), &lease); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		c := one.h.connections.get(rollcall.ConnectionID(lease.Connection))
		c.mu.Lock()
		age := c.subs[0].grantOpLocked().Age
		c.mu.Unlock()
		if age != 10*time.Second {
			t.Errorf("the evidence is %v old, want 10 s", age)
		}
	})
}

// Who leaves after the node of the connection has died leaves at once.
func TestALeaveAfterTheNodeHasDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", lobby, nil)
		p := one.h.store.(half).pair
		p.mu.Lock()
		delete(p.hears, "one")
		p.mu.Unlock()
		for range 2 {
			path := "/v1/rooms/lobby/connections/" + string(ana.st.c.id)
			ana.st.c.mu.Lock()
			resume := one.h.sign(ana.st.c, ana.st.no)
			ana.st.c.mu.Unlock()
			if code, body := two.ask("DELETE", path, resume, ""); code != http.StatusNoContent {
				t.Errorf("DELETE: %d %s", code, body)
			}
			if here := two.here("lobby"); len(here) != 0 {
				t.Errorf("here: %v, want nobody", here)
			}
		}
	})
}

// A WebSocket, whose address names no room, is turned away by a node that does not
// know it: by its own node, or by the store, it keeps what it holds.
func TestWhoIsTurnedAwayKeepsTheLeasesOfAnotherNode(t *testing.T) {
	for _, dead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			one, two := twoNodes(t)
			ana := one.arrive("ana", []rollcall.RoomID{"lobby", "kitchen"}, func(a *arrival) { a.proto = protocolWS })
			ana.st.c.mu.Lock()
			resume := one.h.sign(ana.st.c, ana.st.no)
			ana.st.c.mu.Unlock()
			ana.ends(transport.Cut)
			if dead {
				p := one.h.store.(half).pair
				p.mu.Lock()
				delete(p.hears, "one")
				p.mu.Unlock()
				one.h.connections.remove(ana.st.c)
			}
			for range 3 {
				time.Sleep(20 * time.Second)
				two.s.keep(resume, nil)
			}
			time.Sleep(20 * time.Second)
			if here, there := one.here("lobby"), one.here("kitchen"); len(here)+len(there) != 2 {
				t.Errorf("dead %v: in the rooms are %q and %q, want ana in both", dead, here, there)
			}
			time.Sleep(20 * time.Second)
			if here := one.here("lobby"); len(here) != 0 {
				t.Errorf("dead %v: %q are there for ever", dead, here)
			}
		})
	}
}

// A WebSocket that resumes on another node and joins nothing keeps all that it holds,
// is shown it, and gets nothing that another tab holds.
func TestAWebSocketThatResumesOnAnotherNodeKeepsItsRooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		ana := one.arrive("ana", []rollcall.RoomID{"lobby", "kitchen"}, func(a *arrival) { a.proto = protocolWS })
		one.arrive("ana", []rollcall.RoomID{"hall"}, nil)
		ana.st.c.mu.Lock()
		resume := one.h.sign(ana.st.c, ana.st.no)
		ana.st.c.mu.Unlock()
		ana.ends(transport.Cut)
		back := two.arrive("ana", nil, func(a *arrival) {
			a.proto, a.multi, a.last = protocolWS, true, lastEvent{resume: resume}
		})
		for range 8 {
			time.Sleep(10 * time.Second)
			back.answer()
		}
		for _, room := range []rollcall.RoomID{"lobby", "kitchen"} {
			if here := one.here(room); len(here) != 1 {
				t.Errorf("in the %s are %q, want ana", room, here)
			}
		}
		text, _ := back.conn.take()
		if n := strings.Count(text, `"type":"snapshot"`); n != 2 || strings.Contains(text, "hall") {
			t.Errorf("it was told %q, want the two rooms that it holds", text)
		}
		back.st.take(&wire.Message{Type: wire.MessageLeave, Room: "kitchen"})
		if here := one.here("kitchen"); len(here) != 0 {
			t.Errorf("after a leave %q are in the kitchen", here)
		}
	})
}

// Who resumes under a token that allows less is in the other rooms no longer, on
// whichever node, and is shown nothing of them.
func TestWhoResumesUnderANarrowerTokenLeavesTheOtherRooms(t *testing.T) {
	for _, node := range []string{"the same node", "another node"} {
		t.Run(node, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := twoNodes(t)
				ana := one.arrive("ana", []rollcall.RoomID{"lobby", "kitchen"}, func(a *arrival) { a.proto = protocolWS })
				one.arrive("ana", []rollcall.RoomID{"hall"}, nil)
				ana.st.c.mu.Lock()
				resume := one.h.sign(ana.st.c, ana.st.no)
				ana.st.c.mu.Unlock()
				ana.ends(transport.Cut)
				grants, err := auth.NewGrants(map[string][]auth.Capability{"lobby": {auth.Presence}})
				if err != nil {
					t.Fatal(err)
				}
				to := map[string]*world{"the same node": one, "another node": two}[node]
				back := to.arrive("ana", nil, func(a *arrival) {
					narrow := *a.identity
					narrow.Grants = grants
					a.identity, a.proto, a.multi, a.last = &narrow, protocolWS, true, lastEvent{resume: resume}
				})
				time.Sleep(time.Second)
				for room, want := range map[rollcall.RoomID]int{"lobby": 1, "kitchen": 0, "hall": 1} {
					if here := one.here(room); len(here) != want {
						t.Errorf("in the %s are %q, want %d", room, here, want)
					}
				}
				text, _ := back.conn.take()
				if !strings.Contains(text, `"type":"ended","room":"kitchen","reason":"revoked"`) {
					t.Errorf("it was not told of the kitchen: %q", text)
				}
				if n := strings.Count(text, `"type":"snapshot"`); n != 1 || strings.Contains(text, "hall") {
					t.Errorf("it was told %q, want the lobby alone", text)
				}
			})
		})
	}
}

// Who resumes under a token that hides her is seen no longer, on whichever node.
func TestWhoResumesHiddenIsSeenNoLonger(t *testing.T) {
	for _, node := range []string{"the same node", "another node"} {
		t.Run(node, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := twoNodes(t)
				watcher := one.arrive("bob", lobby, nil)
				ana := one.arrive("ana", lobby, func(a *arrival) { a.proto = protocolWS })
				time.Sleep(time.Second) // bob is told of her
				ana.st.c.mu.Lock()
				resume := one.h.sign(ana.st.c, ana.st.no)
				ana.st.c.mu.Unlock()
				ana.ends(transport.Cut)
				to := map[string]*world{"the same node": one, "another node": two}[node]
				to.arrive("ana", nil, func(a *arrival) {
					hidden := *a.identity
					hidden.Hidden = true
					a.identity, a.proto, a.multi, a.last = &hidden, protocolWS, true, lastEvent{resume: resume}
				})
				time.Sleep(time.Second)
				if here := one.here("lobby"); len(here) != 1 {
					t.Errorf("%q are here, want bob alone", here)
				}
				if told := strings.Join(watcher.eventsOf("diff"), " "); !strings.Contains(told, `"leave":[{"user":"ana","reason":"left"}]`) {
					t.Errorf("bob was told %s", told)
				}
			})
		})
	}
}

// What is done for who was turned away may be done late, when the client has come
// back already: it is shown its rooms all the same.
func TestWhoIsBackAfterBeingTurnedAwayIsShownTheRooms(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			one, two := twoNodes(t)
			ana := one.arrive("ana", lobby, func(a *arrival) { a.proto = protocolWS })
			ana.st.c.mu.Lock()
			resume := one.h.sign(ana.st.c, ana.st.no)
			ana.st.c.mu.Unlock()
			ana.ends(transport.Cut)
			kept := &arrival{
				identity: auth.GuestIdentity("ana"), last: lastEvent{resume: resume}, proto: protocolWS, multi: true, rooms: []entry{{room: "lobby"}},
			}
			if !late {
				two.h.keep(t.Context(), kept)
			}
			back := two.arrive("ana", nil, func(a *arrival) {
				a.proto, a.multi, a.last = protocolWS, true, lastEvent{resume: resume}
			})
			if late {
				two.h.keep(t.Context(), kept)
			}
			back.st.take(&wire.Message{Type: wire.MessageJoin, Room: "lobby"})
			back.st.c.mu.Lock()
			back.st.pumpLocked(nil)
			back.st.c.mu.Unlock()
			time.Sleep(time.Second)
			if text, _ := back.conn.take(); strings.Count(text, `"type":"snapshot"`) != 1 {
				t.Errorf("late %v: it was told %q, want a snapshot", late, text)
			}
			if here := one.here("lobby"); len(here) != 1 {
				t.Errorf("late %v: here are %q", late, here)
			}
		})
	}
}
