package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall"
)

// rules are the rules of presence, each named for what it protects.
var rules = []struct {
	name string
	test func(s *scene)
}{
	{"EveryConnectionOfAUserIsOneMember", everyConnectionIsOneMember},
	{"DeadConnectionCannotTakeTheNewOneAlong", deadConnectionCannotTakeTheNewOneAlong},
	{"ReturnInTheGraceIsSilent", returnInTheGraceIsSilent},
	{"LeftAtOnceClosedAfterTheGraceCutAfterTheLease", threeWaysToGo},
	{"LeaseRunsFromTheEvidence", leaseRunsFromTheEvidence},
	{"RenewalNeverShortens", renewalNeverShortens},
	{"NothingRenewsWhatIsClosing", nothingRenewsWhatIsClosing},
	{"RenewalTellsWhatBecameOfTheLease", renewalTellsWhatBecameOfTheLease},
	{"OlderGenerationChangesNothing", olderGenerationChangesNothing},
	{"ReturnIsNewerThanTheLeave", returnIsNewerThanTheLeave},
	{"SetIsAnUpdateAndNothingElse", setIsAnUpdate},
	{"StatusIsTheHighestOfTheConnections", statusIsTheHighest},
	{"RepeatingWhatIsSetIsSilent", repeatingIsSilent},
	{"StateStaysOverAResume", stateStaysOverAResume},
	{"StoreThatWasAwayLosesNobody", storeThatWasAwayLosesNobody},
	{"PagesShowWhoStaysOnce", pagesShowWhoStaysOnce},
	{"RefusedChangesNothing", refusedChangesNothing},
	{"KickEndsEveryConnection", kickEndsEveryConnection},
	{"ResumeOnlyGrantsNothingNew", resumeOnlyGrantsNothingNew},
	{"LateClaimTakesNothingOver", lateClaimTakesNothingOver},
	{"RoomThatNobodyIsInReadsEmpty", emptyRoomReadsEmpty},
	{"ResultsStandInTheOrderOfTheOperations", resultsInOrder},
	{"AnyUTF8IsAnID", anyUTF8IsAnID},
	{"BanRefusesGrantsUntilItIsOver", banRefusesGrants},
	{"KickOfWhoIsAbsentBansNobody", kickOfWhoIsAbsentBansNobody},
	{"WhereaboutsAreThoseOfTheRooms", whereaboutsAreThoseOfTheRooms},
	{"StatusAnywhereIsToldWhenItChanges", statusAnywhereIsTold},
	{"LastSeenIsTheLastEvidence", lastSeenIsTheLastEvidence},
	{"LongLeaseIsNotForgotten", longLeaseIsNotForgotten},
	{"RevocationRefusesWhatWasIssuedBefore", revocationRefuses},
	{"RevocationIsToldToEveryNode", revocationIsTold},
	{"RoomsAreListedByName", roomsAreListedByName},
	{"ListTellsWhoStaysOnce", listTellsWhoStaysOnce},
	{"AudienceIsASet", audienceIsASet},
	{"WindowIsFromItsBeginningOn", windowIsFromItsBeginningOn},
	{"AudienceForgetsTheOld", audienceForgetsTheOld},
	{"AudienceIsThatOfAllNodes", audienceIsThatOfAllNodes},
	{"CloseEndsEverything", closeEndsEverything},
}

// crowds are the rules of large rooms: above 30 members here, back below 20.
var crowds = []struct {
	name string
	test func(s *scene)
}{
	{"ModesChangeAtTheThresholds", modesChangeAtTheThresholds},
	{"PagesOfACrowd", pagesOfACrowd},
	{"ModesAreThoseOfTheRoom", modesAreThoseOfTheRoom},
	{"ListTellsTheMode", listTellsTheMode},
}

