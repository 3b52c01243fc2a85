package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/wire"
)

var lobby = []rollcall.RoomID{"lobby"}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// live answers beats for d, a second at a time.
func live(d time.Duration, clients ...*client) {
	for range int(d / time.Second) {
		time.Sleep(time.Second)
		for _, c := range clients {
			c.answer()
		}
	}
	synctest.Wait()
}

func TestWhoAnswersStays(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", lobby, nil)
		ben := w.arrive("ben", lobby, nil)
		live(30*time.Minute, ana, ben)
		text, _ := ben.conn.take()
		if got := told(text); len(got) != 0 {
			t.Errorf("ben was told %v, want nothing", got)
		}
		if got := w.here("lobby"); len(got) != 2 {
			t.Errorf("here: %v, want both", got)
		}
	})
}

func TestWhoStopsAnsweringIsGoneWithinALease(t *testing.T) {
	for seed := range 20 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				ana := w.arrive("ana", lobby, nil)
				ben := w.arrive("ben", lobby, nil)
				live(time.Minute+time.Duration(seed)*time.Second, ana, ben)
				ana.st.c.mu.Lock()
				last := ana.st.c.evidence
				ana.st.c.mu.Unlock()
				for slices.Contains(w.here("lobby"), "ana") {
					time.Sleep(100 * time.Millisecond)
					ben.answer()
					if w.h.clock.now().sub(last) > 40*time.Second {
						t.Fatal("ana is a ghost")
					}
				}
				after := w.h.clock.now().sub(last)
				if after < 30*time.Second || after > 31*time.Second {
					t.Errorf("gone %v after the last proof of life, want 30 to 31 s", after)
				}
				synctest.Wait()
				text, _ := ben.conn.take()
				if got := told(text); !slices.Equal(got, []string{"leave ana expired"}) {
					t.Errorf("ben was told %v", got)
				}
				time.Sleep(10 * time.Second)
				ben.answer()
				if !ana.conn.isClosed() {
					t.Error("the silent stream is still open")
				}
			})
		})
	}
}

// The beats of a client that answers every third one only still come in time.
func TestTwoLostBeatsDropNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", lobby, nil)
		ben := w.arrive("ben", lobby, nil)
		var answered, beat instant
		beats := 0
		for range 3000 {
			time.Sleep(100 * time.Millisecond)
			ben.answer()
			ana.st.c.mu.Lock()
			newest := ana.st.beats[0]
			ana.st.c.mu.Unlock()
			if newest != beat {
				beat = newest
				if beats++; beats%3 == 0 {
					ana.answer()
					answered = newest
				}
			}
		}
		if answered == 0 {
			t.Fatal("no beat was sent")
		}
		text, _ := ben.conn.take()
		if got := told(text); len(got) != 0 {
			t.Errorf("ben was told %v, want nothing", got)
		}
	})
}

func TestAPongOfOldProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", lobby, nil)
		time.Sleep(10 * time.Second)
		ana.st.c.mu.Lock()
		first := ana.st.beats[0]
		ana.st.c.mu.Unlock()
		live(50*time.Second, ana)
		c := ana.st.c
		c.mu.Lock()
		before := c.evidence
		for range 1000 {
			ana.st.answeredLocked(first)
			ana.st.answeredLocked(12345)
			ana.st.answeredLocked(0)
		}
		after := c.evidence
		c.mu.Unlock()
		if after != before {
			t.Errorf("evidence moved from %d to %d", before, after)
		}
	})
}

func TestAPlainStreamProvesItselfByComingBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ben := w.arrive("ben", lobby, nil)
		plain := func(resume string) *client {
			return w.arrive("ana", lobby, func(a *arrival) {
				a.plain = true
				a.last = parseLastEvent(resume)
			})
		}
		ana := plain("")
		id := ana.st.c.id
		for range 20 {
			began := time.Now()
			for !ana.conn.isClosed() {
				time.Sleep(100 * time.Millisecond)
				ben.answer()
			}
			if d := time.Since(began); d < 13*time.Second || d > 20*time.Second {
				t.Fatalf("rotated after %v, want 45 to 65 %% of 30 s", d)
			}
			text, _ := ana.conn.take()
			all := events(text)
			if last := all[len(all)-1]; !strings.HasPrefix(last, `bye {"reason":"rotate"`) {
				t.Fatalf("last event: %s", last)
			}
			ana.ends(transport.Local)
			var lastID string
			for line := range strings.SplitSeq(text, "\n") {
				if v, ok := strings.CutPrefix(line, "id: "); ok {
					lastID = v
				}
			}
			time.Sleep(300 * time.Millisecond)
			ana = plain(lastID)
			if ana.st.c.id != id {
				t.Fatal("came back as another connection")
			}
			text, _ = ana.conn.take()
			if all := events(text); len(all) != 3 || !strings.HasPrefix(all[1], "resumed ") || !strings.HasSuffix(all[2], `"signals":[],"full":true}`) {
				t.Fatalf("came back with %q to %v, want ready, resumed, and that no signals live", lastID, all)
			}
			ana.conn.got.WriteString("id: " + lastID + "\n\n")
		}
		synctest.Wait()
		text, _ := ben.conn.take()
		if got := told(text); !slices.Equal(got, []string{"join ana"}) {
			t.Errorf("ben was told %v", got)
		}
	})
}

func TestThreeWaysToGo(t *testing.T) {
	for _, tt := range []struct {
		name     string
		go_      func(c *client)
		from, to time.Duration
		reason   string
	}{
		{"left", func(c *client) { c.st.c.release(false) }, 0, 100 * time.Millisecond, "left"},
		{"closed by beacon", func(c *client) { c.st.c.release(true) }, time.Second, 1100 * time.Millisecond, "closed"},
		{"closed by the end of the stream", func(c *client) { c.ends(transport.Closed) }, time.Second, 1100 * time.Millisecond, "closed"},
		{"cut", func(c *client) { c.ends(transport.Cut) }, 29 * time.Second, 31 * time.Second, "expired"},
		{"sent away, and the client closes too", func(c *client) {
			c.st.c.mu.Lock()
			c.st.byeLocked(wire.ByeDraining, time.Second)
			c.st.c.mu.Unlock()
			c.ends(transport.Closed)
		}, 29 * time.Second, 31 * time.Second, "expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				ben := w.arrive("ben", lobby, nil)
				ana := w.arrive("ana", lobby, nil)
				time.Sleep(2 * tickEvery) // or who leaves at once was never seen
				began := time.Now()
				tt.go_(ana)
				for slices.Contains(w.here("lobby"), "ana") {
					time.Sleep(10 * time.Millisecond)
					ben.answer()
				}
				if d := time.Since(began); d < tt.from || d > tt.to {
					t.Errorf("gone after %v, want %v to %v", d, tt.from, tt.to)
				}
				synctest.Wait()
				time.Sleep(tickEvery)
				synctest.Wait()
				text, _ := ben.conn.take()
				if got, want := told(text), []string{"join ana", "leave ana " + tt.reason}; !slices.Equal(got, want) {
					t.Errorf("ben was told %v, want %v", got, want)
				}
			})
		})
	}
}

func TestACrowdThatGoesIsAProxy(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var crowd []*client
		for i := range 60 {
			crowd = append(crowd, w.arrive(fmt.Sprint("u", i), lobby, nil))
		}
		ben := w.arrive("ben", lobby, nil)
		live(20*time.Second, append(crowd, ben)...)
		ben.conn.take()
		for _, c := range crowd {
			c.ends(transport.Closed)
			time.Sleep(5 * time.Millisecond)
		}
		live(15*time.Second, ben)
		for i := range crowd {
			crowd[i] = w.arrive(fmt.Sprint("u", i), lobby, func(a *arrival) {
				a.last = parseLastEvent(crowd[i].st.resume)
			})
		}
		live(time.Minute, append(crowd, ben)...)
		text, _ := ben.conn.take()
		if got := told(text); len(got) != 0 {
			t.Errorf("ben was told %v, want nothing", got)
		}
	})
}

