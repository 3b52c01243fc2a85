package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
	"rollcall/wire"
)

// countedStore counts what it is asked. It may lose its memory, and its frames.
type countedStore struct {
	memory         atomic.Pointer[store.Memory]
	deaf           atomic.Bool // nobody hears its frames
	feed           func(*rollcall.Frame)
	pages, lookups atomic.Int64
}

func (s *countedStore) Feed(fn func(*rollcall.Frame)) {
	s.feed = fn
	s.remember(s.memory.Load())
}

func (s *countedStore) remember(m *store.Memory) {
	m.Feed(func(f *rollcall.Frame) {
		if !s.deaf.Load() {
			s.feed(f)
		}
	})
	s.memory.Store(m)
}

func (s *countedStore) Close() error                   { return s.memory.Load().Close() }
func (s *countedStore) Tick(ctx context.Context) error { return s.memory.Load().Tick(ctx) }

func (s *countedStore) Renew(ctx context.Context, renewals []rollcall.Renewal) error {
	return s.memory.Load().Renew(ctx, renewals)
}

func (s *countedStore) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	return s.memory.Load().Apply(ctx, ops)
}

func (s *countedStore) Read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	switch q.Want {
	case rollcall.WantPage:
		s.pages.Add(1)
	case rollcall.WantUsers:
		s.lookups.Add(1)
	}
	return s.memory.Load().Read(ctx, q)
}

// crowdWorld is a world whose rooms turn to counts above so many members.
func crowdWorld(t *testing.T, above int, rules ...string) (*world, *countedStore) {
	t.Helper()
	modes := rollcall.Modes{Above: above, Below: max(above*3/4, 1), Every: time.Second}
	r, err := rollcall.ParseRoomRules(rules, rollcall.RoomSettings{Modes: modes})
	if err != nil {
		t.Fatal(err)
	}
	m := new(countedStore)
	m.memory.Store(store.NewMemory(store.MemoryOptions{Settled: true, Modes: modes, Rules: r}))
	s, err := New(Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Guests{}, Store: m, Modes: modes, Rules: r,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		m.Close()
	})
	return &world{t: t, h: s.h, m: m.memory.Load(), s: s}, m
}

// admit grants a user a lease of an hour, without a stream.
func (w *world) admit(room rollcall.RoomID, users ...string) {
	w.t.Helper()
	for _, user := range users {
		w.apply(rollcall.Op{Kind: rollcall.OpGrant, Room: room, User: rollcall.UserID(user), Connection: "c", TTL: time.Hour})
	}
}

func (w *world) dismiss(room rollcall.RoomID, users ...string) {
	w.t.Helper()
	for _, user := range users {
		w.apply(rollcall.Op{Kind: rollcall.OpEnd, Room: room, User: rollcall.UserID(user), Connection: "c", Reason: rollcall.ReasonLeft})
	}
}

func (w *world) apply(op rollcall.Op) {
	w.t.Helper()
	results, err := w.m.Apply(w.t.Context(), []rollcall.Op{op})
	if err != nil || results[0].Err != nil {
		w.t.Fatal(err, results)
	}
}

func people(prefix string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}

// looker is a client that follows its pages and contacts strictly.
type looker struct {
	*client
	room     rollcall.RoomID
	pages    map[string][]string
	next     map[string]string
	reasons  map[string]string // of those who left a page, as told
	contacts map[string]bool
	told     map[string][]time.Time // of each page, and of "contacts"
	counts   []int
	signals  []string
}

func (w *world) look(user string, room rollcall.RoomID, change func(*arrival)) *looker {
	w.t.Helper()
	l := &looker{
		client: w.arrive(user, []rollcall.RoomID{room}, func(a *arrival) {
			a.rooms[0].observe = true
			if change != nil {
				change(a)
			}
		}),
		room: room, pages: make(map[string][]string), next: make(map[string]string), reasons: make(map[string]string),
		contacts: make(map[string]bool), told: make(map[string][]time.Time),
	}
	return l
}

