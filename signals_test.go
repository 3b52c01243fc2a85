package rollcall_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall"
)

var signalLimits = rollcall.DefaultLimits()

type signalKey struct{ connection, kind string }

// signalWorld is a table beside a naive one, and viewers who look at times.
type signalWorld struct {
	table   *rollcall.Signals
	now     time.Time
	live    map[signalKey]naiveSignal
	ended   map[string]rollcall.Generation // of each connection
	endedAt map[string]time.Time
	holds   map[string]rollcall.Generation
	next    rollcall.Generation
	viewers []*signalViewer
}

type naiveSignal struct {
	data     string
	deadline time.Time // zero: none
}

// signalViewer is what a client holds. It is told at every look, or seldom.
type signalViewer struct {
	seldom bool
	tick   rollcall.SignalTick
	holds  map[signalKey]string
	typed  map[string]time.Time // when it was told last that somebody types
}

func newSignalWorld() *signalWorld {
	w := &signalWorld{
		table: rollcall.NewSignals(&signalLimits), now: startTime, live: make(map[signalKey]naiveSignal),
		ended: make(map[string]rollcall.Generation), holds: make(map[string]rollcall.Generation),
		endedAt: make(map[string]time.Time),
	}
	for i := range 3 {
		w.viewers = append(w.viewers, &signalViewer{seldom: i > 0, holds: make(map[signalKey]string), typed: make(map[string]time.Time)})
	}
	return w
}

var signalKinds = []string{"cursor", "selection", "typing", "a", "b", "c", "d", "e", "f"}

// step makes one random operation.
func (w *signalWorld) step(choose func(n int, what string) int) error {
	connection := fmt.Sprint("c", choose(4, "connection"))
	switch choose(8, "operation") {
	case 0, 1, 2, 3:
		if err := w.set(connection, choose); err != nil {
			return err
		}
	case 4:
		g := w.holds[connection]
		if choose(4, "an older lease") == 0 && g > 1 {
			g--
		}
		if g == 0 {
			return nil
		}
		w.table.End(w.now, rollcall.ConnectionID(connection), g)
		if g == w.holds[connection] && g != 0 {
			w.silence(connection)
			w.ended[connection], w.endedAt[connection], w.holds[connection] = g, w.now, 0
		}
	case 5:
		w.table.Silence(w.now, rollcall.ConnectionID(connection), 0)
		w.silence(connection)
	case 6:
		w.table.Fade(w.now, rollcall.ConnectionID(connection), w.holds[connection], 2*time.Second)
		for k, s := range w.live {
			if until := w.now.Add(2 * time.Second); k.connection == connection && (s.deadline.IsZero() || s.deadline.After(until)) {
				s.deadline = until
				w.live[k] = s
			}
		}
	case 7:
		pass := []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 6 * time.Second, 40 * time.Second}
		if err := w.pass(pass[choose(len(pass), "time")]); err != nil {
			return err
		}
	}
	for _, v := range w.viewers {
		if !v.seldom || choose(5, "looks") == 0 {
			if err := v.look(w); err != nil {
				return err
			}
		}
	}
	return w.check()
}

func (w *signalWorld) set(connection string, choose func(n int, what string) int) error {
	s := rollcall.Signal{
		User: rollcall.UserID("u" + connection), Connection: rollcall.ConnectionID(connection),
		Kind: signalKinds[choose(len(signalKinds), "kind")], TTL: []time.Duration{0, time.Millisecond, 3 * time.Second, time.Hour}[choose(4, "ttl")],
	}
	if choose(6, "late") == 0 && w.ended[connection] != 0 && w.now.Sub(w.endedAt[connection]) < 15*time.Second {
		s.Generation, s.Data = w.ended[connection], json.RawMessage(`"late"`)
		return asErr(w.table.Set(w.now, &s), rollcall.CodeTooLarge)
	}
	if w.holds[connection] == 0 {
		w.next++
		w.holds[connection] = w.next
	}
	s.Generation = w.holds[connection]
	key := signalKey{connection, s.Kind}
	if n := choose(4, "data"); n > 0 {
		s.Data = json.RawMessage(fmt.Sprint(n))
	}
	kinds := 0
	for k := range w.live {
		if k.connection == connection {
			kinds++
		}
	}
	_, there := w.live[key]
	err := w.table.Set(w.now, &s)
	if full := s.Data != nil && !there && kinds == 8; full != (err != nil) {
		return fmt.Errorf("set the %d. kind: %v", kinds+1, err)
	}
	switch {
	case err != nil:
	case s.Data == nil:
		delete(w.live, key)
	default:
		ttl := s.TTL
		switch {
		case ttl > 0:
			ttl = min(max(ttl, time.Second), 10*time.Minute)
		case s.Kind == "typing":
			ttl = 5 * time.Second
		case s.Kind != "selection":
			ttl = 30 * time.Second
		}
		naive := naiveSignal{data: string(s.Data)}
		if ttl > 0 {
			naive.deadline = w.now.Add(ttl)
		}
		w.live[key] = naive
	}
	return nil
}

