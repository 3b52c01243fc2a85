package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
)

// sends sends a signal; "" ends it.
func (c *client) sends(kind, data string) *rollcall.Error {
	s := &rollcall.Signal{Kind: kind}
	if data != "" {
		s.Data = json.RawMessage(data)
	}
	return c.st.c.signal("lobby", s)
}

// signalled are the signals that a stream was told, as "user kind data", one list
// an event; an event that tells all begins with "full".
func signalled(text string) (all [][]string) {
	for _, e := range events(text) {
		data, ok := strings.CutPrefix(e, "signals ")
		if !ok {
			continue
		}
		var s struct {
			Full    bool
			Signals []struct {
				User, Kind string
				Data       json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			panic(err)
		}
		list := []string{}
		if s.Full {
			list = append(list, "full")
		}
		for _, v := range s.Signals {
			list = append(list, fmt.Sprintf("%s %s %s", v.User, v.Kind, v.Data))
		}
		all = append(all, list)
	}
	return all
}

func same(t *testing.T, got [][]string, want ...[]string) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("signals: got %v, want %v", got, want)
	}
}

// ticks lets fan-outs pass.
func ticks(n int) {
	time.Sleep(time.Duration(n) * tickEvery)
	synctest.Wait()
}

func (c *client) hears() [][]string {
	text, _ := c.conn.take()
	return signalled(text)
}

func TestSignalsOfATickAreOneFrameForAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var all []*client
		for i := range 40 {
			all = append(all, w.arrive(fmt.Sprint("u", i), lobby, nil))
		}
		ticks(4)
		for _, c := range all {
			c.conn.take()
		}
		frames := w.frames()
		for round := range 20 {
			for i, c := range all {
				if err := c.sends("cursor", fmt.Sprintf(`{"x":%d,"i":%d}`, round, i)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(tickEvery)
		}
		ticks(2)
		if n := w.frames() - frames; n < 19 || n > 22 {
			t.Errorf("%v frames were encoded in 20 ticks with 40 viewers, want one a tick", n)
		}
		for _, c := range all {
			text, writes := c.conn.take()
			if writes > 23 {
				t.Fatalf("%d writes in 20 ticks", writes)
			}
			last := make(map[string]string)
			for _, list := range signalled(text) {
				for _, s := range list {
					user, value, _ := strings.Cut(s, " ")
					last[user] = value
				}
			}
			for i := range all {
				if got, want := last[fmt.Sprint("u", i)], fmt.Sprintf(`cursor {"x":19,"i":%d}`, i); got != want {
					t.Fatalf("the last cursor of u%d: got %s, want %s", i, got, want)
				}
			}
		}
	})
}

func (w *world) frames() float64 {
	var m dto.Metric
	if err := w.h.metrics.signalFrames.Write(&m); err != nil {
		w.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestTheLastSignalIsNeverLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		const moves = 600
		for i := range moves { // 120 a second
			if err := ana.sends("cursor", fmt.Sprint(i)); err != nil {
				t.Fatalf("above the rate: %v", err)
			}
			time.Sleep(time.Second / 120)
		}
		stopped := time.Now()
		var all [][]string
		for time.Since(stopped) < 120*time.Millisecond {
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		all = ben.hears()
		if n := len(all); n < 80 || n > 125 {
			t.Errorf("%d events in 5 s, want 20 a second at most", n)
		}
		if last := all[len(all)-1]; !slices.Equal(last, []string{fmt.Sprint("ana cursor ", moves-1)}) {
			t.Errorf("120 ms after the last move ben holds %v", last)
		}
	})
}

func TestSignalsRunOutAndTheServerTellsIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		for _, kind := range []string{"cursor", "selection", "typing"} {
			if err := ana.sends(kind, "1"); err != nil {
				t.Fatal(err)
			}
		}
		ticks(2)
		same(t, ben.hears(), []string{"ana typing 1", "ana selection 1", "ana cursor 1"})
		live(4*time.Second, ana, ben)
		same(t, ben.hears())
		live(2*time.Second, ana, ben)
		same(t, ben.hears(), []string{"ana typing null"})
		live(20*time.Second, ana, ben)
		same(t, ben.hears())
		live(6*time.Second, ana, ben)
		same(t, ben.hears(), []string{"ana cursor null"})
		live(15*time.Minute, ana, ben)
		same(t, ben.hears())
		// The selection lives for as long as its sender is here.
		cleo := w.arrive("cleo", lobby, nil)
		same(t, cleo.hears(), []string{"full", "ana selection 1"})
	})
}