// open opens a page and compares the answer with what the stream is told.
func (l *looker) open(name, cursor string, limit int) *rollcall.Error {
	l.w.t.Helper()
	c := l.st.c
	key, refused := l.w.h.pageKeyOf(l.room, cursor, limit)
	if refused != nil {
		return refused
	}
	c.op.Lock()
	answer, refused := c.openPage(l.w.t.Context(), l.room, name, key)
	c.op.Unlock()
	if refused != nil {
		return refused
	}
	l.pages[name] = nil
	c.pump()
	l.read()
	p, err := wire.DecodePageAnswer(answer)
	if err != nil {
		l.w.t.Fatal(err)
	}
	var want []string
	for _, m := range p.Members {
		want = append(want, string(m.User))
	}
	if got := l.pages[name]; !slices.Equal(got, want) || l.next[name] != p.NextCursor {
		l.w.t.Errorf("page %s: the stream was told %v, the answer is %v", name, got, want)
	}
	return nil
}

// ask names the contacts and takes the answer.
func (l *looker) ask(users ...string) *rollcall.Error {
	l.w.t.Helper()
	ids := make([]rollcall.UserID, len(users))
	for i, u := range users {
		ids[i] = rollcall.UserID(u)
	}
	c := l.st.c
	c.op.Lock()
	present, refused := c.setContacts(l.w.t.Context(), l.room, ids)
	c.op.Unlock()
	if refused != nil {
		return refused
	}
	clear(l.contacts)
	for _, m := range present {
		l.contacts[string(m.User)] = true
	}
	l.told["contacts"] = nil // the answer counts for none
	return nil
}

// read follows what the stream was told since.
func (l *looker) read() {
	l.w.t.Helper()
	text, _ := l.conn.take()
	for _, e := range events(text) {
		kind, data, _ := strings.Cut(e, " ")
		switch kind {
		case "page":
			l.followPage(data)
		case "contacts":
			l.followContacts(data)
		case "count":
			var c struct{ Count int }
			json.Unmarshal([]byte(data), &c)
			l.counts = append(l.counts, c.Count)
			l.told["count"] = append(l.told["count"], time.Now())
		case "signals":
			l.signals = append(l.signals, data)
		}
	}
}

func (l *looker) fault(format string, args ...any) {
	l.w.t.Helper()
	l.w.t.Errorf("%s: %s", l.st.c.user, fmt.Sprintf(format, args...))
}

func (l *looker) followPage(data string) {
	l.w.t.Helper()
	v, err := wire.DecodeEvent(wire.EventPage, []byte(data))
	if err != nil {
		l.w.t.Fatal(err)
	}
	p := v.(*wire.Page)
	list, open := l.pages[p.Name]
	if !open {
		l.fault("told of page %s, which is not open", p.Name)
	}
	if p.Members != nil {
		list = nil
		for _, m := range p.Members {
			list = append(list, string(m.User))
		}
	}
	for _, gone := range p.Leave {
		i := slices.Index(list, string(gone.User))
		if i < 0 {
			l.fault("%s left page %s, and was not there", gone.User, p.Name)
			continue
		}
		list = slices.Delete(list, i, i+1)
		l.reasons[string(gone.User)] = gone.Reason.String()
	}
	for _, m := range p.Update {
		if !slices.Contains(list, string(m.User)) {
			l.fault("%s changed on page %s, and was not there", m.User, p.Name)
		}
	}
	for _, m := range p.Join {
		if slices.Contains(list, string(m.User)) {
			l.fault("%s came to page %s, and was there", m.User, p.Name)
		}
		list = append(list, string(m.User))
	}
	if p.Members == nil && len(p.Join)+len(p.Update)+len(p.Leave) == 0 && l.next[p.Name] == p.NextCursor {
		l.fault("an event of page %s told nothing", p.Name)
	}
	l.pages[p.Name], l.next[p.Name] = list, p.NextCursor
	l.told[p.Name] = append(l.told[p.Name], time.Now())
}

func (l *looker) followContacts(data string) {
	l.w.t.Helper()
	v, err := wire.DecodeEvent(wire.EventContacts, []byte(data))
	if err != nil {
		l.w.t.Fatal(err)
	}
	c := v.(*wire.Contacts)
	for _, m := range c.Present {
		l.contacts[string(m.User)] = true
	}
	for _, id := range c.Absent {
		if !l.contacts[string(id)] {
			l.fault("told that %s is absent, who was not here", id)
		}
		delete(l.contacts, string(id))
	}
	l.told["contacts"] = append(l.told["contacts"], time.Now())
}

