package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

const (
	testSecret = "a secret of thirty-two bytes...."
	testKey    = "sk_0123456789abcdefghijklmnop"
)

// frailStore is a memory that can be away, and whose feed can be cut.
type frailStore struct {
	*store.Memory
	away, deaf atomic.Bool
	takes      atomic.Int64                 // of each Apply, in nanoseconds
	lost       atomic.Pointer[store.Memory] // if there is one, it carries out the operations, and nobody will know
	feed       func(*rollcall.Frame)
}

var errAway = errors.New("away")

func (s *frailStore) Feed(fn func(*rollcall.Frame)) {
	s.feed = fn
	s.Memory.Feed(func(f *rollcall.Frame) {
		if !s.deaf.Load() {
			fn(f)
		}
	})
}

func (s *frailStore) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	if s.away.Load() {
		return nil, errAway
	}
	if lost := s.lost.Load(); lost != nil {
		results, err := lost.Apply(ctx, ops)
		for i := range results {
			l := &results[i].Lease // without its place in the memory
			*l = rollcall.Lease{Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, TTL: l.TTL}
		}
		return results, err
	}
	return s.Memory.Apply(ctx, ops)
}

func (s *frailStore) Tick(ctx context.Context) error {
	if s.away.Load() {
		return errAway
	}
	return s.Memory.Tick(ctx)
}

func (s *frailStore) Revoked(ctx context.Context, users []rollcall.UserID) ([]rollcall.Revoked, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Memory.Revoked(ctx, users)
}

func (s *frailStore) Users(ctx context.Context, users []rollcall.UserID) (rollcall.UsersAnswer, error) {
	if s.away.Load() {
		return rollcall.UsersAnswer{}, errAway
	}
	return s.Memory.Users(ctx, users)
}

// tokenWorld is a world whose users come with tokens.
func tokenWorld(t *testing.T, f func(t *testing.T, w *world, frail *frailStore)) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := auth.NewKeys(auth.SecretKey("", []byte(testSecret)))
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := auth.NewJWT(auth.JWTOptions{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		servers, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: testKey})
		if err != nil {
			t.Fatal(err)
		}
		frail := &frailStore{Memory: store.NewMemory(store.MemoryOptions{Settled: true})}
		s, err := New(Options{
			Store: frail, Auth: auth.Chain(servers, tokens), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Close()
			frail.Close()
		})
		time.Sleep(10 * time.Second) // the clock of the bubble begins with a whole minute
		f(t, &world{t: t, h: s.h, m: frail.Memory, s: s}, frail)
	})
}