func runRules(t *testing.T, f Factory) {
	for _, rule := range crowds {
		f.within(t, rule.name, func(t *testing.T) {
			o := f.options(Options{Timing: rollcall.DefaultTiming(), Limits: rollcall.DefaultLimits()})
			o.Modes = rollcall.Modes{Above: 30, Below: 20, Every: time.Second}
			var err error
			o.Rules, err = rollcall.ParseRoomRules([]string{tiny + ":counts-above=3", "ti*:counts-below=2"}, rollcall.RoomSettings{Modes: o.Modes})
			if err != nil {
				t.Fatal(err)
			}
			rule.test(newSceneWith(t, f, o))
		})
	}
	for _, rule := range rules {
		f.within(t, rule.name, func(t *testing.T) { rule.test(newScene(t, f)) })
	}
}

// A04, A42.
func everyConnectionIsOneMember(s *scene) {
	wantConnections := func(n int) {
		s.t.Helper()
		if m := s.member(ana); m == nil || m.Connections != n {
			s.t.Fatalf("got %s, want %d connections", show(m), n)
		}
	}
	t1 := s.open(ana, "t1")
	wantConnections(1)
	t2 := s.open(ana, "t2")
	wantConnections(2)
	t3 := s.open(ana, "t3")
	wantConnections(3)
	s.do(closeOp(t1, s.timing.CloseGrace))
	wantConnections(2)
	s.do(closeOp(t3, 0))
	wantConnections(1)
	s.beat(s.timing.CloseGrace+time.Second, t2)
	s.wantStory("ana")
	s.do(closeOp(t2, s.timing.CloseGrace))
	wantConnections(1)
	s.pass(s.timing.CloseGrace + time.Second)
	s.wantStory("ana", "ana closed")
}

// A06.
func deadConnectionCannotTakeTheNewOneAlong(s *scene) {
	c1 := s.open(ana, "c1")
	s.pass(time.Second)
	c2 := s.open(ana, "c2")
	s.beat(s.timing.Lease+time.Second, c2)
	// The server of the dead connection notices in the end.
	if r := s.apply(closeOp(c1, 0))[0]; r.Err == nil || r.Err.Code != rollcall.CodeGone {
		s.t.Errorf("late close: %+v, want gone", r)
	}
	s.beat(time.Second, c2)
	s.wantStory("ana")
}

func returnInTheGraceIsSilent(s *scene) {
	l := s.open(ana, "c1")
	for range 3 {
		s.do(closeOp(l, s.timing.CloseGrace))
		s.pass(s.timing.CloseGrace / 2)
		l = s.open(ana, "c1")
	}
	s.beat(s.timing.CloseGrace+time.Second, l)
	// A reload that comes back as somebody new is as silent.
	s.do(closeOp(l, s.timing.CloseGrace))
	c2 := s.open(ana, "c2")
	s.beat(s.timing.CloseGrace+time.Second, c2)
	s.wantStory("ana")
	if m := s.member(ana); m.Connections != 1 {
		s.t.Errorf("got %s, want 1 connection", show(m))
	}
}

func threeWaysToGo(s *scene) {
	left, closed := s.open("left", "c"), s.open("closed", "c")
	s.open("cut", "c")
	s.do(endOp(left, rollcall.ReasonLeft))
	s.wantStory("left", "closed", "cut", "left left")
	s.do(closeOp(closed, s.timing.CloseGrace))
	s.pass(s.timing.CloseGrace / 2)
	s.wantStory("left", "closed", "cut", "left left")
	s.pass(s.timing.CloseGrace/2 + 500*time.Millisecond)
	s.wantStory("left", "closed", "cut", "left left", "closed closed")
	// With a margin for the tick on either side.
	s.pass(s.timing.Lease - s.timing.CloseGrace - 1500*time.Millisecond)
	s.wantStory("left", "closed", "cut", "left left", "closed closed")
	s.pass(2 * time.Second)
	s.wantStory("left", "closed", "cut", "left left", "closed closed", "cut expired")
}

