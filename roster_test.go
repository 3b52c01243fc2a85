package rollcall_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall"
)

func person(user string, since int64) *rollcall.Member {
	return &rollcall.Member{User: rollcall.UserID(user), Status: rollcall.StatusActive, Connections: 1, Since: since}
}

func snapshotAt(version rollcall.Version, members ...*rollcall.Member) *rollcall.Answer {
	return &rollcall.Answer{Epoch: "e", Version: version, Count: len(members), Members: members}
}

// diffText is a diff in short: +join ~update -leave.
func diffText(d rollcall.Diff, ok bool) string {
	if !ok {
		return "unknown"
	}
	var words []string
	for _, m := range d.Join {
		words = append(words, "+"+string(m.User))
	}
	for _, m := range d.Update {
		words = append(words, "~"+string(m.User))
	}
	for _, l := range d.Leave {
		words = append(words, "-"+string(l.User)+" "+l.Reason.String())
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

type change struct {
	version              rollcall.Version
	join, update, leaves string
}

// advance applies changes one after the other.
func advance(t *testing.T, r *rollcall.Roster, changes ...change) {
	t.Helper()
	for _, c := range changes {
		full := rollcall.Change{Prev: r.Version(), Version: c.version}
		if c.join != "" {
			full.Join = append(full.Join, person(c.join, int64(c.version)))
		}
		if c.update != "" {
			m := person(c.update, 1)
			m.Data = json.RawMessage(fmt.Sprintf(`{"v":%d}`, c.version))
			full.Update = append(full.Update, m)
		}
		if c.leaves != "" {
			full.Leave = append(full.Leave, rollcall.Leave{User: rollcall.UserID(c.leaves), Reason: rollcall.ReasonLeft})
		}
		if !r.Apply(&full) {
			t.Fatalf("the change to %d was refused at %d", c.version, r.Version())
		}
	}
}

func TestSinceIsTheNetDifference(t *testing.T) {
	tests := []struct {
		name    string
		changes []change
		want    string
	}{
		{"nothing", nil, ""},
		{"join", []change{{version: 11, join: "bo"}}, "+bo"},
		{"join and update", []change{{version: 11, join: "bo"}, {version: 12, update: "bo"}}, "+bo"},
		{"updates", []change{{version: 11, update: "ana"}, {version: 12, update: "ana"}}, "~ana"},
		{"leave", []change{{version: 11, leaves: "ana"}}, "-ana left"},
		{"update and leave", []change{{version: 11, update: "ana"}, {version: 12, leaves: "ana"}}, "-ana left"},
		{"came and went", []change{{version: 11, join: "bo"}, {version: 12, leaves: "bo"}}, ""},
		{"went and came back", []change{{version: 11, leaves: "ana"}, {version: 12, join: "ana"}}, "~ana"},
		{"went, came back and was updated", []change{{version: 11, leaves: "ana"}, {version: 12, join: "ana"}, {version: 13, update: "ana"}}, "~ana"},
		{"went, came and went", []change{{version: 11, leaves: "ana"}, {version: 12, join: "ana"}, {version: 13, leaves: "ana"}}, "-ana left"},
		{"went and came twice", []change{{version: 11, leaves: "ana"}, {version: 12, join: "ana"}, {version: 13, leaves: "ana"}, {version: 14, join: "ana"}}, "~ana"},
		{"came, went and came", []change{{version: 11, join: "bo"}, {version: 12, leaves: "bo"}, {version: 13, join: "bo"}}, "+bo"},
	}
	for _, test := range tests {
		r := rollcall.NewRoster(snapshotAt(10, person("ana", 1), person("cy", 1)))
		advance(t, r, test.changes...)
		d, ok := r.Since(10)
		if got := diffText(d, ok); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if d.Prev != 10 || d.Version != r.Version() || d.Count != r.Count() {
			t.Errorf("%s: from %d to %d with count %d, want from 10 to %d with %d", test.name, d.Prev, d.Version, d.Count, r.Version(), r.Count())
		}
	}
}

func TestSinceIsUnknownOutsideOfItsReach(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	advance(t, r, change{version: 12, join: "bo"})
	for v, want := range map[rollcall.Version]bool{0: false, 9: false, 10: true, 11: true, 12: true, 13: false} {
		if _, ok := r.Since(v); ok != want {
			t.Errorf("Since(%d) is known: %v, want %v", v, ok, want)
		}
	}
}

// TestRosterForgetsDepartures: a roster does not grow by those who have left, and
// does not tell half of what it has forgotten.
func TestRosterForgetsDepartures(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	v := rollcall.Version(10)
	for i := range 1000 {
		user := fmt.Sprintf("u%d", i)
		advance(t, r, change{version: v + 1, join: user}, change{version: v + 2, leaves: user})
		v += 2
	}
	if _, ok := r.Since(10); ok {
		t.Error("a thousand departures are remembered")
	}
	for _, back := range []rollcall.Version{0, 2, 100, 200} {
		d, ok := r.Since(v - back)
		if got := diffText(d, ok); got != "" {
			t.Errorf("%d versions ago: %q, want nothing", back, got)
		}
	}
}

func TestGapIsNoticed(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	if r.Apply(&rollcall.Change{Prev: 11, Version: 12, Join: []*rollcall.Member{person("bo", 1)}}) {
		t.Error("a change after one that was missed was taken")
	}
	// The room was forgotten in between: what is held cannot be right.
	if r.Apply(&rollcall.Change{Prev: 0, Version: 12, Join: []*rollcall.Member{person("bo", 1)}}) {
		t.Error("a change of a new room was taken by a roster of the old one")
	}
	if r.Version() != 10 || r.Count() != 1 || r.Member("ana") == nil || r.Member("bo") != nil {
		t.Errorf("a refused change changed the roster: %d members at %d", r.Count(), r.Version())
	}
	if !r.Apply(&rollcall.Change{Prev: 8, Version: 9, Leave: []rollcall.Leave{{User: "ana"}}}) || r.Count() != 1 {
		t.Error("a change that is part of the snapshot is no fault, and changes nothing")
	}
	empty := rollcall.NewRoster(snapshotAt(10))
	if !empty.Apply(&rollcall.Change{Prev: 0, Version: 12, Join: []*rollcall.Member{person("bo", 1)}}) || empty.Count() != 1 {
		t.Error("the first join of a room did not follow its emptiness")
	}
}

// A09: an update of somebody who has left does not bring them back.
func TestUpdateNeverCreatesAMember(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	advance(t, r, change{version: 11, leaves: "ana"}, change{version: 12, update: "ana"})
	if r.Count() != 0 || r.Member("ana") != nil || len(r.Members()) != 0 {
		t.Errorf("%d members, want none", r.Count())
	}
	d, ok := r.Since(10)
	if got := diffText(d, ok); got != "-ana left" {
		t.Errorf("got %q, want the leave alone", got)
	}
}

func TestMendTellsTheDifference(t *testing.T) {
	ana, bo, cy, dee := person("ana", 1), person("bo", 2), person("cy", 3), person("dee", 4)
	r := rollcall.NewRoster(snapshotAt(10, cy, bo, ana))
	same, moved := *ana, *bo
	moved.Status = rollcall.StatusIdle
	back := *cy
	back.Since = 9 // left and came back while nobody looked
	r.Mend(snapshotAt(20, dee, &back, &moved, &same))
	d, ok := r.Since(10)
	if got := diffText(d, ok); got != "+dee, ~bo, ~cy" {
		t.Errorf("got %q, want +dee, ~bo, ~cy", got)
	}
	r.Mend(snapshotAt(30, dee))
	d, ok = r.Since(20)
	if got := diffText(d, ok); got != "-ana expired, -bo expired, -cy expired" {
		t.Errorf("got %q", got)
	}
	r.Mend(snapshotAt(25, ana))
	if r.Version() != 30 || r.Count() != 1 {
		t.Error("an older snapshot was taken")
	}
	// More leave at once than a roster remembers.
	var many []*rollcall.Member
	for i := range 1000 {
		many = append(many, person(fmt.Sprintf("u%d", i), 1))
	}
	r.Mend(snapshotAt(40, many...))
	r.Mend(snapshotAt(50))
	if d, ok := r.Since(40); ok && len(d.Leave) != 1000 {
		t.Errorf("%d of 1000 leaves are told as if they were all", len(d.Leave))
	}
	if d, ok := r.Since(50); !ok || !d.Empty() {
		t.Errorf("since now: %+v, %v", d, ok)
	}
}

func TestMendOverEpochs(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	r.Mend(&rollcall.Answer{Epoch: "f", Version: 20, Members: []*rollcall.Member{person("ana", 1)}})
	if d, ok := r.Since(10); !ok || !d.Empty() || r.Epoch() != "f" {
		t.Errorf("a new epoch with the same people told %+v, %v", d, ok)
	}
	// The clock of the new memory is behind: nothing that was known can be used.
	r.Mend(&rollcall.Answer{Epoch: "g", Version: 5, Members: []*rollcall.Member{person("bo", 1)}})
	if r.Epoch() != "g" || r.Version() != 5 || r.Count() != 1 || r.Member("bo") == nil {
		t.Errorf("epoch %q version %d with %d members", r.Epoch(), r.Version(), r.Count())
	}
	for _, v := range []rollcall.Version{10, 20} {
		if _, ok := r.Since(v); ok {
			t.Errorf("a version %d of another epoch is known", v)
		}
	}
}

// A store that lost its memory says that it settles: nobody is removed until it
// has, those who come back are no news, and in the end the missing have expired.
func TestMendWhileTheStoreSettles(t *testing.T) {
	ana, bo := person("ana", 1), person("bo", 1)
	r := rollcall.NewRoster(snapshotAt(10, bo, ana))
	r.Mend(&rollcall.Answer{Epoch: "f", Version: 20, Settling: time.Second})
	if r.Count() != 2 || r.Unconfirmed() != 2 {
		t.Fatalf("%d here, %d unconfirmed, want both", r.Count(), r.Unconfirmed())
	}
	again := *ana
	if !r.Apply(&rollcall.Change{Room: "r", Version: 21, Count: 1, Join: []*rollcall.Member{&again}}) {
		t.Fatal("the room that was begun anew was not taken")
	}
	cy := person("cy", 1)
	if !r.Apply(&rollcall.Change{Room: "r", Prev: 21, Version: 22, Count: 2, Join: []*rollcall.Member{cy}}) {
		t.Fatal("a newcomer was not taken")
	}
	d, ok := r.Since(10)
	if !ok || len(d.Join) != 1 || d.Join[0].User != "cy" || len(d.Update)+len(d.Leave) != 0 || d.Count != 3 {
		t.Errorf("viewers were told %+v, %v; want the newcomer alone", d, ok)
	}
	r.Mend(&rollcall.Answer{Epoch: "f", Version: 22, Members: []*rollcall.Member{cy, &again}})
	d, ok = r.Since(22)
	if !ok || len(d.Leave) != 1 || d.Leave[0].User != "bo" || d.Count != 2 || len(d.Join)+len(d.Update) != 0 {
		t.Errorf("after settling viewers were told %+v, %v; want that bo has gone", d, ok)
	}
}

// What a snapshot skipped is known elsewhere, perhaps: whoever comes with a
// version from there is not told what it knows already.
func TestSinceAVersionThatASnapshotSkipped(t *testing.T) {
	ana, bo := person("ana", 1), person("bo", 1)
	r := rollcall.NewRoster(snapshotAt(10, ana))
	r.Mend(snapshotAt(20, bo, ana))
	for v, want := range map[rollcall.Version]bool{9: false, 10: true, 11: false, 15: false, 19: false, 20: true, 21: false} {
		if _, ok := r.Since(v); ok != want {
			t.Errorf("since %d: known %v, want %v", v, ok, want)
		}
	}
}

// A store that took over lacks the last writes, and its versions are behind: who
// was told of later ones needs a snapshot, also once the versions have passed them.
func TestRosterLedBackKnowsNoOlderVersion(t *testing.T) {
	r := rollcall.NewRoster(snapshotAt(10, person("ana", 1)))
	advance(t, r, change{version: 20, join: "ben"})
	behind := snapshotAt(10, person("ana", 1))
	behind.Epoch = "f"
	r.Mend(behind)
	if got := diffText(r.Since(20)); got != "unknown" {
		t.Errorf("since a version that is yet to come: got %s", got)
	}
	advance(t, r, change{version: 30, join: "cy"})
	if got := diffText(r.Since(20)); got != "unknown" {
		t.Errorf("since a version of the old memory: got %s", got)
	}
	advance(t, r, change{version: 31, join: "dee"})
	if got, want := diffText(r.Since(30)), "+dee"; got != want {
		t.Errorf("since a version of the new memory: got %s, want %s", got, want)
	}
}
