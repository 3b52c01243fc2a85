package rollcall

import (
	"bytes"
	"encoding/json"
	"time"
)

// The kinds of signals that have a meaning of their own; any other may be sent.
const (
	SignalCursor    = "cursor"
	SignalSelection = "selection"
	SignalTyping    = "typing"
)

// Signal is the newest value of one kind that a connection has sent in a room,
// such as its cursor. It is no part of the roster.
type Signal struct {
	User       UserID
	Connection ConnectionID
	Kind       string
	Data       json.RawMessage // compact; nil: it has ended
	DocVersion json.RawMessage // as the sender gave it; nil if it gave none
	// TTL is how long the value lives. In [Signals.Set] 0 is the default of the
	// kind; in what a table tells it is the time left, 0 until the lease ends.
	TTL time.Duration
	// Generation of the sender's lease; 0 if it is not known. Nobody is told.
	Generation Generation
}

// SignalPlace is where a value stands among all values of one [Signals], in the
// order in which each was first set; 0 is before all.
type SignalPlace uint64

// SignalTick is a position in the changes of one [Signals].
type SignalTick uint64

// Of what has ended a table remembers this much, so that viewers who are behind
// hear of it; who is further behind is told everything that lives.
const (
	signalsEndedKept = 256
	signalsEndedFor  = 15 * time.Second
)

// typingEvery is the least time between two tellings that somebody types.
const typingEvery = time.Second

// Signals is the table of the signals of one room: latest wins per connection
// and kind. There is no log: a viewer is owed nothing but the tick it was sent,
// and [Signals.Since] gives the newest of what changed after it.
type Signals struct {
	limits  *Limits
	tick    SignalTick
	floor   SignalTick // the oldest tick from which the difference is known
	senders map[ConnectionID]*signalSender
	recent  signal        // ring, the most recently told first
	all     signal        // ring, in the order of their places
	places  SignalPlace   // of the last value that was made
	ended   []endedSignal // oldest first
	gone    []goneSender  // oldest first
	due     time.Time     // no live value runs out, and none waits, before this; zero: never
}

// signalSender is a connection that has sent signals, or whose lease has ended.
type signalSender struct {
	id         ConnectionID
	user       UserID
	generation Generation // of the newest value
	ended      Generation // what this lease or an older one sends is too late
	typed      time.Time  // when its typing was last told
	values     []*signal  // with those that have ended and are remembered
}

// signal is one kind of one sender.
type signal struct {
	from       *signalSender
	kind       string
	data       json.RawMessage // nil: ended
	docVersion json.RawMessage
	deadline   time.Time  // zero: when the lease ends
	told       time.Time  // the deadline that viewers were told
	tick       SignalTick // of the last telling; 0: never told
	off        bool       // it was told as ended
	waits      time.Time  // when the present value is told; zero: it has been
	prev, next *signal

	place         SignalPlace // among all values of the table
	before, after *signal
}

// endedSignal remembers the end of a value, unless it was set again.
type endedSignal struct {
	value *signal
	tick  SignalTick
	at    time.Time
}

// goneSender remembers the end of a lease.
type goneSender struct {
	from       *signalSender
	generation Generation
	at         time.Time
}

// NewSignals makes an empty table.
func NewSignals(limits *Limits) *Signals {
	t := &Signals{limits: limits, senders: make(map[ConnectionID]*signalSender)}
	t.recent.prev, t.recent.next = &t.recent, &t.recent
	t.all.before, t.all.after = &t.all, &t.all
	return t
}

// Tick is the position of the last change.
func (t *Signals) Tick() SignalTick { return t.tick }

// signalTTL is how long a value lives: 0 is until the lease ends.
func (t *Signals) signalTTL(kind string, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(max(asked, t.limits.MinSignalTTL), t.limits.MaxSignalTTL)
	}
	switch kind {
	case SignalSelection:
		return 0
	case SignalTyping:
		return 5 * time.Second
	}
	return 30 * time.Second
}

// CheckSignal refuses what no table takes, whatever is in it.
func (l *Limits) CheckSignal(s *Signal) *Error {
	switch {
	case s.Kind == "":
		return Errorf(CodeBadRequest, "kind is required")
	case len(s.Kind) > l.SignalKind:
		return LimitError(CodeTooLarge, l.SignalKind, "kind is larger than %d bytes", l.SignalKind)
	case len(s.Data) > l.Signal:
		return LimitError(CodeTooLarge, l.Signal, "data is larger than %d bytes", l.Signal)
	}
	return nil
}