func TestNewcomersAreToldWhatLives(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", lobby, nil)
		ticks(2)
		if err := ana.sends("cursor", `{"x":1}`); err != nil {
			t.Fatal(err)
		}
		live(10*time.Second, ana)
		ben := w.arrive("ben", lobby, nil)
		text, writes := ben.conn.take()
		names := []string{}
		for _, e := range events(text) {
			names = append(names, strings.Fields(e)[0])
		}
		if writes != 1 || !slices.Equal(names, []string{"ready", "snapshot", "signals"}) {
			t.Errorf("%d writes of %v", writes, names)
		}
		if !strings.Contains(text, `"data":{"x":1},"ttlMs":20000}],"full":true}`) {
			t.Errorf("ben was told %s", text)
		}
		// Who comes back is told, even that nothing lives.
		ben.ends(transport.Closed)
		if err := ana.sends("cursor", ""); err != nil {
			t.Fatal(err)
		}
		var id string
		for line := range strings.SplitSeq(text, "\n") {
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				id = v
			}
		}
		ticks(2)
		back := w.arrive("ben", lobby, func(a *arrival) { a.last = parseLastEvent(id) })
		same(t, back.hears(), []string{"full"})
	})
}

// TestNoSignalAfterTheLeave: a signal is told before the leave or not at all, and
// what waited because of the rate goes with its sender.
func TestNoSignalAfterTheLeave(t *testing.T) {
	for name, leave := range map[string]func(*client){
		"left":   func(c *client) { c.st.c.release(false) },
		"closed": func(c *client) { c.st.c.release(true) },
		"cut":    func(c *client) { c.ends(transport.Cut) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
				ticks(4)
				ben.conn.take()
				for i := range 100 {
					ana.sends("cursor", fmt.Sprint(i))
					ana.sends("selection", fmt.Sprint(i))
					time.Sleep(7 * time.Millisecond)
				}
				leave(ana)
				ana.sends("cursor", `"late"`)
				live(40*time.Second, ben)
				text, _ := ben.conn.take()
				ended, left := 0, false
				for _, e := range events(text) {
					switch {
					case strings.HasPrefix(e, "diff ") && strings.Contains(e, `"leave"`):
						left = true
					case strings.HasPrefix(e, "signals "):
						ended += strings.Count(e, `"data":null`)
						if left && ended < 2 {
							t.Errorf("after the leave: %s", e)
						}
						if left && strings.Contains(e, `"ttlMs":3`) {
							t.Errorf("a value after the leave: %s", e)
						}
					}
				}
				if !left || ended != 2 {
					t.Errorf("left: %v; %d signals ended, want 2: %s", left, ended, text)
				}
				if name == "closed" && strings.Contains(text, `"late"`) {
					t.Log("sent in the grace: told")
				}
			})
		})
	}
}

func TestTypingEndsAtOnceWhenTheTabCloses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two, ben := w.arrive("ana", lobby, nil), w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		one.sends("typing", "1")
		two.sends("typing", "2")
		ticks(2)
		ben.conn.take()
		one.st.c.release(true)
		ticks(2)
		// The other tab goes on to type.
		same(t, ben.hears(), []string{"ana typing null"})
		cleo := w.arrive("cleo", lobby, nil)
		same(t, cleo.hears(), []string{"full", "ana typing 2"})
	})
}

func TestTypingIsToldOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		for i := range 500 { // ten seconds of keys
			ana.sends("typing", fmt.Sprintf(`{"n":%d}`, i))
			time.Sleep(20 * time.Millisecond)
		}
		ticks(2)
		if n := len(ben.hears()); n < 9 || n > 11 {
			t.Errorf("%d events in 10 s, want one a second", n)
		}
		for range 500 {
			ana.sends("typing", `true`)
			time.Sleep(20 * time.Millisecond)
		}
		if n := len(ben.hears()); n > 6 {
			t.Errorf("%d events for a value that does not change", n)
		}
		ana.sends("typing", "")
		ticks(3)
		same(t, ben.hears(), []string{"ana typing null"})
	})
}

func TestASlowStreamGetsTheNewestSignals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		ben.conn.stick(true)
		for i := range 180 {
			ana.sends("cursor", fmt.Sprint(i))
			time.Sleep(50 * time.Millisecond)
		}
		ben.conn.stick(false)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		all := ben.hears()
		if len(all) > 3 || !slices.Equal(all[len(all)-1], []string{"ana cursor 179"}) {
			t.Errorf("a slow stream was told %v", all)
		}
	})
}