func (w *world) token(c auth.Claims) string {
	w.t.Helper()
	if c.Rooms == nil && c.Grants == nil {
		c.Rooms = []string{"*"}
	}
	token, err := auth.Mint([]byte(testSecret), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// call makes a request of the API.
func (w *world) call(method, path, token, body string) (status int, answer string) {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	w.s.ServeHTTP(rec, r)
	synctest.Wait()
	return rec.Code, rec.Body.String()
}

func (w *world) wantCall(status int, method, path, token, body string) string {
	w.t.Helper()
	got, answer := w.call(method, path, token, body)
	if got != status {
		w.t.Fatalf("%s %s: %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

// enter opens a stream by a token.
func (w *world) enter(token string, rooms []rollcall.RoomID, change func(*arrival)) (*client, *rollcall.Error) {
	w.t.Helper()
	id, err := w.h.auth.Authenticate(w.t.Context(), auth.Credentials{Token: token, From: auth.Header})
	if err != nil {
		return nil, asError(err)
	}
	return w.enterAs(id, rooms, change)
}

func (w *world) enterAs(id *auth.Identity, rooms []rollcall.RoomID, change func(*arrival)) (*client, *rollcall.Error) {
	a := arrival{identity: id, proto: protocolSSE, multi: len(rooms) > 1}
	for _, r := range rooms {
		a.rooms = append(a.rooms, entry{room: r})
	}
	if change != nil {
		change(&a)
	}
	o, refused := w.h.open(w.t.Context(), a)
	if refused != nil {
		return nil, refused
	}
	c := &client{w: w, conn: newFakeConn()}
	c.st = o.attach(c.conn)
	return c, nil
}

func (w *world) mustEnter(token string, rooms ...rollcall.RoomID) *client {
	w.t.Helper()
	c, refused := w.enter(token, rooms, nil)
	if refused != nil {
		w.t.Fatal(refused)
	}
	synctest.Wait()
	c.conn.take()
	return c
}

// eventsOf are the events of one name since the last take.
func (c *client) eventsOf(names ...string) (all []string) {
	text, _ := c.conn.take()
	for _, e := range events(text) {
		name, _, _ := strings.Cut(e, " ")
		if slices.Contains(names, name) {
			all = append(all, e)
		}
	}
	return all
}

func wantEvents(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s was told %q, want %q", what, got, want)
	}
}

func TestKickEndsEveryStreamOfTheUserInTheRoom(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		token := w.token(auth.Claims{User: "ana"})
		one := w.mustEnter(token, "lobby")
		two := w.mustEnter(token, "lobby", "bar")
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "lobby")
		w.wantCall(204, "POST", "/v1/rooms/lobby/members/ana/kick", testKey, `{"banMs":5000}`)
		time.Sleep(tickEvery)
		synctest.Wait()
		wantEvents(t, "a stream in the room alone", one.eventsOf("ended", "bye"),
			`ended {"room":"lobby","reason":"kicked"}`, `bye {"reason":"kicked","reconnectMs":null}`)
		wantEvents(t, "a stream in another room too", two.eventsOf("ended", "bye"), `ended {"room":"lobby","reason":"kicked"}`)
		text, _ := ben.conn.take()
		wantEvents(t, "ben", told(text), "leave ana kicked")
		if got := w.here("bar"); !slices.Equal(got, []string{"ana"}) {
			t.Errorf("in the bar: %v, want ana", got)
		}
		w.wantCall(404, "POST", "/v1/rooms/lobby/members/ana/kick", testKey, "")

		_, refused := w.enter(token, lobby, nil)
		if refused == nil || refused.Code != rollcall.CodeForbidden || !strings.Contains(refused.Detail, time.Now().Add(5*time.Second).UTC().Format("15:04:05")) {
			t.Errorf("back at once: %v, want forbidden until in 5 s", refused)
		}
		status, answer := w.call("POST", "/v1/rooms/lobby/connections", token, "")
		if status != 403 || !strings.Contains(answer, `"code":"forbidden"`) {
			t.Errorf("a lease at once: %d %s, want 403", status, answer)
		}
		live(6*time.Second, two, ben)
		if _, refused := w.enter(token, lobby, nil); refused != nil {
			t.Errorf("back after the ban: %v", refused)
		}
	})
}

func TestKickTakesAdmin(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		w.mustEnter(w.token(auth.Claims{User: "ana"}), "lobby")
		path := "/v1/rooms/lobby/members/ana/kick"
		w.wantCall(401, "POST", path, "", "")
		w.wantCall(403, "POST", path, w.token(auth.Claims{User: "ben"}), "")
		w.wantCall(403, "POST", path, w.token(auth.Claims{User: "ben", Grants: map[string][]auth.Capability{"bar": {auth.Admin}}}), "")
		w.wantCall(400, "POST", path, testKey, `{"banMs":-1}`)
		w.wantCall(204, "POST", path, w.token(auth.Claims{User: "ben", Grants: map[string][]auth.Capability{"lob*": {auth.Admin}}}), "")
	})
}