// sleep lets time pass, while the clients read.
func (w *world) sleep(d time.Duration, lookers ...*looker) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		for _, l := range lookers {
			l.answer()
			l.read()
		}
	}
}

// checkPace checks that nothing of a kind came more often than once a second.
func (l *looker) checkPace() {
	l.w.t.Helper()
	for what, times := range l.told {
		for i := 1; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d < windowEvery-2*tickEvery {
				l.fault("%s was told again after %v", what, d)
			}
		}
	}
}

func (l *looker) want(page string, users ...string) {
	l.w.t.Helper()
	got := slices.Clone(l.pages[page])
	slices.Sort(got)
	slices.Sort(users)
	if !slices.Equal(got, users) {
		l.fault("page %s shows %v, want %v", page, got, users)
	}
}

// inBothModes runs a test in a room that names its members, and in one that tells a
// number.
func inBothModes(t *testing.T, test func(t *testing.T, w *world, m *countedStore)) {
	for name, above := range map[string]int{"Full": 1000, "Counts": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m := crowdWorld(t, above)
				test(t, w, m)
			})
		})
	}
}

func TestOpenPageIsToldOfWhatChangesOnIt(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world, m *countedStore) {
		w.admit("hall", people("u", 0, 30)...)
		l := w.look("zoe", "hall", nil)
		if err := l.open("top", "", 10); err != nil {
			t.Fatal(err)
		}
		if err := l.open("next", l.next["top"], 10); err != nil {
			t.Fatal(err)
		}
		l.want("top", people("u", 20, 30)...)
		l.want("next", people("u", 10, 20)...)

		w.dismiss("hall", "u015", "u025", "u003")
		w.sleep(2*time.Second, l)
		// The next ones slide in: onto the first page from the second, which is a
		// place in the order of the joins and keeps its members.
		l.want("top", append(people("u", 19, 25), people("u", 26, 30)...)...)
		l.want("next", append(people("u", 9, 15), people("u", 16, 20)...)...)
		if l.reasons["u025"] != "left" {
			t.Errorf("u025 went off the page for the reason %q, want left", l.reasons["u025"])
		}

		w.admit("hall", "v001")
		w.sleep(2*time.Second, l)
		l.want("top", append(append(people("u", 20, 25), people("u", 26, 30)...), "v001")...)
		if reason, told := l.reasons["u019"]; !told || reason != "" {
			t.Errorf("u019, who is still here, went off the page for the reason %q, want none", reason)
		}
		before, reads := len(l.told["next"]), m.pages.Load()
		w.apply(rollcall.Op{Kind: rollcall.OpSet, Room: "hall", User: "u001", Connection: "c", Status: rollcall.StatusAway})
		w.dismiss("hall", "u002")
		w.sleep(3*time.Second, l)
		if len(l.told["next"]) != before || m.pages.Load() != reads {
			t.Errorf("a change on no page was told %d times and read %d times", len(l.told["next"])-before, m.pages.Load()-reads)
		}
		l.st.c.closePage("hall", "top")
		delete(l.pages, "top")
		w.admit("hall", "v002")
		w.sleep(2*time.Second, l)
		l.checkPace()
	})
}

func TestPagesOfAChurningRoomAreTheTruth(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world, m *countedStore) {
		w.admit("hall", people("u", 0, 60)...)
		l := w.look("zoe", "hall", nil)
		l.open("top", "", 20)
		l.open("next", l.next["top"], 20)
		for i := range 200 {
			w.dismiss("hall", fmt.Sprintf("u%03d", i%60))
			w.admit("hall", fmt.Sprintf("u%03d", (i*7)%60))
			w.sleep(50*time.Millisecond, l)
			w.admit("hall", fmt.Sprintf("u%03d", i%60))
		}
		w.sleep(3*time.Second, l)
		l.checkPace()
		for i, name := range []string{"top", "next"} {
			key := l.st.c.subs[0].outlook.pages[i].page.pageKey
			a, _ := w.m.Read(t.Context(), rollcall.Query{Want: rollcall.WantPage, Room: "hall", Cursor: key.cursor, Limit: key.limit})
			var want []string
			for _, m := range a.Members {
				want = append(want, string(m.User))
			}
			l.want(name, want...)
		}
	})
}

func TestViewersOfAPageShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := crowdWorld(t, 5)
		w.admit("hall", people("u", 0, 100)...)
		var all []*looker
		for i := range 50 {
			l := w.look(fmt.Sprintf("z%03d", i), "hall", nil)
			if err := l.open(fmt.Sprintf("p%d", i%3), "", 10); err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		if n := m.pages.Load(); n != 1 {
			t.Errorf("50 viewers of a page cost %d readings, want 1", n)
		}
		began := time.Now()
		for i := range 40 {
			w.admit("hall", fmt.Sprintf("v%03d", i))
			w.sleep(100*time.Millisecond, all...)
		}
		w.sleep(2*time.Second, all...)
		if n, most := m.pages.Load(), int64(time.Since(began)/time.Second)+2; n > most {
			t.Errorf("%d readings in %v, want one a second", n, time.Since(began))
		}
		for i, l := range all {
			l.want(fmt.Sprintf("p%d", i%3), people("v", 30, 40)...)
			l.checkPace()
		}
		for _, l := range all {
			l.ends(transport.Cut)
		}
		r := w.h.known("hall")
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.windows.pages) + len(r.windows.seen) + len(r.windows.first); n != 0 {
			t.Errorf("%d things are left of pages at which nobody looks", n)
		}
	})
}

func TestPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := crowdWorld(t, 5)
		w.admit("hall", "ana")
		l := w.look("zoe", "hall", nil)
		for i := range 4 {
			if err := l.open(fmt.Sprint(i), "", 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.open("fifth", "", 10); err == nil || err.Code != rollcall.CodeRateLimited || err.Limit != 4 {
			t.Errorf("a fifth page: %+v", err)
		}
		if err := l.open("3", "", 20); err != nil {
			t.Errorf("another page in place of one: %v", err)
		}
		if err := l.open("0", "nonsense", 10); err == nil || err.Code != rollcall.CodeBadRequest {
			t.Errorf("a cursor of nobody: %+v", err)
		}
		for i := range 200 {
			l.contacts[fmt.Sprint(i)] = true
		}
		if err := l.ask(slices.Collect(maps.Keys(l.contacts))...); err != nil {
			t.Fatal(err)
		}
		if err := l.ask(people("u", 0, 201)...); err == nil || err.Code != rollcall.CodeRateLimited || err.Limit != 200 {
			t.Errorf("201 contacts: %+v", err)
		}
	})
}

func TestContactsAreToldWhenTheyChange(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world, m *countedStore) {
		w.admit("hall", people("u", 0, 30)...)
		a, b := w.look("zoe", "hall", nil), w.look("yan", "hall", nil)
		if err := a.ask("u001", "u002", "nobody"); err != nil {
			t.Fatal(err)
		}
		if err := b.ask("u002", "late"); err != nil {
			t.Fatal(err)
		}
		if want := map[string]bool{"u001": true, "u002": true}; !maps.Equal(a.contacts, want) {
			t.Errorf("the answer is %v, want %v", a.contacts, want)
		}
		w.sleep(3*time.Second, a, b)
		if n := len(a.told["contacts"]); n != 0 {
			t.Errorf("told %d times of nothing", n)
		}
		lookups := m.lookups.Load()
		w.dismiss("hall", "u002", "u005")
		w.admit("hall", "late", "later")
		w.sleep(2*time.Second, a, b)
		if !maps.Equal(a.contacts, map[string]bool{"u001": true}) || !maps.Equal(b.contacts, map[string]bool{"late": true}) {
			t.Errorf("after a leave and a join: %v and %v", a.contacts, b.contacts)
		}
		if n := m.lookups.Load() - lookups; n < 1 || n > 2 { // the first change at once
			t.Errorf("%d look-ups for two streams and two changes, want 1 or 2", n)
		}
		for i := range 40 { // in and out, too fast to be told
			w.dismiss("hall", "u001")
			w.sleep(30*time.Millisecond, a, b)
			w.admit("hall", "u001")
			w.sleep(time.Duration(i)*time.Millisecond, a, b)
		}
		w.sleep(2*time.Second, a, b)
		if !a.contacts["u001"] {
			t.Error("u001 is here and said to be absent")
		}
		a.checkPace()
		if err := a.ask(); err != nil {
			t.Fatal(err)
		}
		w.dismiss("hall", "u001")
		w.sleep(2*time.Second, a, b)
		if n := len(a.told["contacts"]); n != 0 {
			t.Errorf("told %d times of contacts that it has no more", n)
		}
	})
}