func leaseRunsFromTheEvidence(s *scene) {
	l := s.open(ana, "c1")
	s.pass(s.timing.Lease * 6 / 10)
	// The answer is to a beat of some time ago.
	if outcome, _ := s.renew(l, s.timing.Lease*4/10); outcome != rollcall.Renewed {
		s.t.Fatalf("outcome %d", outcome)
	}
	s.pass(s.timing.Lease*6/10 - 500*time.Millisecond)
	s.wantStory("ana")
	s.pass(time.Second)
	s.wantStory("ana", "ana expired")
	// So it is with a grant.
	s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: bo, Connection: "c", Age: s.timing.Lease / 2})
	s.pass(s.timing.Lease/2 - 500*time.Millisecond)
	s.wantStory("ana", "ana expired", "bo")
	s.pass(time.Second)
	s.wantStory("ana", "ana expired", "bo", "bo expired")
}

func renewalNeverShortens(s *scene) {
	l := s.open(ana, "c1")
	s.renew(l, 10*s.timing.Lease)
	s.renew(l, s.timing.Lease)
	// Nor does a grant again, by old evidence.
	s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1", Age: s.timing.Lease - time.Millisecond})
	s.pass(s.timing.Lease - 500*time.Millisecond)
	s.wantStory("ana")
	s.pass(time.Second)
	s.wantStory("ana", "ana expired")
}

func nothingRenewsWhatIsClosing(s *scene) {
	l := s.open(ana, "c1")
	s.do(closeOp(l, s.timing.CloseGrace))
	if outcome, reason := s.renew(l, 0); outcome != rollcall.Over || reason != rollcall.ReasonClosed {
		s.t.Errorf("outcome %d %s, want over and closed", outcome, reason)
	}
	s.pass(s.timing.CloseGrace / 2)
	if r := s.apply(closeOp(l, 10*s.timing.CloseGrace))[0]; !r.Stale {
		s.t.Errorf("the second close: %+v, want stale", r)
	}
	s.pass(s.timing.CloseGrace/2 + 500*time.Millisecond)
	s.wantStory("ana", "ana closed")
}

func renewalTellsWhatBecameOfTheLease(s *scene) {
	check := func(what string, l rollcall.Lease, outcome rollcall.Outcome, reason rollcall.Reason) {
		s.t.Helper()
		if o, r := s.renew(l, 0); o != outcome || r != reason {
			s.t.Errorf("%s: outcome %d %q, want %d %q", what, o, r, outcome, reason)
		}
	}
	old := s.open(ana, "c1")
	now := s.open(ana, "c1")
	check("older generation", old, rollcall.Replaced, rollcall.ReasonNone)
	check("current generation", now, rollcall.Renewed, rollcall.ReasonNone)
	s.do(endOp(now, rollcall.ReasonLeft))
	check("left", now, rollcall.Over, rollcall.ReasonLeft)
	check("older generation of what was left", old, rollcall.Replaced, rollcall.ReasonNone)
	kicked := s.open(bo, "c1")
	s.do(rollcall.Op{Kind: rollcall.OpEndUser, Room: hall, User: bo, Reason: rollcall.ReasonKicked})
	check("kicked", kicked, rollcall.Over, rollcall.ReasonKicked)
	expired := s.open(bo, "c2")
	s.pass(s.timing.Lease + 500*time.Millisecond)
	check("expired", expired, rollcall.Over, rollcall.ReasonExpired)
	check("never granted here", rollcall.Lease{Room: "elsewhere", User: ana, Connection: "c9", Generation: 1}, rollcall.Lost, rollcall.ReasonNone)
	s.wantStory("ana", "ana left", "bo", "bo kicked", "bo", "bo expired")
}