// TestKickIsAboutLeases: whether somebody observes, or is hidden, a kick does not
// tell.
func TestKickIsAboutLeases(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		path := "/v1/rooms/lobby/members/ana/kick"
		strip := func(s string) string { s, _, _ = strings.Cut(s, `"requestId"`); return s }
		nobody := strip(w.wantCall(404, "POST", path, testKey, ""))
		hidden := w.mustEnter(w.token(auth.Claims{User: "ana", Hidden: true}), "lobby")
		if got := strip(w.wantCall(404, "POST", path, testKey, "")); got != nobody {
			t.Errorf("of a hidden user %s, of nobody %s", got, nobody)
		}
		wantEvents(t, "the hidden user", hidden.eventsOf("ended", "bye"))
	})
}

func TestAnEventSourceKeepsItsOtherRoomsAfterAKick(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		token := w.token(auth.Claims{User: "ana"})
		both := []rollcall.RoomID{"bar", "lobby"}
		first := w.mustEnter(token, both...)
		w.wantCall(204, "POST", "/v1/rooms/lobby/members/ana/kick", testKey, "")
		again, refused := w.enter(token, both, func(a *arrival) { a.last.resume = first.st.resume })
		if refused != nil {
			t.Fatalf("back with both rooms: %v", refused)
		}
		text, _ := again.conn.take()
		var names []string
		for _, e := range events(text) {
			name, _, _ := strings.Cut(e, " ")
			names = append(names, name)
		}
		if !slices.Equal(names, []string{"ready", "ended", "resumed"}) && !slices.Equal(names, []string{"ready", "ended", "snapshot"}) {
			t.Errorf("told %v, want ended for one room and the state of the other", names)
		}
		if !strings.Contains(text, `{"room":"lobby","reason":"kicked"}`) || strings.Contains(text, `"room":"lobby","epoch"`) {
			t.Errorf("told %s", text)
		}
		w.wantCall(204, "POST", "/v1/rooms/bar/members/ana/kick", testKey, "")
		if _, refused := w.enter(token, both, nil); refused == nil || refused.Code != rollcall.CodeForbidden {
			t.Errorf("banned from both: %v, want forbidden", refused)
		}
	})
}

// A48.
func TestDisconnectEndsEverythingAndRefusesOldTokens(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		old := w.token(auth.Claims{User: "ana"})
		ana := w.mustEnter(old, "lobby", "bar")
		observer := w.mustEnter(w.token(auth.Claims{User: "ana", Hidden: true}), "lobby")
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "lobby")
		answer := w.wantCall(201, "POST", "/v1/rooms/lobby/connections", old, "")
		var lease struct{ Connection, Resume string }
		json.Unmarshal([]byte(answer), &lease)
		time.Sleep(2 * time.Second) // a bare number of connections may wait that long
		synctest.Wait()
		ben.conn.take()

		w.wantCall(403, "POST", "/v1/users/ana/disconnect", old, "")
		w.wantCall(204, "POST", "/v1/users/ana/disconnect", testKey, "")
		time.Sleep(tickEvery)
		synctest.Wait()
		bye := `bye {"reason":"revoked","reconnectMs":null}`
		if got := ana.eventsOf("bye"); !slices.Equal(got, []string{bye}) || !ana.conn.isClosed() {
			t.Errorf("ana was told %q and closed %v", got, ana.conn.isClosed())
		}
		wantEvents(t, "the hidden stream", observer.eventsOf("bye"), bye)
		text, _ := ben.conn.take()
		// Her connections end one after the other, and a tick may run between two.
		news := slices.DeleteFunc(told(text), func(e string) bool { return e == "update ana" })
		wantEvents(t, "ben", news, "leave ana revoked")
		if got := w.here("bar"); len(got) != 0 {
			t.Errorf("in the bar: %v, want nobody", got)
		}
		w.wantCall(410, "PUT", "/v1/rooms/lobby/connections/"+lease.Connection+"?resume="+lease.Resume, "", "")

		for _, path := range []string{"/v1/rooms/lobby", "/v1/rooms/lobby/members", "/v1/users/ana"} {
			w.wantCall(401, "GET", path, old, "")
		}
		if _, refused := w.enter(old, lobby, nil); refused == nil || refused.Code != rollcall.CodeUnauthorized {
			t.Errorf("a stream by the old token: %v, want unauthorized", refused)
		}
		w.wantCall(200, "GET", "/v1/rooms/lobby", w.token(auth.Claims{User: "ben", IssuedAt: time.Now().Add(-time.Hour), Expires: time.Now().Add(time.Hour)}), "")
		time.Sleep(time.Second)
		w.mustEnter(w.token(auth.Claims{User: "ana"}), "lobby")
		if got := w.here("lobby"); !slices.Equal(got, []string{"ana", "ben"}) {
			t.Errorf("in the lobby: %v, want ana by a new token", got)
		}
		// The store remembers what this node has forgotten.
		time.Sleep(2 * recentFor)
		w.h.control.forget(w.h.clock.now())
		w.wantCall(401, "GET", "/v1/rooms/lobby", old, "")
	})
}