func TestAQuietRoomSendsNoRosterFrames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var all []*client
		for i := range 50 {
			all = append(all, w.arrive(fmt.Sprint("u", i), lobby, nil))
		}
		live(5*time.Second, all...)
		for _, c := range all {
			c.conn.take()
		}
		live(100*time.Second, all...)
		for _, c := range all {
			text, writes := c.conn.take()
			got := events(text)
			if len(got) < 10 || len(got) > 12 || writes != len(got) {
				t.Fatalf("%d events in %d writes, want 10 to 12 beats", len(got), writes)
			}
			for _, e := range got {
				if !strings.HasPrefix(e, "beat ") {
					t.Fatalf("got %s", e)
				}
			}
		}
	})
}

func TestOneWriteAStreamAndTick(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var rooms []rollcall.RoomID
		for i := range 20 {
			rooms = append(rooms, rollcall.RoomID(fmt.Sprint("r", i)))
		}
		ben := w.arrive("ben", rooms, nil)
		live(2*time.Second, ben)
		ben.conn.take()
		for i := range 10 {
			w.arrive(fmt.Sprint("u", i), rooms, nil)
		}
		time.Sleep(2 * tickEvery)
		synctest.Wait()
		text, writes := ben.conn.take()
		if got := len(told(text)); got != 200 {
			t.Errorf("%d joins, want 200", got)
		}
		if writes > 3 {
			t.Errorf("%d writes for one burst, want 1 to 3", writes)
		}
	})
}

func TestASlowReaderGetsTheNewestState(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ben := w.arrive("ben", lobby, nil)
		ana := w.arrive("ana", lobby, nil)
		live(2*time.Second, ana, ben)
		ben.conn.take()
		ben.conn.stick(true)
		for i := range 300 {
			c := ana.st.c
			c.op.Lock()
			_, err := c.set(t.Context(), "lobby", change{data: fmt.Appendf(nil, `{"n":%d}`, i)})
			c.op.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		ben.conn.stick(false)
		time.Sleep(time.Second)
		synctest.Wait()
		text, _ := ben.conn.take()
		if got := len(told(text)); got > 3 {
			t.Errorf("%d updates were kept for a slow reader, want at most 3", got)
		}
		if !strings.Contains(text, `{"n":299}`) {
			t.Errorf("the newest state did not arrive: %s", text)
		}
	})
}

func TestAReaderThatTakesNothingIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ben := w.arrive("ben", lobby, nil)
		ben.conn.stick(true)
		ana := w.arrive("ana", lobby, nil)
		live(12*time.Second, ana)
		if !ben.conn.isClosed() {
			t.Error("still open")
		}
		ben.ends(transport.Local)
		if got := w.here("lobby"); len(got) != 2 {
			t.Errorf("here: %v; the lease of a slow reader runs on", got)
		}
	})
}

func TestASuspendedNodeHoldsNoSilenceAgainstAnybody(t *testing.T) {
	var c hubClock
	began := time.Now()
	c.start(began, 2*time.Second)
	at := func(d time.Duration) instant { return c.at(began.Add(d)) }
	for d := time.Duration(0); d <= time.Second; d += 250 * time.Millisecond {
		c.observe(at(d))
	}
	heard := at(time.Second)
	if got := c.clamped(at(61 * time.Second)).sub(c.clamped(heard)); got != 2*time.Second {
		t.Errorf("before the gap is noticed: silent for %v, want 2 s", got)
	}
	if c.fresh(at(61*time.Second), heard) {
		t.Error("what arrives in a gap was taken for a sign of this moment")
	}
	if !c.observe(at(61 * time.Second)) {
		t.Error("the gap was not noticed")
	}
	if got := c.clamped(at(61 * time.Second)).sub(c.clamped(heard)); got != 2*time.Second {
		t.Errorf("silent for %v, want 2 s", got)
	}
	if c.fresh(at(61*time.Second), heard) {
		t.Error("a stream that has answered nothing since the gap is taken for fresh")
	}
	if !c.fresh(at(62*time.Second), at(61*time.Second)) {
		t.Error("a stream that answered a beat from after the gap is not fresh")
	}
	c.observe(at(62 * time.Second))
	if got := c.clamped(at(62 * time.Second)).sub(c.clamped(heard)); got != 3*time.Second {
		t.Errorf("a second later: silent for %v, want 3 s", got)
	}
}

func TestTheNumberIsToldAtMostOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		badge := w.arrive("badge", lobby, func(a *arrival) { a.rooms[0].counts, a.rooms[0].observe = true, true })
		var all []*client
		for i := range 100 {
			all = append(all, w.arrive(fmt.Sprint("u", i), lobby, nil))
			time.Sleep(50 * time.Millisecond)
		}
		live(3*time.Second, append(all, badge)...)
		text, _ := badge.conn.take()
		got := events(text)
		if !strings.HasPrefix(got[1], `snapshot {"room":"lobby"`) || strings.Contains(text, `"members"`) {
			t.Errorf("began with %v", got[:2])
		}
		counts := 0
		for _, e := range got[2:] {
			if strings.HasPrefix(e, "count ") {
				counts++
			}
		}
		if counts < 5 || counts > 8 {
			t.Errorf("%d counts in 8 s of arrivals, want one a second", counts)
		}
		if last := got[len(got)-1]; !strings.Contains(last, `"count":100`) {
			t.Errorf("the last is %s", last)
		}
		if got := w.here("lobby"); len(got) != 100 {
			t.Errorf("%d here; an observer is not", len(got))
		}
	})
}

func TestAProvenRequestRenewsALeaseWithoutAStream(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.h.newConnection("c1", auth.GuestIdentity("ana"))
		w.h.connections.add(c)
		c.op.Lock()
		_, err := c.grant(t.Context(), entry{room: "lobby", ttl: 5 * time.Second})
		c.op.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(4 * time.Second)
			c.mu.Lock()
			c.hearLocked(w.h.clock.now())
			c.mu.Unlock()
		}
		if got := w.here("lobby"); len(got) != 1 {
			t.Errorf("here: %v, want ana", got)
		}
		time.Sleep(6 * time.Second)
		if got := w.here("lobby"); len(got) != 0 {
			t.Errorf("here: %v a lease after the last request", got)
		}
	})
}

func TestALargeRoomTellsANumberASecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ben := w.arrive("ben", lobby, nil)
		var all []*client
		for i := range 400 {
			all = append(all, w.arrive(fmt.Sprintf("u%03d", i), lobby, nil))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		text, _ := ben.conn.take()
		got := events(text)
		kinds := make(map[string]int)
		var last string
		for _, e := range got {
			kind, _, _ := strings.Cut(e, " ")
			kinds[kind]++
			if kind == "mode" || kind == "count" {
				last = e
			}
		}
		if kinds["mode"] != 1 || kinds["count"] < 1 || kinds["count"] > 5 {
			t.Errorf("ben was told %v; want one mode and at most one count a second", kinds)
		}
		if !strings.Contains(last, `"count":401`) {
			t.Errorf("the last number: %s", last)
		}
		if joins := len(told(text)); joins < 190 || joins > 201 {
			t.Errorf("%d names, want those of the small room", joins)
		}
		late := w.arrive("late", lobby, nil)
		text, _ = late.conn.take()
		if !strings.Contains(text, `"mode":"counts","count":402,"sample":[{"user":"ben"`) {
			t.Errorf("a newcomer was told %s", text)
		}
		for _, c := range all[:270] {
			c.st.c.release(false)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		text, _ = late.conn.take()
		if !strings.Contains(text, `"mode":"full","count":132`) {
			t.Errorf("below the threshold: %.200s", text)
		}
		after := text[strings.LastIndex(text, "event: mode"):]
		if n := strings.Count(after[:strings.Index(after, "\n\n")], `"user":`); n != 132 {
			t.Errorf("the mode names %d members, want 132", n)
		}
		if left := told(text); len(left) != 0 {
			t.Errorf("told %v; who left before the names came back is not named", left)
		}
	})
}