// S3.
func olderGenerationChangesNothing(s *scene) {
	old := s.open(ana, "c1")
	now := s.open(ana, "c1")
	before := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall})
	set := rollcall.Op{Kind: rollcall.OpSet, Room: hall, User: ana, Connection: "c1", Generation: old.Generation, Status: rollcall.StatusAway, Data: json.RawMessage(`{"a":1}`)}
	for _, op := range []rollcall.Op{closeOp(old, 0), closeOp(old, time.Second), endOp(old, rollcall.ReasonLeft), set} {
		if r := s.apply(op)[0]; !r.Stale {
			s.t.Errorf("%s: %+v, want stale", showOp(&op), r)
		}
	}
	if after := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall}); after.Version != before.Version {
		s.t.Errorf("version %d after %d", after.Version, before.Version)
	}
	s.beat(2*time.Second, now)
	s.wantStory("ana")
}

// A10.
func returnIsNewerThanTheLeave(s *scene) {
	l := s.open(ana, "c1")
	gone := s.do(endOp(l, rollcall.ReasonLeft))
	back := s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1"})
	if back.Version <= gone.Version || back.Lease.Generation <= l.Generation {
		s.t.Errorf("back at version %d generation %d, after %d and %d", back.Version, back.Lease.Generation, gone.Version, l.Generation)
	}
	s.wantStory("ana", "ana left", "ana")
}

// A13.
func setIsAnUpdate(s *scene) {
	l := s.open(ana, "c1")
	for i := range 20 {
		s.set(l, rollcall.StatusUnset, fmt.Sprintf(`{"n":%d}`, i+1))
	}
	if m := s.member(ana); string(m.Data) != `{"n":20}` {
		s.t.Errorf("got %s, want n 20", show(m))
	}
	merge := rollcall.Op{Kind: rollcall.OpSet, Room: hall, User: ana, Connection: "c1", Data: json.RawMessage(`{"x":null}`), Merge: true}
	if m := s.do(merge).Member; string(m.Data) != `{"n":20,"x":null}` {
		s.t.Errorf("got %s, want n merged with x", show(m))
	}
	s.wantStory("ana")
}

// A16.
func statusIsTheHighest(s *scene) {
	d1, d2 := s.open(ana, "d1"), s.open(ana, "d2")
	s.set(d2, rollcall.StatusAway, "")
	if m := s.member(ana); m.Status != rollcall.StatusActive {
		s.t.Errorf("got %s, want active", show(m))
	}
	s.set(d1, rollcall.StatusIdle, "")
	if m := s.member(ana); m.Status != rollcall.StatusIdle {
		s.t.Errorf("got %s, want idle", show(m))
	}
	s.do(closeOp(d1, s.timing.CloseGrace))
	s.beat(s.timing.CloseGrace+500*time.Millisecond, d2)
	if m := s.member(ana); m.Status != rollcall.StatusAway {
		s.t.Errorf("got %s, want away", show(m))
	}
	s.wantStory("ana")
}

func repeatingIsSilent(s *scene) {
	d1, d2 := s.open(ana, "d1"), s.open(ana, "d2")
	s.set(d1, rollcall.StatusActive, `{"on":"phone"}`)
	s.set(d2, rollcall.StatusAway, `{"on":"desk"}`)
	s.beat(2*time.Second, d1, d2)
	before := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall})
	for range 5 {
		s.set(d1, rollcall.StatusActive, `{"on":"phone"}`)
		s.set(d2, rollcall.StatusAway, `{"on":"desk"}`)
		// A plain stream names its data again each time it reopens.
		s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "d1", Data: json.RawMessage(`{"on":"phone"}`)})
		d1 = s.open(ana, "d1")
	}
	if after := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall}); after.Version != before.Version {
		s.t.Errorf("version %d after %d: something was published", after.Version, before.Version)
	}
	if m := s.member(ana); string(m.Data) != `{"on":"desk"}` {
		s.t.Errorf("got %s, want the data that changed last", show(m))
	}
}

// A12.
func stateStaysOverAResume(s *scene) {
	l := s.open(ana, "c1")
	s.set(l, rollcall.StatusIdle, `{"a":1}`)
	s.do(closeOp(l, s.timing.CloseGrace))
	r := s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1", ResumeOnly: true})
	if r.Member.Status != rollcall.StatusIdle || string(r.Member.Data) != `{"a":1}` {
		s.t.Errorf("got %s, want idle with data", show(r.Member))
	}
}