func TestDisconnectOfASessionLeavesTheOthers(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		onPhone, onLaptop := w.token(auth.Claims{User: "ana", Session: "phone"}), w.token(auth.Claims{User: "ana", Session: "laptop"})
		phone, laptop := w.mustEnter(onPhone, "lobby"), w.mustEnter(onLaptop, "lobby")
		w.wantCall(204, "POST", "/v1/users/ana/disconnect", testKey, `{"session":"phone"}`)
		time.Sleep(tickEvery)
		synctest.Wait()
		wantEvents(t, "the phone", phone.eventsOf("bye"), `bye {"reason":"revoked","reconnectMs":null}`)
		wantEvents(t, "the laptop", laptop.eventsOf("bye", "ended"))
		if got := w.here("lobby"); !slices.Equal(got, []string{"ana"}) {
			t.Errorf("in the lobby: %v, want ana", got)
		}
		w.wantCall(401, "GET", "/v1/rooms/lobby", onPhone, "")
		w.wantCall(200, "GET", "/v1/rooms/lobby", onLaptop, "")
	})
}

// TestNobodySlipsInWhileBeingDisconnected: whoever was let in before the news and
// opens after it is refused, and a WebSocket that lingers enters nothing more.
func TestNobodySlipsInWhileBeingDisconnected(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		token := w.token(auth.Claims{User: "ana"})
		id, err := w.h.auth.Authenticate(t.Context(), auth.Credentials{Token: token, From: auth.Header})
		if err != nil {
			t.Fatal(err)
		}
		socket, refused := w.enterAs(id, nil, func(a *arrival) { a.proto, a.multi = protocolWS, true })
		if refused != nil {
			t.Fatal(refused)
		}
		w.wantCall(204, "POST", "/v1/users/ana/disconnect", testKey, "")
		if _, refused := w.enterAs(id, lobby, nil); refused == nil || refused.Code != rollcall.CodeUnauthorized {
			t.Errorf("opened after the news: %v, want unauthorized", refused)
		}
		if socket.st.take(&wire.Message{Type: wire.MessageJoin, Room: "lobby"}) {
			t.Error("the socket goes on after it was disconnected")
		}
		if _, refused := socket.st.do(t.Context(), &wire.Message{Type: wire.MessageJoin, Room: "lobby"}); refused == nil || refused.Code != rollcall.CodeForbidden {
			t.Errorf("a join that was on its way: %v, want forbidden", refused)
		}
		if got := w.here("lobby"); len(got) != 0 {
			t.Errorf("in the lobby: %v, want nobody", got)
		}
	})
}