// Nobody can tell from contacts or pages whether a hidden user is there.
func TestHiddenUsersAreInNoWindow(t *testing.T) {
	for name, above := range map[string]int{"Full": 1000, "Counts": 5} {
		t.Run(name, func(t *testing.T) {
			story := func(hidden bool) (told string) {
				synctest.Test(t, func(t *testing.T) {
					w, _ := crowdWorld(t, above)
					w.admit("hall", people("u", 0, 20)...)
					l := w.look("zoe", "hall", nil)
					l.conn.take()
					var ghost *client
					appear := func() {
						if hidden {
							ghost = w.arrive("ghost", []rollcall.RoomID{"hall"}, func(a *arrival) { a.identity.Hidden = true })
							ghost.st.c.set(t.Context(), "hall", change{status: rollcall.StatusAway})
						}
					}
					c := l.st.c
					say := func() {
						c.op.Lock()
						present, refused := c.setContacts(t.Context(), "hall", []rollcall.UserID{"ghost", "u015"})
						answer, refused2 := c.openPage(t.Context(), "hall", "top", pageKey{limit: 50})
						c.op.Unlock()
						if refused != nil || refused2 != nil {
							t.Fatal(refused, refused2)
						}
						told += string(wire.AppendPresent(nil, present, nil)) + string(answer)
						c.pump()
					}
					wait := func() {
						for range 300 {
							time.Sleep(10 * time.Millisecond)
							synctest.Wait()
							l.answer()
							text, _ := l.conn.take()
							for _, e := range events(text) {
								if kind, _, _ := strings.Cut(e, " "); kind == "page" || kind == "contacts" || kind == "count" || kind == "diff" {
									told += e + "\n"
								}
							}
						}
					}
					say()
					appear()
					wait()
					w.dismiss("hall", "u015")
					wait()
					say()
					if hidden {
						ghost.ends(transport.Cut)
					}
					wait()
				})
				return told
			}
			if with, without := scrub(story(true)), scrub(story(false)); with != without {
				a, b := strings.Split(with, "\n"), strings.Split(without, "\n")
				for i := range min(len(a), len(b)) {
					if a[i] != b[i] {
						t.Fatalf("line %d with a hidden user:\n%.300s\nwithout:\n%.300s", i, a[i], b[i])
					}
				}
				t.Fatalf("%d lines with a hidden user, %d without", len(a), len(b))
			}
		})
	}
}

// scrub takes out what no two runs have alike: versions, and cursors, which are made
// of them.
func scrub(s string) string {
	for _, name := range []string{`"version":`, `"prev":`, `"epoch":`, `"nextCursor":`} {
		var b strings.Builder
		for {
			i := strings.Index(s, name)
			if i < 0 {
				break
			}
			b.WriteString(s[:i])
			s = strings.TrimLeft(s[i+len(name):], `0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"`)
		}
		s = b.String() + s
	}
	return s
}

func TestWindowsAreReadAgainAfterAGap(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world, m *countedStore) {
		w.admit("hall", people("u", 0, 30)...)
		l := w.look("zoe", "hall", nil)
		l.open("top", "", 10)
		l.ask("u001", "u002")
		w.sleep(2*time.Second, l)
		// What happens now is not heard of.
		m.deaf.Store(true)
		w.dismiss("hall", "u001", "u025")
		w.admit("hall", "v001")
		m.deaf.Store(false)
		w.sleep(2*time.Second, l)
		l.want("top", people("u", 20, 30)...)
		w.h.onFrame(&rollcall.Frame{Partition: rollcall.PartitionOf("hall"), Epoch: w.h.epoch(), Gap: true})
		w.sleep(2*time.Second, l)
		l.want("top", append(append(people("u", 20, 25), people("u", 26, 30)...), "v001")...)
		if !maps.Equal(l.contacts, map[string]bool{"u002": true}) {
			t.Errorf("contacts after a gap: %v", l.contacts)
		}
	})
}

func TestWindowsGoOnOverAChangeOfMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := crowdWorld(t, 20)
		w.admit("hall", people("u", 0, 20)...)
		l := w.look("zoe", "hall", nil)
		l.open("top", "", 5)
		l.ask("u001")
		w.admit("hall", people("v", 0, 20)...)
		w.sleep(2*time.Second, l)
		l.want("top", people("v", 15, 20)...)
		w.dismiss("hall", people("v", 2, 20)...)
		w.dismiss("hall", people("u", 0, 18)...)
		w.sleep(3*time.Second, l)
		l.want("top", "u018", "u019", "v000", "v001")
		if len(l.contacts) != 0 {
			t.Errorf("contacts: %v, want none", l.contacts)
		}
		l.checkPace()
	})
}

// While a store remembers its members one by one, nobody goes off a page.
func TestWindowsOfAStoreThatSettlesLoseNobody(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world, m *countedStore) {
		users := people("u", 0, 8)
		w.admit("hall", users...)
		l := w.look("zoe", "hall", nil)
		l.open("top", "", 20)
		l.ask("u001", "u002")
		w.sleep(2*time.Second, l)
		modes := rollcall.Modes{Above: w.h.modes.Above, Below: w.h.modes.Below, Every: time.Second}
		w.m = store.NewMemory(store.MemoryOptions{Modes: modes})
		m.remember(w.m)
		a, _ := w.m.Read(t.Context(), rollcall.Query{Room: "hall"})
		w.h.onFrame(&rollcall.Frame{Partition: rollcall.PartitionOf("hall"), Epoch: a.Epoch, Gap: true})
		w.sleep(5*time.Second, l)
		l.want("top", users...)
		w.admit("hall", users[1:6]...)
		w.admit("hall", "new")
		w.dismiss("hall", "u005") // has really left
		w.sleep(5*time.Second, l)
		l.want("top", "new", "u000", "u001", "u002", "u003", "u004", "u006", "u007")
		w.sleep(30*time.Second, l)
		l.want("top", "new", "u001", "u002", "u003", "u004")
		if !maps.Equal(l.contacts, map[string]bool{"u001": true, "u002": true}) {
			t.Errorf("contacts: %v, want both", l.contacts)
		}
		l.checkPace()
	})
}

// point has a user with a stream send a cursor.
func (c *client) point(x int) {
	c.w.t.Helper()
	err := c.st.c.signal("hall", &rollcall.Signal{Kind: "cursor", Data: json.RawMessage(fmt.Sprint(x)), TTL: time.Minute})
	if err != nil {
		c.w.t.Fatal(err)
	}
}

// senders of the signals that a stream was told, once each, in order; full events
// begin anew.
func (l *looker) senders() (users []string) {
	for _, data := range l.signals {
		var e struct {
			Signals []struct {
				User string
				Data *int
			}
			Full bool
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			panic(err)
		}
		if e.Full {
			users = nil
		}
		for _, s := range e.Signals {
			users = slices.DeleteFunc(users, func(u string) bool { return u == s.User })
			if s.Data != nil {
				users = append(users, s.User)
			}
		}
	}
	slices.Sort(users)
	return users
}

