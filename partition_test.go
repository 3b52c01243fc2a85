package rollcall_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rollcall"
)

const (
	hall rollcall.RoomID = "hall"
	ana  rollcall.UserID = "ana"
	bo   rollcall.UserID = "bo"
)

// life is a partition with the defaults of the design, a clock that a test moves
// by hand, and what a viewer of the hall has been told.
type life struct {
	t       *testing.T
	p       *rollcall.Partition
	now     time.Time
	roster  *rollcall.Roster
	told    []string // joins and leaves
	updates int
	ended   []rollcall.Ended
}

func newLife(t *testing.T) *life {
	l := &life{t: t, p: rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e"}, startTime), now: startTime}
	a := l.read(rollcall.Query{Want: rollcall.WantSnapshot})
	l.roster = rollcall.NewRoster(&a)
	return l
}

func (l *life) take(f *rollcall.Frame) {
	l.t.Helper()
	if f == nil {
		return
	}
	for i := range f.Changes {
		c := &f.Changes[i]
		if !l.roster.Apply(c) {
			l.t.Fatalf("the viewer at %d could not take the change from %d to %d", l.roster.Version(), c.Prev, c.Version)
		}
		for _, m := range c.Join {
			l.told = append(l.told, string(m.User))
		}
		for _, leave := range c.Leave {
			l.told = append(l.told, string(leave.User)+" "+leave.Reason.String())
		}
		l.updates += len(c.Update)
		l.ended = append(l.ended, c.Ended...)
		if c.Count != l.roster.Count() {
			l.t.Fatalf("count %d with %d members", c.Count, l.roster.Count())
		}
	}
}

func (l *life) apply(op rollcall.Op) rollcall.Result {
	l.t.Helper()
	if op.Room == "" {
		op.Room = hall
	}
	results := make([]rollcall.Result, 1)
	l.take(l.p.Apply(l.now, []rollcall.Op{op}, results))
	return results[0]
}

func (l *life) open(user rollcall.UserID, c rollcall.ConnectionID) rollcall.Lease {
	l.t.Helper()
	r := l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: user, Connection: c})
	if r.Err != nil {
		l.t.Fatal(r.Err)
	}
	return r.Lease
}

func (l *life) on(kind rollcall.OpKind, lease rollcall.Lease, more rollcall.Op) rollcall.Result {
	l.t.Helper()
	more.Kind, more.User, more.Connection, more.Generation = kind, lease.User, lease.Connection, lease.Generation
	return l.apply(more)
}

func (l *life) close(lease rollcall.Lease) rollcall.Result {
	l.t.Helper()
	return l.on(rollcall.OpClose, lease, rollcall.Op{Grace: time.Second})
}

func (l *life) leave(lease rollcall.Lease) rollcall.Result {
	l.t.Helper()
	return l.on(rollcall.OpEnd, lease, rollcall.Op{Reason: rollcall.ReasonLeft})
}

func (l *life) renew(lease rollcall.Lease, age time.Duration) rollcall.Outcome {
	r := rollcall.Renewal{Lease: &lease, Age: age}
	l.p.RenewOne(l.now, &r)
	return r.Outcome
}

// pass lets time pass with ticks as far apart as they may be.
func (l *life) pass(d time.Duration) {
	l.t.Helper()
	for ; d > 0; d -= 750 * time.Millisecond {
		l.jump(min(d, 750*time.Millisecond))
	}
}

// jump moves the clock at once, and ticks.
func (l *life) jump(d time.Duration) {
	l.t.Helper()
	l.now = l.now.Add(d)
	l.take(l.p.Tick(l.now))
}

func (l *life) read(q rollcall.Query) rollcall.Answer {
	q.Room = hall
	return l.p.Read(l.now, &q)
}

func (l *life) connections(user rollcall.UserID) int {
	a := l.read(rollcall.Query{Want: rollcall.WantUsers, Users: []rollcall.UserID{user}})
	if len(a.Members) != 1 {
		return 0
	}
	return a.Members[0].Connections
}