// A19: what passes while nothing looks costs 2 s of lease time at most.
func storeThatWasAwayLosesNobody(s *scene) {
	leases := []rollcall.Lease{s.open(ana, "c1"), s.open(bo, "c1")}
	time.Sleep(2*s.timing.Lease + 2*time.Second)
	s.tick()
	s.wantStory("ana", "bo")
	s.beat(time.Second, leases[0])
	s.wantStory("ana", "bo")
	// Who died meanwhile goes within a lease.
	s.beat(s.timing.Lease, leases[0])
	s.wantStory("ana", "bo", "bo expired")
}

// A46.
func pagesShowWhoStaysOnce(s *scene) {
	user := func(i int) rollcall.UserID { return rollcall.UserID(fmt.Sprintf("u%03d", i)) }
	leases := make(map[rollcall.UserID]rollcall.Lease)
	for i := range 200 {
		leases[user(i)] = s.open(user(i), "c")
	}
	seen, left := make(map[rollcall.UserID]int), make(map[rollcall.UserID]bool)
	var cursor rollcall.Version
	for page := 0; ; page++ {
		a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: hall, Cursor: cursor, Limit: 50})
		for _, m := range a.Members {
			if left[m.User] {
				s.t.Errorf("%q was shown after leaving", m.User)
			}
			seen[m.User]++
		}
		if cursor = a.Next; cursor == 0 {
			break
		}
		for i := range 10 {
			gone, moved := user((page*37+i*17)%200), user((page*41+i*7+3)%200)
			if l, ok := leases[gone]; ok && i < 3 {
				s.do(endOp(l, rollcall.ReasonLeft))
				delete(leases, gone)
				left[gone] = true
			}
			if l, ok := leases[moved]; ok {
				s.set(l, rollcall.StatusIdle, `{"moved":true}`)
			}
			s.open(rollcall.UserID(fmt.Sprintf("new%d-%d", page, i)), "c")
		}
	}
	for id := range leases {
		if seen[id] != 1 {
			s.t.Errorf("%q stayed and was seen %d times", id, seen[id])
		}
	}
	for _, limit := range []int{0, -1} {
		if a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: hall, Limit: limit}); len(a.Members) != 0 {
			s.t.Errorf("limit %d: %d members", limit, len(a.Members))
		}
	}
	if a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: hall, Cursor: 1, Limit: 10}); len(a.Members) != 0 || a.Next != 0 {
		s.t.Errorf("past the end: %d members, next %d", len(a.Members), a.Next)
	}
}