// TestRevokedUserIsFoundOutWhenTheStoreIsBack: while the store is away nobody is
// turned away, and afterwards nobody is overlooked.
func TestRevokedUserIsFoundOutWhenTheStoreIsBack(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		old := w.token(auth.Claims{User: "ana"})
		w.wantCall(204, "POST", "/v1/users/ana/disconnect", testKey, "")
		time.Sleep(2 * recentFor)
		w.h.control.forget(w.h.clock.now())
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "lobby")
		frail.away.Store(true)
		ana := w.mustEnter(old, "lobby")
		carl := w.mustEnter(w.token(auth.Claims{User: "carl"}), "lobby")
		live(5*time.Second, ana, carl, ben)
		wantEvents(t, "ana meanwhile", ana.eventsOf("bye"))
		frail.away.Store(false)
		live(2*time.Second, ana, carl, ben)
		wantEvents(t, "ana", ana.eventsOf("bye"), `bye {"reason":"revoked","reconnectMs":null}`)
		if got := w.here("lobby"); !slices.Contains(got, "carl") || slices.Contains(got, "ana") {
			t.Errorf("in the lobby: %v, want carl and not ana", got)
		}
	})
}

// TestRevocationThatWasNotHeardIsNoticed: the news came while the feed was cut.
func TestRevocationThatWasNotHeardIsNoticed(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		ana := w.mustEnter(w.token(auth.Claims{User: "ana"}), "lobby")
		frail.deaf.Store(true)
		if err := frail.Revoke(t.Context(), rollcall.Revocation{User: "ana"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		fresh := w.token(auth.Claims{User: "ana"})
		again := w.mustEnter(fresh, "bar")
		wantEvents(t, "ana meanwhile", ana.eventsOf("bye"))
		frail.deaf.Store(false)
		frail.feed(&rollcall.Frame{Partition: rollcall.PartitionOfUser("ana"), Epoch: w.h.epoch(), Gap: true})
		time.Sleep(time.Second)
		synctest.Wait()
		wantEvents(t, "ana", ana.eventsOf("bye"), `bye {"reason":"revoked","reconnectMs":null}`)
		wantEvents(t, "ana with a new token", again.eventsOf("bye"))
	})
}

func TestUsersAreSeenByWhoMay(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		grants := func(user rollcall.UserID, g map[string][]auth.Capability) string {
			return w.token(auth.Claims{User: user, Grants: g})
		}
		w.mustEnter(w.token(auth.Claims{User: "ana"}), "bar")
		idle, refused := w.enter(w.token(auth.Claims{User: "ana"}), lobby, func(a *arrival) { a.rooms[0].status = rollcall.StatusIdle })
		if refused != nil {
			t.Fatal(refused)
		}
		_ = idle
		now := time.Now().UnixMilli()
		full := fmt.Sprintf(`{"user":"ana","status":"active","rooms":["bar","lobby"],"lastSeen":%d}`, now)
		for _, c := range []struct{ who, token, want string }{
			{"a server", testKey, full},
			{"one who reads everything", w.token(auth.Claims{User: "ben"}), full},
			{"ana herself", w.token(auth.Claims{User: "ana", Rooms: []string{"cellar"}}), fmt.Sprintf(`{"user":"ana","status":"active","rooms":[],"lastSeen":%d}`, now)},
			{"one with contacts", grants("ben", map[string][]auth.Capability{"cellar": {auth.Contacts}}), fmt.Sprintf(`{"user":"ana","status":"active","rooms":[],"lastSeen":%d}`, now)},
			{"one who reads the lobby", grants("ben", map[string][]auth.Capability{"lobby": {auth.Read}}), `{"user":"ana","status":"idle","rooms":["lobby"]}`},
			{"one who counts everywhere", grants("ben", map[string][]auth.Capability{"*": {auth.Count}}), `{"user":"ana","status":null,"rooms":[]}`},
		} {
			if got := w.wantCall(200, "GET", "/v1/users/ana", c.token, ""); got != c.want {
				t.Errorf("%s sees\n%s, want\n%s", c.who, got, c.want)
			}
		}
		want := fmt.Sprintf(`{"users":[{"user":"zoe","status":null},{"user":"ana","status":"active","lastSeen":%d}]}`, now)
		if got := w.wantCall(200, "POST", "/v1/users/lookup", testKey, `{"users":["zoe","ana","zoe"]}`); got != want {
			t.Errorf("look-up: %s, want %s", got, want)
		}
		w.wantCall(401, "GET", "/v1/users/ana", "", "")
		w.wantCall(400, "GET", "/v1/users/%FF", testKey, "")
		many, _ := json.Marshal(map[string][]string{"users": make([]string, 1001)})
		w.wantCall(413, "POST", "/v1/users/lookup", testKey, strings.ReplaceAll(string(many), `""`, `"u"`))
	})
}