func (l *life) wantTold(want ...string) {
	l.t.Helper()
	if !slices.Equal(l.told, want) {
		l.t.Fatalf("viewers were told %q, want %q", l.told, want)
	}
}

// A04: three tabs, closed in another order than they were opened.
func TestSecondTabKeepsMemberPresent(t *testing.T) {
	l := newLife(t)
	var seen []int
	step := func() {
		t.Helper()
		seen = append(seen, l.connections(ana))
		l.pass(1500 * time.Millisecond)
		if m := l.roster.Member(ana); l.read(rollcall.Query{}).Count != 1 || m == nil || m.Connections != l.connections(ana) {
			t.Fatalf("at rest viewers see %+v, with %d connections", m, l.connections(ana))
		}
	}
	t1 := l.open(ana, "t1")
	step()
	t2 := l.open(ana, "t2")
	step()
	t3 := l.open(ana, "t3")
	step()
	l.close(t1)
	step()
	l.close(t3)
	step()
	l.wantTold("ana")
	l.close(t2)
	l.pass(time.Second)
	l.wantTold("ana", "ana closed")
	if want := []int{1, 2, 3, 2, 1}; !slices.Equal(seen, want) {
		t.Errorf("connections %v, want %v", seen, want)
	}
}

// Promise 1: at most 31 s after the last proof of life, and not before 30.
func TestNobodyIsAGhost(t *testing.T) {
	for _, offset := range []time.Duration{0, 1, 100 * time.Millisecond, 249 * time.Millisecond, 250 * time.Millisecond, 740 * time.Millisecond} {
		l := newLife(t)
		l.pass(5*time.Second + offset)
		lease := l.open(ana, "c")
		l.now = l.now.Add(offset)
		l.renew(lease, 0)
		evidence := l.now
		for len(l.told) < 2 && l.now.Sub(evidence) < time.Minute {
			l.jump(750 * time.Millisecond)
		}
		l.wantTold("ana", "ana expired")
		if after := l.now.Sub(evidence); after < 30*time.Second || after > 31*time.Second {
			t.Errorf("offset %v: gone %v after the last proof of life", offset, after)
		}
	}
}

// Beats are 9.5 s apart at most: two may be lost, and the third comes in time.
func TestTwoLostBeatsDropNobody(t *testing.T) {
	l := newLife(t)
	lease := l.open(ana, "c")
	for range 5 {
		l.pass(3 * 9500 * time.Millisecond)
		if outcome := l.renew(lease, 0); outcome != rollcall.Renewed {
			t.Fatalf("outcome %d", outcome)
		}
	}
	l.wantTold("ana")
}

// A06.
func TestTimeoutOfDeadConnectionSparesTheNewOne(t *testing.T) {
	l := newLife(t)
	dead := l.open(ana, "c1")
	l.pass(time.Second)
	alive := l.open(ana, "c2")
	for range 8 {
		l.pass(9 * time.Second)
		l.renew(alive, 0)
	}
	if r := l.close(dead); r.Err == nil || r.Err.Code != rollcall.CodeGone {
		t.Errorf("the late close: %+v, want gone", r)
	}
	l.pass(2 * time.Second)
	l.wantTold("ana")
	if len(l.ended) != 1 || l.ended[0].Generation != dead.Generation || l.ended[0].Reason != rollcall.ReasonExpired {
		t.Errorf("ended %+v, want the dead connection alone", l.ended)
	}
}