func TestWhoMaySendSignals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ben := w.arrive("ben", lobby, nil)
		observer := w.arrive("olga", lobby, func(a *arrival) { a.rooms[0].observe = true })
		hidden := w.arrive("hana", lobby, func(a *arrival) {
			id := *a.identity
			id.Hidden = true
			a.identity = &id
		})
		reader := w.arrive("rita", lobby, func(a *arrival) {
			id := *a.identity
			grants, err := auth.NewGrants(map[string][]auth.Capability{"*": {auth.Presence}})
			if err != nil {
				t.Fatal(err)
			}
			id.Grants = grants
			a.identity = &id
		})
		ticks(4)
		ben.conn.take()
		for name, c := range map[string]*client{"an observer": observer, "without the capability": reader} {
			if err := c.sends("cursor", "1"); err == nil || err.Code != rollcall.CodeForbidden {
				t.Errorf("%s: %v, want forbidden", name, err)
			}
		}
		if err := hidden.sends("cursor", "1"); err != nil {
			t.Errorf("hidden: %v, want it to be accepted", err)
		}
		ticks(4)
		if text, _ := ben.conn.take(); text != "" {
			t.Errorf("ben was told %s", text)
		}
	})
}

func TestLimitsOfSignalsLeaveWhatWasThere(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		refused := func(err *rollcall.Error, limit int) {
			t.Helper()
			if err == nil || err.Code != rollcall.CodeTooLarge || err.Limit != limit {
				t.Errorf("got %v, want too_large %d", err, limit)
			}
		}
		for i := range 8 {
			if err := ana.sends(fmt.Sprint("k", i), "1"); err != nil {
				t.Fatal(err)
			}
		}
		refused(ana.sends("k8", "1"), 8)
		refused(ana.sends("k0", `"`+strings.Repeat("x", 1023)+`"`), 1024)
		refused(ana.sends(strings.Repeat("k", 65), "1"), 64)
		ticks(2)
		// One tick or two: the first may run between two of the messages.
		if all := ben.hears(); len(all) > 2 || len(slices.Concat(all...)) != 8 {
			t.Errorf("ben was told %v", all)
		}
		if err := ana.st.c.signal("elsewhere", &rollcall.Signal{Kind: "k"}); err == nil || err.Code != rollcall.CodeGone {
			t.Errorf("a room where it is not: %v", err)
		}
		if ana.conn.isClosed() {
			t.Error("the connection was closed")
		}
	})
}

// TestRosterStandsBeforeSignals: a flood of cursors displaces nobody's join.
func TestRosterStandsBeforeSignals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ben.conn.take()
		for i := range 20 {
			c := w.arrive(fmt.Sprint("u", i), lobby, nil)
			c.sends("cursor", "1")
			ana.sends("cursor", fmt.Sprint(i))
			time.Sleep(20 * time.Millisecond)
		}
		ticks(4)
		text, _ := ben.conn.take()
		here := map[string]bool{"ana": true, "ben": true}
		for _, e := range events(text) {
			kind, data, _ := strings.Cut(e, " ")
			one := "event: " + kind + "\ndata: " + data + "\n\n"
			for _, change := range told(one) {
				here[strings.TrimPrefix(change, "join ")] = true
			}
			for _, list := range signalled(one) {
				for _, s := range list {
					if user, _, _ := strings.Cut(s, " "); !here[user] {
						t.Errorf("a signal of %s, who has yet to join: %s", user, e)
					}
				}
			}
		}
		if len(here) != 22 {
			t.Errorf("%d here, want 22", len(here))
		}
	})
}

// TestSignalsOfAnEarlierStreamFade: they belong to the stream that sent them.
func TestSignalsOfAnEarlierStreamFade(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana, ben := w.arrive("ana", lobby, nil), w.arrive("ben", lobby, nil)
		ticks(4)
		ana.sends("selection", "1")
		ana.sends("cursor", "1")
		ticks(2)
		ben.conn.take()
		ana.ends(transport.Cut)
		live(time.Second, ben)
		ana = w.arrive("ana", lobby, func(a *arrival) { a.last = parseLastEvent(ana.st.resume) })
		ana.sends("cursor", "1")
		ticks(4)
		same(t, ben.hears())
		live(3*time.Second, ana, ben)
		same(t, ben.hears(), []string{"ana selection null"})
	})
}