// Check tells whether the sender may have one more value, if s is one.
func (t *Signals) Check(s *Signal) *Error {
	from := t.senders[s.Connection]
	if from == nil || s.Data == nil {
		return nil
	}
	live := 0
	for _, v := range from.values {
		if v.data == nil {
			continue
		}
		if v.kind == s.Kind {
			return nil
		}
		live++
	}
	if live >= t.limits.SignalKinds {
		return LimitError(CodeTooLarge, t.limits.SignalKinds, "a connection has at most %d kinds of signals in a room", t.limits.SignalKinds)
	}
	return nil
}

// Set takes the newest value of a kind; a nil Data ends it. What is sent under a
// lease that has ended, or that was replaced, does nothing. An unchanged value
// lives on without anybody being told, until viewers have half of its time left.
func (t *Signals) Set(now time.Time, s *Signal) *Error {
	if err := t.Check(s); err != nil {
		return err
	}
	from := t.senders[s.Connection]
	if from != nil && s.Generation != 0 && (s.Generation <= from.ended || s.Generation < from.generation) {
		return nil
	}
	if from == nil {
		if s.Data == nil {
			return nil
		}
		from = &signalSender{id: s.Connection}
		t.senders[s.Connection] = from
	}
	from.user = s.User
	from.generation = max(from.generation, s.Generation)
	v := from.find(s.Kind)
	if s.Data == nil {
		if v != nil {
			t.end(now, v)
		}
		return nil
	}
	if v == nil {
		v = &signal{from: from, kind: s.Kind}
		from.values = append(from.values, v)
		t.keep(v)
	}
	t.put(now, v, s)
	return nil
}

func (t *Signals) put(now time.Time, v *signal, s *Signal) {
	ttl := t.signalTTL(s.Kind, s.TTL)
	var deadline time.Time
	if ttl > 0 {
		deadline = now.Add(ttl)
		t.dueAt(deadline)
	}
	same := v.data != nil && bytes.Equal(v.data, s.Data) && bytes.Equal(v.docVersion, s.DocVersion) &&
		v.told.IsZero() == deadline.IsZero()
	v.data, v.docVersion, v.deadline = s.Data, s.DocVersion, deadline
	switch {
	case !v.waits.IsZero(): // told in its turn
	case same && (deadline.IsZero() || v.told.Sub(now) >= ttl/2):
	case v.kind == SignalTyping && !v.from.typed.IsZero() && now.Sub(v.from.typed) < typingEvery:
		v.waits = v.from.typed.Add(typingEvery)
		t.dueAt(v.waits)
	default:
		t.tell(now, v)
	}
}

// tell makes the present value of v the newest change.
func (t *Signals) tell(now time.Time, v *signal) {
	t.tick++
	v.tick, v.told, v.waits, v.off = t.tick, v.deadline, time.Time{}, v.data == nil
	if v.kind == SignalTyping {
		v.from.typed = now
	}
	v.unlink()
	v.prev, v.next = &t.recent, t.recent.next
	v.prev.next, v.next.prev = v, v
}

// end ends a value. One that nobody was told of is forgotten.
func (t *Signals) end(now time.Time, v *signal) {
	if v.data == nil {
		return
	}
	v.data, v.docVersion, v.deadline, v.waits = nil, nil, time.Time{}, time.Time{}
	if v.tick == 0 {
		t.drop(v)
		return
	}
	if v.off {
		return // viewers know it as ended still
	}
	t.tell(now, v)
	t.ended = append(t.ended, endedSignal{v, v.tick, now})
	if len(t.ended) > signalsEndedKept {
		t.forgetEnded(len(t.ended) - signalsEndedKept/2)
	}
}

// forgetEnded forgets the n oldest ends.
func (t *Signals) forgetEnded(n int) {
	for _, e := range t.ended[:n] {
		v := e.value
		if v.tick != e.tick {
			continue // set again, or ended again
		}
		t.floor = max(t.floor, e.tick)
		v.unlink()
		v.tick = 0
		if v.data == nil {
			t.drop(v)
			t.forgetSender(v.from)
		}
	}
	t.ended = append(t.ended[:0], t.ended[n:]...)
}

func (t *Signals) forgetSender(from *signalSender) {
	if len(from.values) == 0 && from.ended == 0 && t.senders[from.id] == from {
		delete(t.senders, from.id)
	}
}