// A09.
func TestUpdateAfterLeaveIsGone(t *testing.T) {
	l := newLife(t)
	lease := l.open(ana, "c")
	l.on(rollcall.OpClose, lease, rollcall.Op{}) // without a grace
	l.wantTold("ana", "ana closed")
	for _, generation := range []rollcall.Generation{lease.Generation, 0} {
		lease.Generation = generation
		if r := l.on(rollcall.OpSet, lease, rollcall.Op{Data: json.RawMessage(`{"x":1}`)}); r.Err == nil || r.Err.Code != rollcall.CodeGone {
			t.Errorf("the straggler: %+v, want gone", r)
		}
	}
	// Somebody else comes: the straggler of an ended generation touches nobody.
	again := l.open(ana, "c")
	lease.Generation = again.Generation - 1
	if r := l.on(rollcall.OpSet, lease, rollcall.Op{Data: json.RawMessage(`{"x":1}`)}); !r.Stale || l.roster.Member(ana).Data != nil {
		t.Errorf("the straggler: %+v, want stale", r)
	}
}

// A10: the same connection, the same state, within the same millisecond.
func TestReentryIsNewerThanTheLeave(t *testing.T) {
	l := newLife(t)
	state := rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "c", Data: json.RawMessage(`{"color":"red"}`)}
	first := l.apply(state)
	gone := l.leave(first.Lease)
	second := l.apply(state)
	if !(first.Version < gone.Version && gone.Version < second.Version && first.Lease.Generation < second.Lease.Generation) {
		t.Errorf("versions %d %d %d, generations %d %d: want them to rise", first.Version, gone.Version, second.Version, first.Lease.Generation, second.Lease.Generation)
	}
	l.wantTold("ana", "ana left", "ana")
	if l.roster.Count() != 1 {
		t.Error("the viewer does not see who came back")
	}
}

// A13.
func TestSetIsAnUpdate(t *testing.T) {
	l := newLife(t)
	lease := l.open(ana, "c")
	last := 0
	for i := range 20 {
		l.on(rollcall.OpSet, lease, rollcall.Op{Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i+1))})
		var data struct{ N int }
		json.Unmarshal(l.roster.Member(ana).Data, &data)
		if data.N <= last {
			t.Errorf("n is %d after %d", data.N, last)
		}
		last = data.N
	}
	l.wantTold("ana")
	if l.updates != 20 || last != 20 {
		t.Errorf("%d updates up to %d, want 20", l.updates, last)
	}
}

// A16.
func TestTwoDevicesDoNotFightOverTheStatus(t *testing.T) {
	l := newLife(t)
	d1 := l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "d1", Status: rollcall.StatusActive}).Lease
	d2 := l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "d2", Status: rollcall.StatusAway}).Lease
	l.pass(2 * time.Second)
	l.updates = 0
	for range 30 {
		l.on(rollcall.OpSet, d1, rollcall.Op{Status: rollcall.StatusActive, Data: json.RawMessage(`{"on":1}`)})
		l.on(rollcall.OpSet, d2, rollcall.Op{Status: rollcall.StatusAway, Data: json.RawMessage(`{"on":2}`)})
		l.renew(d1, 0)
		l.renew(d2, 0)
		l.pass(time.Second)
		if m := l.roster.Member(ana); m.Status != rollcall.StatusActive {
			t.Fatalf("status %v, want active", m.Status)
		}
	}
	if l.updates > 2 { // the first data of each
		t.Errorf("%d updates, want 2", l.updates)
	}
	l.updates = 0
	l.close(d1)
	l.pass(time.Second)
	if m := l.roster.Member(ana); m.Status != rollcall.StatusAway || m.Connections != 1 {
		t.Errorf("got %+v, want away with 1 connection", m)
	}
	if l.updates > 2 { // the connection goes at once, the status after the grace
		t.Errorf("%d updates, want at most 2", l.updates)
	}
	l.wantTold("ana")
}

// A19: a suspended host, and a wall clock that is set.
func TestWakeUpForgives(t *testing.T) {
	l := newLife(t)
	var leases []rollcall.Lease
	for i := range 20 {
		leases = append(leases, l.open(rollcall.UserID(fmt.Sprintf("u%d", i)), "c"))
	}
	l.told = nil
	for _, gap := range []time.Duration{10 * time.Minute, time.Hour, -time.Hour, -24 * time.Hour} {
		l.jump(gap)
		l.wantTold()
		for _, lease := range leases[1:] {
			l.renew(lease, 0)
		}
		l.pass(5 * time.Second)
	}
	// Nobody is kept alive by it either: 20 s and at most 2 s a gap are over.
	l.pass(10 * time.Second)
	l.wantTold("u0 expired")
}