func asErr(err *rollcall.Error, but rollcall.Code) error {
	if err == nil || err.Code == but {
		return nil
	}
	return err
}

func (w *signalWorld) silence(connection string) {
	for k := range w.live {
		if k.connection == connection {
			delete(w.live, k)
		}
	}
}

func (w *signalWorld) pass(d time.Duration) error {
	until := w.now.Add(d)
	for { // as a server does: whenever something is due
		next, ok := w.table.Next()
		if !ok || next.After(until) {
			break
		}
		if next.After(w.now) {
			w.now = next
		}
		w.table.Expire(w.now)
		if err := w.viewers[0].look(w); err != nil {
			return err
		}
	}
	w.now = until
	w.table.Expire(w.now)
	for k, s := range w.live {
		if !s.deadline.IsZero() && !w.now.Before(s.deadline) {
			delete(w.live, k)
		}
	}
	return nil
}

// look brings a viewer to date.
func (v *signalViewer) look(w *signalWorld) error {
	changed, ok := w.table.Since(w.now, v.tick, nil)
	if !ok {
		changed = w.table.Live(w.now, nil)
		clear(v.holds)
	}
	v.tick = w.table.Tick()
	seen := make(map[signalKey]bool)
	for i := range changed {
		s := &changed[i]
		k := signalKey{string(s.Connection), s.Kind}
		if seen[k] {
			return fmt.Errorf("%v is told twice", k)
		}
		seen[k] = true
		if s.Data == nil {
			delete(v.holds, k)
			continue
		}
		if string(s.Data) == `"late"` {
			return fmt.Errorf("%v is of a lease that has ended", k)
		}
		if s.Kind == "typing" && ok && !v.seldom {
			if last, before := v.typed[k.connection]; before && w.now.Sub(last) < time.Second {
				return fmt.Errorf("told twice in %v that %s types", w.now.Sub(last), k.connection)
			}
			v.typed[k.connection] = w.now
		}
		v.holds[k] = string(s.Data)
	}
	return nil
}