// A17.
func TestWhoFellSilentIsOfflineAndWasLastSeenThen(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ana := w.mustEnter(w.token(auth.Claims{User: "ana"}), "lobby")
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "bar")
		if _, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"ana"}); refused != nil {
			t.Fatal(refused)
		}
		live(time.Minute, ana, ben)
		last := time.Now()
		live(2*time.Second, ben)
		if got := w.wantCall(200, "GET", "/v1/users/ana", testKey, ""); !strings.Contains(got, `"status":"active"`) {
			t.Errorf("after 2 s: %s, want active", got)
		}
		live(30*time.Second, ben)
		var u struct {
			Status   *string
			Rooms    []string
			LastSeen int64
		}
		answer := w.wantCall(200, "GET", "/v1/users/ana", testKey, "")
		json.Unmarshal([]byte(answer), &u)
		if off := last.Sub(time.UnixMilli(u.LastSeen)); u.Status != nil || len(u.Rooms) != 0 || off < 0 || off > 10*time.Second {
			t.Errorf("%s, want offline and last seen by %v, which is %v off", answer, last.UnixMilli(), off)
		}
		wantEvents(t, "ben", ben.eventsOf("users"), `users {"present":[],"absent":["ana"]}`)
	})
}

// What connections have set is told by every read of members that asks for it.
func TestALookUpTellsWhatConnectionsHaveSet(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		w.wantCall(201, "POST", "/v1/rooms/lobby/connections", testKey, `{"user":"ana","connection":"phone","status":"away","data":{"a":1}}`)
		w.wantCall(201, "POST", "/v1/rooms/lobby/connections", testKey, `{"user":"ben","connection":"desk"}`)
		look := func(query string) string {
			return w.wantCall(200, "POST", "/v1/rooms/lobby/members/lookup"+query, testKey, `{"users":["ana","zoe","ben"]}`)
		}
		for _, want := range []string{
			`"byConnection":[{"connection":"phone","status":"away","data":{"a":1}}]`,
			`"byConnection":[{"connection":"desk","status":"active","data":{}}]`,
		} {
			if got := look("?connections=1"); !strings.Contains(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if got := look(""); strings.Contains(got, "byConnection") {
			t.Errorf("%s for who did not ask", got)
		}
	})
}

// A back end that renews a connection without saying whose it is means one that is
// there.
func TestAServerCanRenewNoConnectionThatHasEnded(t *testing.T) {
	tokenWorld(t, func(_ *testing.T, w *world, _ *frailStore) {
		const path = "/v1/rooms/lobby/connections/bot"
		w.wantCall(410, "PUT", path, testKey, `{}`)
		w.wantCall(200, "PUT", path, testKey, `{"user":"ana"}`)
		w.wantCall(200, "PUT", path, testKey, `{"status":"idle"}`)
		w.wantCall(204, "DELETE", path, testKey, "")
		w.wantCall(410, "PUT", path, testKey, `{"status":"idle"}`)
		w.wantCall(200, "PUT", path, testKey, `{"user":"ana"}`)
	})
}