// A42: the server issues the ids, and two connections are two.
func TestEveryConnectionHasItsOwnState(t *testing.T) {
	l := newLife(t)
	c1, c2 := l.open(ana, "c1"), l.open(ana, "c2")
	l.on(rollcall.OpSet, c1, rollcall.Op{Data: json.RawMessage(`{"tab":1}`)})
	l.on(rollcall.OpSet, c2, rollcall.Op{Data: json.RawMessage(`{"tab":2}`), Status: rollcall.StatusIdle})
	a := l.read(rollcall.Query{Want: rollcall.WantUsers, Users: []rollcall.UserID{ana}, States: true})
	if got := fmt.Sprintf("%d %s %s %s", a.Members[0].Connections, a.Members[0].Data, a.States[0][0].Data, a.States[0][1].Data); got != `2 {"tab":2} {"tab":1} {"tab":2}` {
		t.Errorf("got %s", got)
	}
	// The data of a connection that has gone goes with it.
	l.leave(c2)
	if m := l.roster.Member(ana); string(m.Data) != `{"tab":1}` || m.Status != rollcall.StatusActive {
		t.Errorf("got %+v", m)
	}
	l.wantTold("ana")
}

// A44.
func TestCountNeverDrifts(t *testing.T) {
	l := newLife(t)
	choices := rand.New(rand.NewPCG(7, 7))
	held := make(map[string]rollcall.Lease)
	for range 5000 {
		user, c := rollcall.UserID(fmt.Sprintf("u%d", choices.IntN(50))), rollcall.ConnectionID(fmt.Sprintf("c%d", choices.IntN(3)))
		key := string(user) + string(c)
		switch lease, ok := held[key]; {
		case !ok || choices.IntN(3) == 0:
			before := l.read(rollcall.Query{}).Count
			r := l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: user, Connection: c})
			if r.Member == nil || l.read(rollcall.Query{}).Count < max(before, 1) {
				t.Fatal("a newcomer's first count does not include itself")
			}
			held[key] = r.Lease
		case choices.IntN(2) == 0:
			l.close(lease)
			delete(held, key)
		default:
			delete(held, key) // dies
		}
		l.jump(time.Duration(choices.IntN(200)) * time.Millisecond)
		a := l.read(rollcall.Query{Want: rollcall.WantPage, Limit: 100})
		if a.Count != len(a.Members) || a.Count != l.roster.Count() {
			t.Fatalf("count %d, %d listed, %d seen", a.Count, len(a.Members), l.roster.Count())
		}
	}
	l.pass(time.Minute)
	if a := l.read(rollcall.Query{}); a.Count != 0 || a.Connections != 0 || l.p.Leftovers() != "" {
		t.Errorf("count %d, %d connections at the end; left over: %s", a.Count, a.Connections, l.p.Leftovers())
	}
}

// A46, with holes: most members leave while somebody reads page by page.
func TestPagesNeitherOverlapNorSkip(t *testing.T) {
	for _, leaving := range []string{"newest", "oldest", "every other"} {
		l := newLife(t)
		leases := make(map[int]rollcall.Lease)
		for i := range 1000 {
			leases[i] = l.open(rollcall.UserID(fmt.Sprintf("u%03d", i)), "c")
		}
		seen := make(map[rollcall.UserID]int)
		var cursor rollcall.Version
		for page := 0; ; page++ {
			a := l.read(rollcall.Query{Want: rollcall.WantPage, Cursor: cursor, Limit: 50})
			for i, m := range a.Members {
				if seen[m.User]++; i > 0 && m.User >= a.Members[i-1].User {
					t.Fatalf("%s leave: %q after %q, want newest join first", leaving, m.User, a.Members[i-1].User)
				}
			}
			if cursor = a.Next; cursor == 0 {
				break
			}
			for i := range 45 {
				n := map[string]int{"newest": 999 - page*45 - i, "oldest": page*45 + i, "every other": (page*90 + i*2) % 1000}[leaving]
				if lease, ok := leases[n]; ok {
					l.leave(lease)
					delete(leases, n)
				}
			}
		}
		for i := range leases {
			if id := rollcall.UserID(fmt.Sprintf("u%03d", i)); seen[id] != 1 {
				t.Errorf("%s leave: %q stayed and was seen %d times", leaving, id, seen[id])
			}
		}
	}
}