func refusedChangesNothing(s *scene) {
	limits := rollcall.DefaultLimits()
	big := func(n int) json.RawMessage { return json.RawMessage(`{"a":"` + strings.Repeat("x", n-8) + `"}`) }
	grant := rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c", Data: big(limits.Data), Info: big(limits.Info)}
	s.do(grant)
	for i := range limits.ConnectionsPerUser - 1 {
		s.open(ana, rollcall.ConnectionID(fmt.Sprintf("more%d", i)))
	}
	before := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall})
	refuse := func(what string, code rollcall.Code, limit int, op rollcall.Op) {
		s.t.Helper()
		r := s.apply(op)[0]
		if r.Err == nil || r.Err.Code != code || r.Err.Limit != limit {
			s.t.Errorf("%s: %+v, want %s with limit %d", what, r.Err, code, limit)
		}
	}
	op := grant
	op.Data = big(limits.Data + 1)
	refuse("data", rollcall.CodeTooLarge, limits.Data, op)
	op = grant
	op.Info = big(limits.Info + 1)
	refuse("info", rollcall.CodeTooLarge, limits.Info, op)
	op = grant
	op.Connection = "one too many"
	refuse("connections", rollcall.CodeRateLimited, limits.ConnectionsPerUser, op)
	for _, id := range []string{"", ".", "..", "\xff", strings.Repeat("x", rollcall.MaxID+1)} {
		refuse("room id", rollcall.CodeBadRequest, 0, rollcall.Op{Kind: rollcall.OpGrant, Room: rollcall.RoomID(id), User: ana, Connection: "c"})
		refuse("user id", rollcall.CodeBadRequest, 0, rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: rollcall.UserID(id), Connection: "c"})
	}
	set := rollcall.Op{Kind: rollcall.OpSet, Room: hall, User: ana, Connection: "c", Status: rollcall.StatusAway}
	set.Data = big(limits.Data + 1)
	refuse("set", rollcall.CodeTooLarge, limits.Data, set)
	set.Data, set.Merge = json.RawMessage(`{"b":1}`), true
	refuse("merge", rollcall.CodeTooLarge, limits.Data, set)
	refuse("unknown kind", rollcall.CodeBadRequest, 0, rollcall.Op{Kind: 99, Room: hall, User: ana, Connection: "c"})
	refuse("not here", rollcall.CodeGone, 0, rollcall.Op{Kind: rollcall.OpSet, Room: hall, User: bo, Connection: "c"})
	after := s.read(rollcall.Query{Want: rollcall.WantRoom, Room: hall})
	if after.Version != before.Version || after.Connections != limits.ConnectionsPerUser {
		s.t.Errorf("version %d with %d connections, was %d with %d", after.Version, after.Connections, before.Version, before.Connections)
	}
	if m := s.member(ana); string(m.Data) != string(grant.Data) || m.Status != rollcall.StatusActive {
		s.t.Errorf("got %s, want what it was", show(m))
	}
	// Those in their grace count, and one of those that are here may return.
	s.do(rollcall.Op{Kind: rollcall.OpClose, Room: hall, User: ana, Connection: "c", Grace: s.timing.CloseGrace})
	op = grant
	op.Connection = "one too many"
	refuse("connections in their grace", rollcall.CodeRateLimited, limits.ConnectionsPerUser, op)
	s.open(ana, "c")
}

func kickEndsEveryConnection(s *scene) {
	var leases []rollcall.Lease
	for i := range 3 {
		l := s.open(ana, rollcall.ConnectionID(fmt.Sprintf("c%d", i)))
		s.set(l, rollcall.StatusIdle, fmt.Sprintf(`{"c":%d}`, i))
		leases = append(leases, l)
	}
	s.do(closeOp(leases[1], s.timing.CloseGrace))
	s.do(rollcall.Op{Kind: rollcall.OpEndUser, Room: hall, User: ana, Reason: rollcall.ReasonKicked})
	s.wantStory("ana", "ana kicked")
	for _, l := range leases {
		if outcome, reason := s.renew(l, 0); outcome != rollcall.Over || reason != rollcall.ReasonKicked {
			s.t.Errorf("%v: outcome %d %s, want over and kicked", l.Connection, outcome, reason)
		}
	}
	if r := s.apply(rollcall.Op{Kind: rollcall.OpEndUser, Room: hall, User: ana, Reason: rollcall.ReasonKicked})[0]; r.Err == nil || r.Err.Code != rollcall.CodeNotFound {
		s.t.Errorf("the second kick: %+v, want not found", r)
	}
}

func resumeOnlyGrantsNothingNew(s *scene) {
	resume := rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1", ResumeOnly: true}
	wantGone := func() {
		s.t.Helper()
		if r := s.apply(resume)[0]; r.Err == nil || r.Err.Code != rollcall.CodeGone {
			s.t.Errorf("got %+v, want gone", r)
		}
	}
	wantGone()
	l := s.open(ana, "c1")
	s.do(resume)
	l = s.do(resume).Lease
	s.do(endOp(l, rollcall.ReasonLeft))
	wantGone()
	s.wantStory("ana", "ana left")
}