// A49.
func TestHiddenUsersAreNowhere(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "lobby")
		present, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"ana"})
		if refused != nil || len(present) != 0 {
			t.Fatal(present, refused)
		}
		look := func() (all string) {
			for _, path := range []string{"/v1/users/ana", "/v1/rooms/lobby/members?connections=1", "/v1/rooms/lobby", "/v1/rooms/lobby/members/ben"} {
				all += w.wantCall(200, "GET", path, testKey, "") + "\n"
			}
			return all + w.wantCall(200, "POST", "/v1/users/lookup", testKey, `{"users":["ana"]}`)
		}
		without := look()
		hidden := w.token(auth.Claims{User: "ana", Hidden: true})
		ana := w.mustEnter(hidden, "lobby")
		live(5*time.Second, ana, ben)
		w.wantCall(201, "POST", "/v1/rooms/lobby/connections", hidden, `{"status":"active"}`)
		if with := look(); with != without {
			t.Errorf("with a hidden user\n%s\nwithout\n%s", with, without)
		}
		ana.ends(0)
		live(40*time.Second, ben)
		if with := look(); with != without {
			t.Errorf("after a hidden user\n%s\nwithout\n%s", with, without)
		}
		wantEvents(t, "ben", ben.eventsOf("users", "diff"))
	})
}

func TestWatchedUsersAreToldOnceASecond(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		all := map[string][]auth.Capability{"*": {auth.Presence}, "x": {auth.Contacts}}
		ben := w.mustEnter(w.token(auth.Claims{User: "ben", Grants: all}), "bar")
		ana := w.mustEnter(w.token(auth.Claims{User: "ana"}), "lobby")
		present, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"ana", "carl", "dan"})
		if refused != nil || !slices.Equal(present, []wire.UserStatus{{User: "ana", Status: rollcall.StatusActive}}) {
			t.Fatalf("present: %v, %v", present, refused)
		}
		live(2*time.Second, ana, ben)
		wantEvents(t, "ben, of nothing", ben.eventsOf("users"))
		set := func(s rollcall.Status) {
			t.Helper()
			ana.st.c.op.Lock()
			defer ana.st.c.op.Unlock()
			if _, refused := ana.st.c.set(t.Context(), "lobby", change{status: s}); refused != nil {
				t.Fatal(refused)
			}
		}
		set(rollcall.StatusAway)
		synctest.Wait()
		wantEvents(t, "ben at once", ben.eventsOf("users"), `users {"present":[{"user":"ana","status":"away"}],"absent":[]}`)
		set(rollcall.StatusActive)
		time.Sleep(100 * time.Millisecond)
		set(rollcall.StatusIdle)
		carl := w.mustEnter(w.token(auth.Claims{User: "carl"}), "lobby")
		eve := w.mustEnter(w.token(auth.Claims{User: "eve"}), "lobby") // whom nobody watches
		synctest.Wait()
		wantEvents(t, "ben within the second", ben.eventsOf("users"))
		time.Sleep(time.Second)
		synctest.Wait()
		wantEvents(t, "ben after it", ben.eventsOf("users"), `users {"present":[{"user":"ana","status":"idle"},{"user":"carl","status":"active"}],"absent":[]}`)
		// Away and back within a second is nothing.
		live(2*time.Second, ana, ben, carl, eve)
		ben.conn.take()
		set(rollcall.StatusAway)
		synctest.Wait()
		ben.conn.take()
		set(rollcall.StatusActive)
		set(rollcall.StatusAway)
		live(2*time.Second, ana, ben, carl, eve)
		wantEvents(t, "ben of what has cancelled out", ben.eventsOf("users"))
		// Another list takes the place of the first.
		if _, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"carl"}); refused != nil {
			t.Fatal(refused)
		}
		live(2*time.Second, ana, ben, carl, eve)
		set(rollcall.StatusActive)
		carl.st.c.release(false)
		live(2*time.Second, ana, ben)
		wantEvents(t, "ben of the second list", ben.eventsOf("users"), `users {"present":[],"absent":["carl"]}`)
	})
}