func TestReloadInTheGraceIsSilent(t *testing.T) {
	l := newLife(t)
	lease := l.open(ana, "c")
	l.updates = 0
	for range 50 {
		l.close(lease)
		l.jump(990 * time.Millisecond)
		lease = l.open(ana, "c")
		l.jump(10 * time.Millisecond)
	}
	l.pass(5 * time.Second)
	l.wantTold("ana")
	if l.updates != 0 {
		t.Errorf("%d updates, want none", l.updates)
	}
	// A grace never makes a lease longer.
	l.pass(24 * time.Second)
	l.on(rollcall.OpClose, lease, rollcall.Op{Grace: time.Minute})
	l.pass(2 * time.Second)
	l.wantTold("ana", "ana closed")
}

// A lease that ended while its stream had newer evidence is granted again on that
// stream, under a new generation.
func TestExpiredIsGrantedAgainByNewerEvidence(t *testing.T) {
	l := newLife(t)
	old := l.open(ana, "c")
	l.pass(31 * time.Second)
	if outcome := l.renew(old, 0); outcome != rollcall.Over {
		t.Fatalf("outcome %d, want over", outcome)
	}
	r := l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "c", Age: 5 * time.Second})
	if r.Err != nil || r.Lease.Generation <= old.Generation {
		t.Fatalf("got %+v", r)
	}
	if outcome := l.renew(rollcall.Lease{Room: hall, User: ana, Connection: "c", Generation: old.Generation}, 0); outcome != rollcall.Replaced {
		t.Errorf("the old generation by name: outcome %d, want replaced", outcome)
	}
	l.pass(24 * time.Second)
	l.wantTold("ana", "ana expired", "ana")
	l.pass(2 * time.Second)
	l.wantTold("ana", "ana expired", "ana", "ana expired")
}

// A bare number of connections is told once a second for each member, and is
// right at rest.
func TestConnectionCountsAreTold(t *testing.T) {
	l := newLife(t)
	l.open(ana, "c0")
	var told []time.Duration
	jump := func(d time.Duration) {
		before := l.updates
		if l.jump(d); l.updates > before {
			told = append(told, l.now.Sub(startTime))
			if l.updates > before+1 {
				t.Errorf("%d updates at once", l.updates-before)
			}
		}
	}
	for i := range 30 {
		before := l.updates
		l.open(ana, rollcall.ConnectionID(fmt.Sprintf("c%d", i+1)))
		if l.updates > before {
			told = append(told, l.now.Sub(startTime))
		}
		jump(100 * time.Millisecond)
	}
	for range 20 {
		jump(100 * time.Millisecond)
	}
	for i, at := range told {
		if i > 0 && at-told[i-1] < time.Second {
			t.Errorf("told at %v, less than a second apart", told)
		}
	}
	if len(told) < 3 || l.roster.Member(ana).Connections != 31 {
		t.Errorf("told at %v, at last %d connections, want 31", told, l.roster.Member(ana).Connections)
	}
}

