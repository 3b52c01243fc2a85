package client

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

func member(user rollcall.UserID, since int64) *rollcall.Member {
	return &rollcall.Member{User: user, Status: rollcall.StatusActive, Connections: 1, Since: since}
}

// said is changes in a form that reads well: "join ana 2".
func said(changes []Change) []string {
	var list []string
	for _, c := range changes {
		s := c.Kind.String()
		if c.Member != nil {
			s += " " + string(c.Member.User)
		}
		if c.Reason != rollcall.ReasonNone {
			s += " " + c.Reason.String()
		}
		list = append(list, s+" "+string(rune('0'+c.Count)))
	}
	return list
}

func full(epoch string, version rollcall.Version, members ...*rollcall.Member) *wire.Snapshot {
	return &wire.Snapshot{Room: "r", Epoch: rollcall.Epoch(epoch), Version: version, Mode: wire.ModeFull, Count: len(members), Members: members}
}

// step is one event and what a roster makes of it.
type rosterStep struct {
	event   any
	asked   bool
	after   time.Duration // since the step before
	changes []string
	gap     bool
}

func TestRosterAppliesWhatFitsAndFindsGaps(t *testing.T) {
	ana, bob, cy := member("ana", 1), member("bob", 2), member("cy", 3)
	idle := *ana
	idle.Status = rollcall.StatusIdle
	diff := func(prev, version rollcall.Version, d rollcall.Diff) *rollcall.Diff {
		d.Prev, d.Version = prev, version
		return &d
	}
	settling := full("e2", 50, ana)
	settling.Settling = time.Second
	counts := &wire.Snapshot{Room: "r", Epoch: "e1", Version: 20, Mode: wire.ModeCounts, Count: 7, Sample: []*rollcall.Member{ana}}

	tests := map[string][]rosterStep{
		"a diff that follows": {
			{event: full("e1", 10, bob, ana), changes: []string{"snapshot 2"}},
			{event: diff(10, 11, rollcall.Diff{Join: []*rollcall.Member{cy}, Update: []*rollcall.Member{&idle}, Leave: []rollcall.Leave{{User: "bob", Reason: rollcall.ReasonClosed}}}),
				changes: []string{"leave bob closed 1", "join cy 2", "update ana 2"}},
		},
		"a diff that was applied before": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: diff(9, 10, rollcall.Diff{Join: []*rollcall.Member{ana}})},
		},
		"a diff that follows another state": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: diff(11, 12, rollcall.Diff{Join: []*rollcall.Member{bob}}), gap: true},
		},
		"a diff before anything": {
			{event: diff(11, 12, rollcall.Diff{Join: []*rollcall.Member{bob}}), gap: true},
		},
		"an update of somebody who is not here": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: diff(10, 11, rollcall.Diff{Update: []*rollcall.Member{bob}})},
		},
		"a snapshot after a reconnect tells what changed": {
			{event: full("e1", 10, bob, ana), changes: []string{"snapshot 2"}},
			{event: full("e1", 14, cy, &idle), changes: []string{"leave bob 1", "update ana 1", "join cy 2"}},
		},
		"a snapshot that is behind": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: full("e1", 9, bob), gap: true},
			{event: full("e1", 9, bob), asked: true, changes: []string{"leave ana 0", "join bob 1"}},
		},
		"a store that lost its memory": {
			{event: full("e1", 10, bob, ana), changes: []string{"snapshot 2"}},
			{event: settling},
			{event: diff(50, 51, rollcall.Diff{Join: []*rollcall.Member{bob}})},
			{after: 2 * time.Second},
		},
		"members that do not come back": {
			{event: full("e1", 10, bob, ana), changes: []string{"snapshot 2"}},
			{event: settling},
			{after: 500 * time.Millisecond},
			{after: 500 * time.Millisecond, changes: []string{"leave bob 1"}},
		},
		"resumed": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: &wire.Resumed{Epoch: "e1", Version: 10}},
			{event: &wire.Resumed{Epoch: "e1", Version: 11}, gap: true},
			{event: &wire.Resumed{Epoch: "e2", Version: 10}, gap: true},
		},
		"counts": {
			{event: full("e1", 10, ana), changes: []string{"snapshot 1"}},
			{event: &wire.Count{Version: 11, Count: 3}, gap: true},
			{event: counts, changes: []string{"snapshot 7"}},
			{event: &wire.Count{Version: 21, Count: 8}, changes: []string{"count 8"}},
			{event: &wire.Count{Version: 20, Count: 7}},
			{event: diff(21, 22, rollcall.Diff{Join: []*rollcall.Member{bob}}), gap: true},
			{event: full("e1", 30, ana), changes: []string{"snapshot 1"}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var r roster
			now := time.Unix(0, 0)
			for i, s := range steps {
				now = now.Add(s.after)
				var (
					changes []Change
					gap     bool
				)
				switch e := s.event.(type) {
				case *wire.Snapshot:
					changes, gap = r.replace(e, s.asked, now)
				case *rollcall.Diff:
					changes, gap = r.apply(e)
				case *wire.Count:
					changes, gap = r.recount(e)
				case *wire.Resumed:
					gap = r.confirm(e)
				default:
					changes = r.settle(now)
				}
				if d := cmp.Diff(s.changes, said(changes)); d != "" || gap != s.gap {
					t.Errorf("step %d: gap %v, want %v; changes (-want +got):\n%s", i, gap, s.gap, d)
				}
			}
		})
	}
}