func TestSignalsOfACrowdReachThoseWhoLook(t *testing.T) {
	for rule, want := range map[string]struct{ blind, page, contacts, both []string }{
		"hall:signals=scope": {nil, []string{"t0"}, []string{"t1"}, []string{"t0", "t1"}},
		"hall:signals=all":   {[]string{"t0", "t1", "t2"}, []string{"t0", "t1", "t2"}, []string{"t0", "t1", "t2"}, []string{"t0", "t1", "t2"}},
		"hall:signals=none":  {},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := crowdWorld(t, 5, rule)
				var tabs []*client
				for i := range 3 {
					tabs = append(tabs, w.arrive(fmt.Sprintf("t%d", 2-i), []rollcall.RoomID{"hall"}, nil))
					if i < 2 {
						w.admit("hall", people(fmt.Sprint("u", i), 0, 10)...)
					}
				}
				blind, page, twin, contacts, both := w.look("z1", "hall", nil), w.look("z2", "hall", nil), w.look("z3", "hall", nil), w.look("z4", "hall", nil), w.look("z5", "hall", nil)
				all := []*looker{blind, page, twin, contacts, both}
				page.open("top", "", 1)
				twin.open("first", "", 1)
				both.open("top", "", 1)
				contacts.ask("t1", "u0001")
				both.ask("t1", "t0")
				w.sleep(time.Second, all...)
				began := time.Now()
				for i := range 40 {
					for _, tab := range tabs {
						tab.answer()
						tab.point(i)
					}
					w.sleep(100*time.Millisecond, all...)
				}
				for _, c := range []struct {
					l    *looker
					want []string
				}{{blind, want.blind}, {page, want.page}, {twin, want.page}, {contacts, want.contacts}, {both, want.both}} {
					if got := c.l.senders(); !slices.Equal(got, c.want) {
						t.Errorf("%s was told signals of %v, want %v", c.l.st.c.user, got, c.want)
					}
					if n := len(c.l.signals); len(c.want) > 0 && n < 30 {
						t.Errorf("%s was told of 40 moves in %d events: that is no cursor", c.l.st.c.user, n)
					}
					if most := int(time.Since(began)/time.Second) + 1; len(c.l.counts) > most {
						t.Errorf("%s was told %d counts in %v", c.l.st.c.user, len(c.l.counts), time.Since(began))
					}
				}
				if rule != "hall:signals=scope" {
					return
				}
				// Who looks elsewhere is told of what lives there, and of nothing else.
				page.st.c.closePage("hall", "top")
				delete(page.pages, "top")
				page.ask("t2")
				contacts.ask("nobody")
				w.admit("hall", "new") // takes the place of t0 on the page
				w.sleep(1500*time.Millisecond, all...)
				tabs[0].point(77)
				w.sleep(500*time.Millisecond, all...)
				if got := page.senders(); !slices.Equal(got, []string{"t2"}) {
					t.Errorf("with another contact: told signals of %v, want t2", got)
				}
				if got := contacts.senders(); len(got) != 0 {
					t.Errorf("without contacts: told signals of %v, want none", got)
				}
				if got := twin.senders(); len(got) != 0 {
					t.Errorf("with t0 off the page: told signals of %v, want none", got)
				}
			})
		})
	}
}

// TestCountsComeAtMostOnceASecond: S6, whatever else a room has to tell: signals,
// pages, contacts, and a sample that leaves.
func TestCountsComeAtMostOnceASecond(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 6))
				rule := []string{"hall:signals=all", "hall:signals=scope"}[seed%2]
				w, _ := crowdWorld(t, 5, rule)
				here := people("u", 0, 20)
				w.admit("hall", here...)
				tab := w.arrive("tab", []rollcall.RoomID{"hall"}, nil)
				count := w.look("num", "hall", func(a *arrival) { a.rooms[0].counts = true })
				plain, looks := w.look("one", "hall", nil), w.look("two", "hall", nil)
				looks.open("top", "", 4)
				looks.ask("tab", "u003", "u030")
				all := []*looker{count, plain, looks}
				for range 150 {
					tab.answer()
					switch random.IntN(4) {
					case 0:
						if i := random.IntN(len(here)); len(here) > 12 { // the longest present, too
							w.dismiss("hall", here[i])
							here = slices.Delete(here, i, i+1)
						}
					case 1:
						name := fmt.Sprintf("v%03d", random.IntN(1000))
						if !slices.Contains(here, name) {
							w.admit("hall", name)
							here = append(here, name)
						}
					case 2:
						tab.point(random.IntN(1000))
					}
					w.sleep(time.Duration(random.IntN(300))*time.Millisecond, all...)
				}
				w.sleep(3*time.Second, all...)
				for _, l := range all {
					times := l.told["count"]
					if len(times) < 5 {
						t.Errorf("%s was told %d counts", l.st.c.user, len(times))
					}
					for i := 1; i < len(times); i++ {
						// It reads every 10 ms.
						if d := times[i].Sub(times[i-1]); d < time.Second-20*time.Millisecond {
							t.Errorf("%s was told a count again after %v", l.st.c.user, d)
						}
					}
					if got, want := l.counts[len(l.counts)-1], len(here)+1; got != want {
						t.Errorf("%s was told of %d at last, want %d", l.st.c.user, got, want)
					}
					l.checkPace()
				}
			})
		})
	}
}