// Two tabs run out in one tick while a count is waiting: one update, not two.
func TestSweepTellsOneConnectionCount(t *testing.T) {
	l := newLife(t)
	short := func(c rollcall.ConnectionID) {
		l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: c, TTL: 5 * time.Second})
	}
	l.open(ana, "stays")
	short("c1")
	short("c2")
	l.pass(4500 * time.Millisecond)
	l.updates = 0
	l.jump(600 * time.Millisecond)
	if l.updates != 1 {
		t.Errorf("%d updates in one tick, want 1", l.updates)
	}
	l.pass(3 * time.Second)
	if m := l.roster.Member(ana); m.Connections != 1 {
		t.Errorf("%d connections at rest, want 1", m.Connections)
	}
}

func TestVersionsRise(t *testing.T) {
	now := startTime
	p := rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e"}, now)
	var last rollcall.Version
	var lastGeneration rollcall.Generation
	for _, jump := range []time.Duration{0, 0, time.Microsecond, time.Second, -time.Hour, 0, -24 * time.Hour, time.Minute} {
		now = now.Add(jump)
		results := make([]rollcall.Result, 2)
		f := p.Apply(now, []rollcall.Op{
			{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c"},
			{Kind: rollcall.OpEnd, Room: hall, User: ana, Connection: "c", Reason: rollcall.ReasonLeft},
		}, results)
		for _, c := range f.Changes {
			if c.Version <= last {
				t.Errorf("after %v: version %d after %d", jump, c.Version, last)
			}
			last = c.Version
		}
		if g := results[0].Lease.Generation; g <= lastGeneration {
			t.Errorf("after %v: generation %d after %d", jump, g, lastGeneration)
		} else {
			lastGeneration = g
		}
		if f.Changes[0].Prev != 0 {
			t.Errorf("the first change of a forgotten room has prev %d, want 0", f.Changes[0].Prev)
		}
	}
	// Over a restart with saved state, also if the clock is behind.
	p = rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e", Version: last}, startTime.Add(-time.Hour))
	results := make([]rollcall.Result, 1)
	p.Apply(startTime.Add(-time.Hour), []rollcall.Op{{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c"}}, results)
	if results[0].Version <= last {
		t.Errorf("version %d after a restart, was %d", results[0].Version, last)
	}
	if last >= 1<<53 {
		t.Errorf("version %d: JavaScript reads it wrong", last)
	}
}

func TestSettlingIsOneLeaseOfLeaseTime(t *testing.T) {
	p := rollcall.NewPartition(rollcall.PartitionOptions{Epoch: "e", Settling: true}, startTime)
	settling := func(d time.Duration) time.Duration {
		a := p.Read(startTime.Add(d), &rollcall.Query{Room: hall})
		return a.Settling
	}
	if got := settling(0); got != 30*time.Second {
		t.Errorf("at first %v, want 30s", got)
	}
	if got := settling(time.Hour); got != 28*time.Second {
		t.Errorf("after an hour asleep %v, want 28s: clients had no time to return", got)
	}
	for i := range 20 {
		settling(time.Hour + time.Duration(i)*2*time.Second)
	}
	if got := p.Settling(); got != 0 {
		t.Errorf("after a lease %v, want 0", got)
	}
}

// Every lease that ends is told, by connection and generation, so that its
// stream can be ended.
func TestEveryEndIsTold(t *testing.T) {
	l := newLife(t)
	c1, c2, c3 := l.open(ana, "c1"), l.open(ana, "c2"), l.open(ana, "c3")
	l.leave(c2)
	l.apply(rollcall.Op{Kind: rollcall.OpEndUser, User: ana, Reason: rollcall.ReasonKicked})
	want := map[rollcall.Ended]bool{
		{Connection: "c1", User: ana, Generation: c1.Generation, Reason: rollcall.ReasonKicked}: true,
		{Connection: "c2", User: ana, Generation: c2.Generation, Reason: rollcall.ReasonLeft}:   true,
		{Connection: "c3", User: ana, Generation: c3.Generation, Reason: rollcall.ReasonKicked}: true,
	}
	for _, e := range l.ended {
		if !want[e] {
			t.Errorf("told %+v", e)
		}
		delete(want, e)
	}
	if len(want) > 0 {
		t.Errorf("not told: %+v", want)
	}
	l.wantTold("ana", "ana kicked")
}

// A later deadline than the wheel is wide, and one that is long past.
func TestLongAndShortLeases(t *testing.T) {
	l := newLife(t)
	l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "c", TTL: time.Hour})
	l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: bo, Connection: "c", TTL: 5 * time.Second})
	l.pass(5 * time.Second)
	l.wantTold("ana", "bo", "bo expired")
	l.pass(time.Hour - 5*time.Second - time.Millisecond)
	l.wantTold("ana", "bo", "bo expired")
	l.pass(750 * time.Millisecond)
	l.wantTold("ana", "bo", "bo expired", "ana expired")
	if left := l.p.Leftovers(); left != "" {
		t.Errorf("left over: %s", left)
	}
}