// End ends every value of a connection whose lease of this generation has ended,
// and remembers it for a while: what is still on its way comes too late.
func (t *Signals) End(now time.Time, c ConnectionID, g Generation) {
	from := t.senders[c]
	if from == nil {
		from = &signalSender{id: c}
		t.senders[c] = from
	}
	if g != 0 && from.generation > g || g < from.ended {
		return // it has a newer lease
	}
	from.ended = max(from.ended, g) // or it would be forgotten
	t.Silence(now, c, g)
	if g == 0 {
		return
	}
	t.gone = append(t.gone, goneSender{from, g, now})
	if len(t.gone) > signalsEndedKept {
		t.forgetGone(len(t.gone) - signalsEndedKept/2)
	}
}

func (t *Signals) forgetGone(n int) {
	for _, g := range t.gone[:n] {
		if g.from.ended == g.generation {
			g.from.ended = 0
			t.forgetSender(g.from)
		}
	}
	t.gone = append(t.gone[:0], t.gone[n:]...)
}

// Silence ends every value of a connection, which may go on to send others; nothing if
// it has had a lease since that of this generation, 0 being any.
func (t *Signals) Silence(now time.Time, c ConnectionID, g Generation) {
	from := t.senders[c]
	if from == nil || g != 0 && from.generation > g {
		return
	}
	for i := len(from.values) - 1; i >= 0; i-- {
		if i < len(from.values) { // an end may forget several
			t.end(now, from.values[i])
		}
	}
	t.forgetSender(from)
}

// Fade ends the values of a connection, which has come back under a lease of this
// generation, after a while, unless they are set again. It reports false, and does
// nothing, if the connection has had a newer lease, 0 being any.
func (t *Signals) Fade(now time.Time, c ConnectionID, g Generation, after time.Duration) bool {
	from := t.senders[c]
	if from == nil {
		return true
	}
	if g != 0 && g < from.generation {
		return false
	}
	from.generation = max(from.generation, g)
	deadline := now.Add(after)
	for _, v := range from.values {
		if v.data != nil && (v.deadline.IsZero() || v.deadline.After(deadline)) {
			v.deadline = deadline
			t.dueAt(deadline)
		}
	}
	return true
}

// Expire ends what has run out, tells what has waited for its turn, and forgets
// what is not to be remembered any more.
func (t *Signals) Expire(now time.Time) {
	n := 0
	for n < len(t.ended) && now.Sub(t.ended[n].at) >= signalsEndedFor {
		n++
	}
	t.forgetEnded(n)
	n = 0
	for n < len(t.gone) && now.Sub(t.gone[n].at) >= signalsEndedFor {
		n++
	}
	t.forgetGone(n)
	if t.due.IsZero() || now.Before(t.due) {
		return
	}
	t.due = time.Time{}
	for _, from := range t.senders {
		for i := len(from.values) - 1; i >= 0; i-- {
			if i >= len(from.values) || from.values[i].data == nil {
				continue // an end may forget several others
			}
			v := from.values[i]
			if !v.deadline.IsZero() && !now.Before(v.deadline) {
				t.end(now, v)
				continue
			}
			if !v.waits.IsZero() && !now.Before(v.waits) {
				t.tell(now, v)
			}
			t.dueAt(v.deadline)
			t.dueAt(v.waits)
		}
		t.forgetSender(from)
	}
}