func emptyRoomReadsEmpty(s *scene) {
	before := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: hall})
	if before.Count != 0 || before.Connections != 0 || len(before.Members) != 0 || before.Version <= 0 || before.Epoch == "" {
		s.t.Errorf("got %+v", before)
	}
	l := s.open(ana, "c1")
	here := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: hall})
	s.do(endOp(l, rollcall.ReasonLeft))
	after := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: hall})
	if after.Count != 0 || len(after.Members) != 0 {
		s.t.Errorf("got %+v", after)
	}
	// A viewer that holds any of these versions applies the changes that follow.
	s.open(bo, "c1")
	again := s.read(rollcall.Query{Want: rollcall.WantSnapshot, Room: hall})
	if !(before.Version < here.Version && here.Version < after.Version && after.Version < again.Version) {
		s.t.Errorf("versions %d %d %d %d, want them to rise", before.Version, here.Version, after.Version, again.Version)
	}
	s.wantStory("ana", "ana left", "bo")
}

func resultsInOrder(s *scene) {
	var ops []rollcall.Op
	for i := range 100 {
		ops = append(ops, rollcall.Op{Kind: rollcall.OpGrant, Room: rollcall.RoomID(fmt.Sprintf("room%d", i%40)), User: rollcall.UserID(fmt.Sprintf("u%d", i)), Connection: "c"})
	}
	for i, r := range s.apply(ops...) {
		if r.Err != nil || r.Lease.Room != ops[i].Room || r.Lease.User != ops[i].User || r.Member == nil || r.Member.User != ops[i].User {
			s.t.Fatalf("result %d of %s: %+v", i, showOp(&ops[i]), r)
		}
		// Read your writes.
		a := s.read(rollcall.Query{Want: rollcall.WantUsers, Room: ops[i].Room, Users: []rollcall.UserID{ops[i].User}})
		if len(a.Members) != 1 || a.Version < r.Version {
			s.t.Fatalf("%q is not in %q at version %d", ops[i].User, ops[i].Room, r.Version)
		}
	}
}

// A28, A29.
func anyUTF8IsAnID(s *scene) {
	ids := []string{"a|b", "a:b", "*", "__proto__", "a\x00b", "{x}", " ", "\n", "\u00e9", "e\u0301", "\U0001f600", "room/1?x=%2F", strings.Repeat("\u00e9", rollcall.MaxID/2)}
	for _, room := range ids {
		for _, user := range ids {
			s.do(rollcall.Op{Kind: rollcall.OpGrant, Room: rollcall.RoomID(room), User: rollcall.UserID(user), Connection: "c|{1}"})
		}
	}
	for _, room := range ids {
		a := s.read(rollcall.Query{Want: rollcall.WantPage, Room: rollcall.RoomID(room), Limit: 100})
		if a.Count != len(ids) || len(a.Members) != len(ids) {
			s.t.Fatalf("%q: count %d, %d members, want %d", room, a.Count, len(a.Members), len(ids))
		}
		for i, m := range a.Members {
			if want := ids[len(ids)-1-i]; string(m.User) != want {
				s.t.Errorf("place %d of %q: %q, want %q", i, room, m.User, want)
			}
		}
	}
}

func closeEndsEverything(s *scene) {
	s.open(ana, "c1")
	s.wantStory("ana")
	if err := s.store.Close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
	ctx := context.Background()
	if _, err := s.store.Apply(ctx, []rollcall.Op{{Kind: rollcall.OpGrant, Room: hall, User: bo, Connection: "c"}}); err == nil {
		s.t.Error("a closed store applied an operation")
	}
	if _, err := s.store.Read(ctx, rollcall.Query{Want: rollcall.WantRoom, Room: hall}); err == nil {
		s.t.Error("a closed store answered a query")
	}
	if events, _ := s.watcher.take(); len(events) > 0 {
		s.t.Errorf("a closed store told %v", events)
	}
}