// The end of a grace is no evidence: a resume runs from its own.
func TestResumeRunsFromItsOwnEvidence(t *testing.T) {
	l := newLife(t)
	lease := l.open(ana, "c")
	l.on(rollcall.OpClose, lease, rollcall.Op{Grace: 20 * time.Second})
	l.apply(rollcall.Op{Kind: rollcall.OpGrant, User: ana, Connection: "c", Age: 25 * time.Second})
	l.pass(4 * time.Second)
	l.wantTold("ana")
	l.pass(2 * time.Second)
	l.wantTold("ana", "ana expired")
}

// A lease that was granted again by old evidence does not run out while the store
// settles: a node that was cut off may have newer evidence.
func TestWhatWasLostDoesNotRunOutWhileTheStoreSettles(t *testing.T) {
	now := time.Unix(1000, 0)
	p := rollcall.NewPartition(rollcall.PartitionOptions{Settling: true, Timing: rollcall.DefaultTiming()}, now)
	grant := func(user rollcall.UserID, lost rollcall.Generation) {
		p.Apply(now, []rollcall.Op{{
			Kind: rollcall.OpGrant, Room: "r", User: user, Connection: "c", Generation: lost, Age: 28 * time.Second,
		}}, make([]rollcall.Result, 1))
	}
	grant("ana", 7)
	grant("bo", 0)
	count := func() int {
		a := p.Read(now, &rollcall.Query{Room: "r"})
		return a.Count
	}
	for range 20 {
		now = now.Add(time.Second)
		p.Tick(now)
	}
	if got := count(); got != 1 {
		t.Errorf("%d here after 20 s, want the one who was lost and not the one who was silent", got)
	}
	for range 11 {
		now = now.Add(time.Second)
		p.Tick(now)
	}
	if got := count(); got != 0 {
		t.Errorf("%d here after the store has settled", got)
	}
}

// What was lost never displaces what is newer.
func TestGrantingAgainNeverDisplacesANewerLease(t *testing.T) {
	now := time.Unix(1000, 0)
	p := rollcall.NewPartition(rollcall.PartitionOptions{}, now)
	results := make([]rollcall.Result, 1)
	op := rollcall.Op{Kind: rollcall.OpGrant, Room: "r", User: "ana", Connection: "c", Claim: 1}
	p.Apply(now, []rollcall.Op{op}, results)
	old := results[0].Lease
	op.Claim = 2
	p.Apply(now, []rollcall.Op{op}, results)
	current := results[0].Lease
	op.Claim, op.Late, op.Generation = 1, true, old.Generation
	p.Apply(now, []rollcall.Op{op}, results)
	if !results[0].Stale {
		t.Errorf("granted again under the older claim: %+v", results[0])
	}
	renewal := []rollcall.Renewal{{Lease: &rollcall.Lease{Room: "r", User: "ana", Connection: "c", Generation: current.Generation + 5}}}
	p.Renew(now, renewal)
	if renewal[0].Outcome != rollcall.Lost {
		t.Errorf("a newer lease than the one that is known: outcome %d, want lost", renewal[0].Outcome)
	}
}