func (w *signalWorld) check() error {
	got := make(map[signalKey]naiveSignal)
	for _, s := range w.table.Live(w.now, nil) {
		naive := naiveSignal{data: string(s.Data)}
		if s.TTL > 0 {
			naive.deadline = w.now.Add(s.TTL)
		}
		got[signalKey{string(s.Connection), s.Kind}] = naive
	}
	want := make(map[signalKey]naiveSignal)
	for k, s := range w.live {
		if _, told := got[k]; k.kind != "typing" || told {
			want[k] = s
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(naiveSignal{}, signalKey{})); diff != "" {
		return fmt.Errorf("what lives (-want +got):\n%s", diff)
	}
	for k, held := range w.viewers[0].holds {
		if s, ok := w.live[k]; !ok || s.data != held && k.kind != "typing" {
			return fmt.Errorf("a viewer holds %v as %s, want %+v", k, held, s)
		}
	}
	for k := range w.live {
		if _, ok := w.viewers[0].holds[k]; !ok && k.kind != "typing" {
			return fmt.Errorf("a viewer lacks %v", k)
		}
	}
	return nil
}

// finish lets everything settle: every viewer then holds what lives, and in the
// end nothing is left.
func (w *signalWorld) finish() error {
	if err := w.pass(time.Second); err != nil {
		return err
	}
	for _, v := range w.viewers {
		if err := v.look(w); err != nil {
			return err
		}
		want := make(map[signalKey]string)
		for k, s := range w.live {
			want[k] = s.data
		}
		if diff := cmp.Diff(want, v.holds, cmp.AllowUnexported(signalKey{})); diff != "" {
			return fmt.Errorf("a viewer holds (-want +got):\n%s", diff)
		}
	}
	for c := range w.holds {
		w.table.End(w.now, rollcall.ConnectionID(c), w.holds[c])
	}
	w.now = w.now.Add(time.Minute)
	w.table.Expire(w.now)
	if !w.table.Empty() {
		return fmt.Errorf("everybody has gone and the table is not empty")
	}
	return nil
}

// TestSignalsAgreeWithOracle makes random operations on a table, and compares
// what lives and what viewers hold with a naive one after each.
func TestSignalsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSignalWorld()
		c := rapidChoices{t}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			if err := w.step(c.Choose); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzSignals is the same with decisions decoded from bytes.
func FuzzSignals(f *testing.F) {
	f.Add([]byte("a cursor, a selection, somebody types, and all of them go"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		w := newSignalWorld()
		c := &fuzzChoices{data}
		for len(c.data) > 0 {
			if err := w.step(c.Choose); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhoFellFarBehindIsToldWhatLives(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	set := func(c, data string) {
		s := rollcall.Signal{User: "u", Connection: rollcall.ConnectionID(c), Kind: "cursor"}
		if data != "" {
			s.Data = json.RawMessage(data)
		}
		if err := table.Set(startTime, &s); err != nil {
			t.Fatal(err)
		}
	}
	set("stays", "1")
	at := table.Tick()
	for i := range 1000 {
		set(fmt.Sprint(i), "1")
		set(fmt.Sprint(i), "")
	}
	if _, ok := table.Since(startTime, at, nil); ok {
		t.Error("a difference over 1000 ends is known: the memory of ends has no bound")
	}
	if got := table.Live(startTime, nil); len(got) != 1 || got[0].Connection != "stays" {
		t.Errorf("live: %v", got)
	}
}

// An unchanged value lives on in silence, for as long as viewers have half of
// its time.
func TestUnchangedSignalsAreRenewedInSilence(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	s := rollcall.Signal{User: "u", Connection: "c", Kind: "cursor", Data: json.RawMessage("1")}
	now, tick, told := startTime, rollcall.SignalTick(0), 0
	for range 600 {
		if err := table.Set(now, &s); err != nil {
			t.Fatal(err)
		}
		if table.Tick() != tick {
			tick = table.Tick()
			told++
		}
		now = now.Add(100 * time.Millisecond)
		table.Expire(now)
	}
	if told < 4 || told > 5 {
		t.Errorf("told %d times in a minute, want once every 15 s", told)
	}
	if got := table.Live(now, nil); len(got) != 1 || got[0].TTL < 29*time.Second {
		t.Errorf("live: %+v", got)
	}
}

// What fades and is set again has never been away.
func TestFadedSignalsThatAreSetAgainGoOnInSilence(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	s := rollcall.Signal{User: "u", Connection: "c", Kind: rollcall.SignalSelection, Data: json.RawMessage("1")}
	for at := range 3 {
		now := startTime.Add(time.Duration(at) * time.Second)
		if err := table.Set(now, &s); err != nil {
			t.Fatal(err)
		}
		table.Fade(now, "c", 0, 2*time.Second)
	}
	table.Set(startTime.Add(3*time.Second), &s)
	table.Expire(startTime.Add(time.Hour))
	if got := table.Live(startTime.Add(time.Hour), nil); table.Tick() != 1 || len(got) != 1 || got[0].TTL != 0 {
		t.Errorf("told %d times; live: %+v", table.Tick(), got)
	}
}

// Who has come back under a newer lease is not silenced by the end of a stream from
// before, and what was sent under the lease from before comes too late.
func TestSignalsOfANewerLeaseAreNotSilenced(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	set := func(g rollcall.Generation, data string) {
		s := rollcall.Signal{User: "u", Connection: "c", Kind: rollcall.SignalSelection, Generation: g, Data: json.RawMessage(data)}
		if err := table.Set(startTime, &s); err != nil {
			t.Fatal(err)
		}
	}
	want := func(data string) {
		t.Helper()
		var got string
		for _, s := range table.Live(startTime, nil) {
			got += string(s.Data)
		}
		if got != data {
			t.Errorf("live: %s, want %s", got, data)
		}
	}
	set(1, "1")
	table.Fade(startTime, "c", 2, 2*time.Second)
	set(1, "2")
	table.Silence(startTime, "c", 1)
	want("1")
	table.Silence(startTime, "c", 2)
	want("")
	set(2, "3")
	if table.Fade(startTime, "c", 1, 2*time.Second) {
		t.Error("an older return has faded what is newer")
	}
	table.Expire(startTime.Add(time.Minute))
	want("3")
	table.Silence(startTime, "c", 0)
	want("")
}

// Parts that are told one after the other, while everything goes on changing, tell
// all that had changed when the first was made, and nobody twice.
func TestPartsOfSignalsTellEverybodyInTurn(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	now := time.Unix(1000, 0)
	set := func(i, value int) {
		s := rollcall.Signal{User: "u", Connection: rollcall.ConnectionID(fmt.Sprint("c", i)), Kind: "cursor", Generation: 1}
		if s.Data = nil; value >= 0 {
			s.Data = json.RawMessage(fmt.Sprint(value))
		}
		if err := table.Set(now, &s); err != nil {
			t.Fatal(err)
		}
	}
	const n = 40
	for i := range n {
		set(i, 0)
	}
	from := table.Tick()
	for i := range n {
		set(i, 1)
	}
	set(7, -1)
	to := table.Tick()
	var place rollcall.SignalPlace
	told := make(map[rollcall.ConnectionID]string)
	for parts := 1; ; parts++ {
		part, next, ok := table.Part(now, from, place, 400, nil, nil)
		if !ok || len(part) == 0 || len(part) > 5 {
			t.Fatalf("part %d: %d signals, %v", parts, len(part), ok)
		}
		for _, s := range part {
			if _, twice := told[s.Connection]; twice {
				t.Errorf("%s is told twice", s.Connection)
			}
			told[s.Connection] = string(s.Data)
		}
		for i := range 5 { // the first ones never rest
			set(i, 1+parts)
		}
		if place = next; place == 0 {
			break
		}
	}
	if len(told) != n || told["c7"] != "" || told["c30"] != "1" {
		t.Errorf("told of %d: %v", len(told), told)
	}
	rest, place, ok := table.Part(now, to, 0, 1<<20, nil, nil)
	if !ok || place != 0 || len(rest) != 5 {
		t.Errorf("after all parts: %d signals, place %d, %v", len(rest), place, ok)
	}
	if one, place, _ := table.Part(now, from, 0, 1, nil, nil); len(one) != 1 || place == 0 {
		t.Errorf("a part without room: %d signals, place %d; want one", len(one), place)
	}
	if _, _, ok := table.Part(now, to+1<<20, 0, 400, nil, nil); ok {
		t.Error("what changed since a tick that never was")
	}
}

// Parts of all that lives leave out what has ended and what has yet to be told; with
// what changed since the first they tell everything.
func TestLivePartsTellAllThatLives(t *testing.T) {
	table := rollcall.NewSignals(&signalLimits)
	now := time.Unix(1000, 0)
	set := func(user string, value string, ttl time.Duration) {
		s := rollcall.Signal{User: rollcall.UserID(user), Connection: rollcall.ConnectionID(user), Kind: "cursor", Generation: 1, TTL: ttl}
		if value != "" {
			s.Data = json.RawMessage(value)
		}
		if err := table.Set(now, &s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		set(fmt.Sprint("u", i), "1", time.Minute)
	}
	set("u3", "", 0)                // has ended
	set("u14", "2", time.Second)    // has run out when its turn comes
	set("unseen", "1", time.Minute) // of nobody whom the viewer sees
	sees := func(u rollcall.UserID) bool { return u != "unseen" }
	told := make(map[rollcall.UserID]string)
	from := table.Tick()
	part, place := table.LivePart(now, 0, 400, sees, nil)
	now = now.Add(2 * time.Second)
	set("u0", "3", time.Minute) // told already
	set("u9", "3", time.Minute) // not yet
	for {
		for _, s := range part {
			if _, twice := told[s.User]; twice {
				t.Errorf("%s is told twice", s.User)
			}
			told[s.User] = string(s.Data)
		}
		if place == 0 {
			break
		}
		part, place = table.LivePart(now, place, 400, sees, nil)
		if len(part) == 0 || len(part) > 5 {
			t.Fatalf("%d signals in a part", len(part))
		}
	}
	if len(told) != 18 || told["u3"] != "" || told["u14"] != "" || told["u0"] != "1" || told["u9"] != "3" {
		t.Errorf("told of %d: %v", len(told), told)
	}
	rest, _ := table.Since(now, from, nil)
	if len(rest) != 2 {
		t.Errorf("%d have changed since, want 2", len(rest))
	}
	if all, place := table.LivePart(now, 0, 1<<20, nil, nil); len(all) != 19 || place != 0 {
		t.Errorf("%d live, want 19", len(all))
	}
}