func TestWatchingUsersHasARightAndALimit(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ben := w.mustEnter(w.token(auth.Claims{User: "ben", Rooms: []string{"bar"}}), "bar")
		if _, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"ana"}); refused == nil || refused.Code != rollcall.CodeForbidden {
			t.Errorf("without contacts: %v, want forbidden", refused)
		}
		carl := w.mustEnter(w.token(auth.Claims{User: "carl"}), "bar")
		var many []rollcall.UserID
		for i := range 201 {
			many = append(many, rollcall.UserID(fmt.Sprint("u", i)))
		}
		if _, refused := carl.st.watchUsers(t.Context(), many); refused == nil || refused.Code != rollcall.CodeRateLimited || refused.Limit != 200 {
			t.Errorf("201 users: %v, want rate_limited with the limit", refused)
		}
		if _, refused := carl.st.watchUsers(t.Context(), many[:200]); refused != nil {
			t.Errorf("200 users: %v", refused)
		}
		resume := carl.st.resume
		path := "/v1/connections/" + string(carl.st.c.id) + "/users?resume=" + resume
		if got := w.wantCall(200, "PUT", path, "", `{"users":["ben","zoe"]}`); got != `{"present":[{"user":"ben","status":"active"}]}` {
			t.Errorf("PUT: %s", got)
		}
		w.wantCall(401, "PUT", "/v1/connections/"+string(carl.st.c.id)+"/users", "", `{"users":[]}`)
		fields, refused := carl.st.do(t.Context(), &wire.Message{Type: wire.MessageUsers, Users: []rollcall.UserID{"ben"}})
		if refused != nil || string(fields) != `{"present":[{"user":"ben","status":"active"}]}` {
			t.Errorf("message: %s, %v", fields, refused)
		}
		// A stream that has ended is let go of.
		carl.ends(0)
		live(time.Minute, ben)
		watchUntilPruned(t, w)
	})
}

func watchUntilPruned(t *testing.T, w *world) {
	t.Helper()
	w.h.watching.rouse()
	synctest.Wait()
	w.h.watching.mu.Lock()
	defer w.h.watching.mu.Unlock()
	if n := len(w.h.watching.streams) + len(w.h.watching.users); n != 0 {
		t.Errorf("%d streams and users are still watched", n)
	}
}

// TestWatchIsMendedAfterAGap: what changed while the feed was cut.
func TestWatchIsMendedAfterAGap(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		ben := w.mustEnter(w.token(auth.Claims{User: "ben"}), "bar")
		if _, refused := ben.st.watchUsers(t.Context(), []rollcall.UserID{"ana"}); refused != nil {
			t.Fatal(refused)
		}
		live(2*time.Second, ben)
		frail.deaf.Store(true)
		if _, err := frail.Apply(t.Context(), []rollcall.Op{{Kind: rollcall.OpGrant, Room: "x", User: "ana", Connection: "c"}}); err != nil {
			t.Fatal(err)
		}
		live(time.Second, ben)
		wantEvents(t, "ben, who cannot know", ben.eventsOf("users"))
		frail.deaf.Store(false)
		frail.feed(&rollcall.Frame{Partition: rollcall.PartitionOfUser("ana"), Epoch: w.h.epoch(), Gap: true})
		live(time.Second, ben)
		wantEvents(t, "ben", ben.eventsOf("users"), `users {"present":[{"user":"ana","status":"active"}],"absent":[]}`)
	})
}

func TestServerWithoutAnIndexSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := store.NewMemory(store.MemoryOptions{Settled: true, NoUserIndex: true})
		s, err := New(Options{Store: m, Auth: auth.Guests{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		defer s.Close()
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/users/ana", nil))
		if rec.Code != 404 || !strings.Contains(rec.Body.String(), "--user-index") {
			t.Errorf("%d %s, want 404 that names the flag", rec.Code, rec.Body)
		}
	})
}