func TestStaleMembersStayListed(t *testing.T) {
	var r roster
	now := time.Unix(0, 0)
	r.replace(full("e1", 10, member("bob", 2), member("ana", 1)), false, now)
	s := full("e2", 50, member("ana", 1))
	s.Settling = time.Second
	r.replace(s, false, now)
	if r.size() != 2 || !r.stale["bob"] || r.stale["ana"] {
		t.Errorf("size %d, stale %v: want bob to stay, stale", r.size(), r.stale)
	}
	var users []rollcall.UserID
	for _, m := range r.list() {
		users = append(users, m.User)
	}
	if d := cmp.Diff([]rollcall.UserID{"bob", "ana"}, users); d != "" {
		t.Errorf("newest join first (-want +got):\n%s", d)
	}
}

func TestSlowReaderGetsTheNewestStateAndNoBacklog(t *testing.T) {
	f := feed{ch: make(chan Change, changesKept)}
	snapshot := func() Change { return Change{Kind: KindSnapshot, Count: 5} }
	for range changesKept {
		f.put([]Change{{Kind: KindJoin}}, snapshot)
	}
	f.put([]Change{{Kind: KindJoin}, {Kind: KindState}}, snapshot)
	f.close()
	var got []Kind
	for c := range f.ch {
		got = append(got, c.Kind)
	}
	if d := cmp.Diff([]Kind{KindSnapshot, KindState}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBackoffIsFullJitterAndHonoursTheServer(t *testing.T) {
	half := func() float64 { return 0.5 }
	none := &ending{}
	tests := []struct {
		failures int
		ending   *ending
		want     time.Duration
	}{
		{0, none, 150 * time.Millisecond},
		{1, none, 500 * time.Millisecond},
		{2, none, time.Second},
		{4, none, 4 * time.Second},
		{6, none, 10 * time.Second},
		{60, none, 10 * time.Second},
		{0, &ending{after: 4 * time.Second}, 4 * time.Second},
		{1, &ending{after: 4 * time.Second, spread: 2 * time.Second}, 5 * time.Second},
		{6, &ending{after: 4 * time.Second}, 10 * time.Second},
	}
	for _, tt := range tests {
		if got := backoff(tt.failures, tt.ending, half); got != tt.want {
			t.Errorf("after %d failures and a wish of %v: %v, want %v", tt.failures, tt.ending.after, got, tt.want)
		}
	}
}

func TestEndingsSayWhetherToComeBack(t *testing.T) {
	tests := map[string]struct {
		got  *ending
		want verdict
	}{
		"draining":      {judgeBye(&wire.Bye{Reason: wire.ByeDraining, Reconnect: time.Second}), again},
		"expired":       {judgeBye(&wire.Bye{Reason: wire.ByeExpired, Reconnect: 0}), again},
		"kicked":        {judgeBye(&wire.Bye{Reason: wire.ByeKicked, Reconnect: wire.DontReconnect}), stop},
		"replaced":      {judgeBye(&wire.Bye{Reason: wire.ByeReplaced, Reconnect: wire.DontReconnect}), fresh},
		"token":         {judgeBye(&wire.Bye{Reason: wire.ByeToken, Reconnect: wire.DontReconnect}), token},
		"4400":          {judgeClose(4400, ""), stop},
		"4401":          {judgeClose(4401, ""), token},
		"4403":          {judgeClose(4403, ""), stop},
		"4409":          {judgeClose(4409, ""), fresh},
		"4413":          {judgeClose(4413, ""), stop},
		"4499":          {judgeClose(4499, ""), stop},
		"4500":          {judgeClose(4500, ""), again},
		"4503":          {judgeClose(4503, ""), again},
		"going away":    {judgeClose(1001, ""), again},
		"normal":        {judgeClose(1000, ""), again},
		"401":           {judgeAnswer(401, nil, nil), token},
		"403":           {judgeAnswer(403, nil, nil), stop},
		"a proxy's 502": {judgeAnswer(502, nil, nil), again},
		"503":           {judgeAnswer(503, map[string][]string{"Retry-After": {"7"}}, nil), again},
	}
	for name, tt := range tests {
		if tt.got.verdict != tt.want {
			t.Errorf("%s: verdict %d, want %d", name, tt.got.verdict, tt.want)
		}
	}
	if e := tests["503"].got; e.after != 7*time.Second || e.spread == 0 {
		t.Errorf("Retry-After 7: after %v, spread %v", e.after, e.spread)
	}
}