func (t *Signals) dueAt(at time.Time) {
	if !at.IsZero() && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// Next is when Expire is to be called again; ok is false if never.
func (t *Signals) Next() (at time.Time, ok bool) {
	at = t.due
	sooner := func(other time.Time) {
		if at.IsZero() || other.Before(at) {
			at = other
		}
	}
	if len(t.ended) > 0 {
		sooner(t.ended[0].at.Add(signalsEndedFor))
	}
	if len(t.gone) > 0 {
		sooner(t.gone[0].at.Add(signalsEndedFor))
	}
	return at, !at.IsZero()
}

// Since appends the newest value of everything that changed after tick, the most
// recent first. It reports false if that is not known: then a viewer is told all
// that lives.
func (t *Signals) Since(now time.Time, tick SignalTick, to []Signal) ([]Signal, bool) {
	if tick < t.floor || tick > t.tick {
		return to, false
	}
	for v := t.recent.next; v != &t.recent && v.tick > tick; v = v.next {
		to = append(to, v.shown(now))
	}
	return to, true
}

// Part appends a part of what changed after tick, for a viewer who takes little
// at a time: what stands behind place, each with its newest value, until most
// bytes are exceeded, but at least one. It returns the place of the last that it
// appended; 0 if nothing is left behind that. Parts that go on from place to
// place until 0 have told everything that had changed when the first was made,
// each connection in its turn, however fast some change. It reports false if the
// change since tick is not known. sees tells whose signals the viewer is told; nil
// for everybody's.
func (t *Signals) Part(now time.Time, tick SignalTick, place SignalPlace, most int, sees func(UserID) bool, to []Signal) ([]Signal, SignalPlace, bool) {
	if tick < t.floor || tick > t.tick {
		return to, 0, false
	}
	to, place = t.part(now, place, most, sees, to, func(v *signal) bool { return v.tick > tick })
	return to, place, true
}

// LivePart is as [Signals.Part], of what [Signals.Live] tells. Together with what
// changed after the tick at which the first was made, such parts have told all that
// lives.
func (t *Signals) LivePart(now time.Time, place SignalPlace, most int, sees func(UserID) bool, to []Signal) ([]Signal, SignalPlace) {
	return t.part(now, place, most, sees, to, func(v *signal) bool { return v.tick > 0 && v.lives(now) })
}

func (t *Signals) part(now time.Time, place SignalPlace, most int, sees func(UserID) bool, to []Signal, due func(*signal) bool) ([]Signal, SignalPlace) {
	first, size := true, 0
	for v := t.all.after; v != &t.all; v = v.after {
		if v.place <= place || !due(v) || sees != nil && !sees(v.from.user) {
			continue
		}
		if size += v.size(); !first && size > most {
			return to, place
		}
		first, place = false, v.place
		to = append(to, v.shown(now))
	}
	return to, 0
}

// Ends appends what has ended after tick, for a viewer who cannot be told the
// rest yet. Where the change is not known it may be too little.
func (t *Signals) Ends(now time.Time, tick SignalTick, to []Signal) []Signal {
	for v := t.recent.next; v != &t.recent && v.tick > tick; v = v.next {
		if v.off {
			to = append(to, v.shown(now))
		}
	}
	return to
}

// signalFrame is about what the names of the fields of a signal take in a frame.
const signalFrame = 80

func (v *signal) size() int {
	return signalFrame + len(v.from.user) + len(v.from.id) + len(v.kind) + len(v.data) + len(v.docVersion)
}

// Live appends everything that lives, with the time that it has left; but for
// what has yet to be told.
func (t *Signals) Live(now time.Time, to []Signal) []Signal {
	for v := t.recent.next; v != &t.recent; v = v.next {
		if v.lives(now) {
			to = append(to, v.shown(now))
		}
	}
	return to
}

// lives reports whether viewers who were told of v still see it.
func (v *signal) lives(now time.Time) bool {
	return !v.off && (v.deadline.IsZero() || now.Before(v.deadline))
}

// Empty reports whether the table holds nothing, not even the memory of an end.
func (t *Signals) Empty() bool { return len(t.senders) == 0 }

// shown is the value as a viewer is told.
func (v *signal) shown(now time.Time) Signal {
	s := Signal{User: v.from.user, Connection: v.from.id, Kind: v.kind, Generation: v.from.generation}
	if v.off {
		return s
	}
	s.Data, s.DocVersion = v.data, v.docVersion
	if !v.deadline.IsZero() {
		s.TTL = max(v.deadline.Sub(now), time.Millisecond)
	}
	return s
}

func (v *signal) unlink() {
	if v.prev != nil {
		v.prev.next, v.next.prev = v.next, v.prev
		v.prev, v.next = nil, nil
	}
}

// keep gives a new value its place.
func (t *Signals) keep(v *signal) {
	t.places++
	v.place = t.places
	v.before, v.after = t.all.before, &t.all
	v.before.after, v.after.before = v, v
}

func (t *Signals) drop(v *signal) {
	v.before.after, v.after.before = v.after, v.before
	v.from.drop(v)
}

func (f *signalSender) find(kind string) *signal {
	for _, v := range f.values {
		if v.kind == kind {
			return v
		}
	}
	return nil
}

func (f *signalSender) drop(v *signal) {
	for i := range f.values {
		if f.values[i] == v {
			last := len(f.values) - 1
			f.values[i] = f.values[last]
			f.values[last] = nil
			f.values = f.values[:last]
			return
		}
	}
}
