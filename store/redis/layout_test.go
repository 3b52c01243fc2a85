package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/vmihailenco/msgpack/v5"

	"rollcall"
)

var write = flag.Bool("layout.write", false, "write testdata/layout1.json anew: what this release keeps")

// releases is a store of this release, and a way around it.
type releases struct {
	*Store
	t      *testing.T
	log    *bytes.Buffer
	frames chan *rollcall.Frame
}

func newReleases(t *testing.T) *releases {
	addr, _ := startServer(t, "redis-server")
	r := &releases{t: t, log: new(bytes.Buffer), frames: make(chan *rollcall.Frame, 100)}
	var err error
	r.Store, err = Open(context.Background(), Options{
		URL: "redis://" + addr, Timing: rollcall.Timing{Lease: 30 * time.Second, Beat: 9 * time.Second, CloseGrace: time.Second},
		Logger: slog.New(slog.NewTextHandler(r.log, nil)), Sweep: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *releases) grant(user rollcall.UserID, connection rollcall.ConnectionID, more ...rollcall.Op) []rollcall.Result {
	r.t.Helper()
	ops := append([]rollcall.Op{{
		Kind: rollcall.OpGrant, Room: "lobby", User: user, Connection: connection, Info: json.RawMessage(`{"name":"Ana"}`),
		Status: rollcall.StatusIdle, Data: json.RawMessage(`{"n":1}`),
	}}, more...)
	results, err := r.Apply(context.Background(), ops)
	if err != nil {
		r.t.Fatal(err)
	}
	return results
}

func (r *releases) read(want rollcall.Want) rollcall.Answer {
	r.t.Helper()
	a, err := r.Read(context.Background(), rollcall.Query{Want: want, Room: "lobby", Limit: 10, Users: []rollcall.UserID{"ana", "ben"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func users(a rollcall.Answer) (names []string) {
	for _, m := range a.Members {
		names = append(names, string(m.User))
	}
	slices.Sort(names)
	return names
}

func (r *releases) key(what string) string {
	return r.parts[rollcall.PartitionOf("lobby")].prefix + what
}

func (r *releases) do(args ...string) rueidis.RedisResult {
	r.t.Helper()
	res := r.client.Do(context.Background(), r.client.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		r.t.Fatal(args, err)
	}
	return res
}

// record reads and writes the record of a user as any release may have left it.
func (r *releases) record(user string) (values []any) {
	r.t.Helper()
	raw, _ := r.do("HGET", r.key("u:lobby"), user).ToString()
	if err := msgpack.Unmarshal([]byte(raw), &values); err != nil {
		r.t.Fatalf("the record of %s: %v", user, err)
	}
	return values
}

func (r *releases) put(user string, values ...any) {
	r.t.Helper()
	raw, err := msgpack.Marshal(values)
	if err != nil {
		r.t.Fatal(err)
	}
	r.do("HSET", r.key("u:lobby"), user, string(raw))
}

// publish tells a frame after the newest one.
func (r *releases) publishFrame(frame func(seq int64) []any) {
	r.t.Helper()
	seq, _ := r.do("HINCRBY", r.key("c"), "seq", "1").AsInt64()
	raw, err := msgpack.Marshal(frame(seq))
	if err != nil {
		r.t.Fatal(err)
	}
	r.do("PUBLISH", r.channel(&r.parts[rollcall.PartitionOf("lobby")]), string(raw))
}

// next is the next frame of the lobby's partition.
func (r *releases) next() *rollcall.Frame {
	r.t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		select {
		case f := <-r.frames:
			if f.Partition == rollcall.PartitionOf("lobby") {
				return f
			}
		case <-deadline:
			r.t.Fatal("no frame comes")
		}
	}
}

// A later release adds fields to what it keeps and tells. This one reads past them,
// changes what it knows, and keeps them.
func TestFieldsOfALaterReleaseAreKept(t *testing.T) {
	r := newReleases(t)
	r.Feed(func(f *rollcall.Frame) { r.frames <- f })
	r.grant("ana", "c1")
	r.next()
	rec := r.record("ana")
	lease := rec[7].([]any)[0].([]any)
	rec[7] = []any{append(lease, "more of the lease", []any{1, "x"})}
	r.put("ana", append(rec, "more of the user", map[string]any{"k": 1.5})...)

	for _, want := range []rollcall.Want{rollcall.WantSnapshot, rollcall.WantPage, rollcall.WantUsers} {
		if a := r.read(want); !slices.Equal(users(a), []string{"ana"}) || string(a.Members[0].Data) != `{"n":1}` {
			t.Errorf("read %v: %+v", want, a.Members)
		}
	}
	if in, err := r.Inspect(context.Background(), "lobby", ""); err != nil || len(in.Users) != 1 || len(in.Users[0].Leases) != 1 {
		t.Errorf("inspect: %+v, %v", in, err)
	}
	results := r.grant("ana", "c2", rollcall.Op{Kind: rollcall.OpSet, Room: "lobby", User: "ana", Connection: "c1", Status: rollcall.StatusActive})
	if m := results[1].Member; results[1].Err != nil || m.Status != rollcall.StatusActive || m.Connections != 2 {
		t.Errorf("a change of who has more fields: %+v", results[1])
	}
	rec = r.record("ana")
	if fmt.Sprint(rec[8:]) != "[more of the user map[k:1.5]]" || fmt.Sprint(rec[7].([]any)[0].([]any)[9:]) != "[more of the lease [1 x]]" {
		t.Errorf("the fields of a later release are now %v of %v", rec[8:], rec[7])
	}
	r.next()

	epoch, _ := r.do("HGET", r.key("c"), "epoch").ToString()
	r.publishFrame(func(seq int64) []any {
		member := []any{"ben", `{"name":"Ben"}`, 3, 1, 1764500000000, `{}`, "more of the member"}
		change := []any{"lobby", 5, 6, 2, []any{member}, false, []any{[]any{"cleo", 1, "more"}}, []any{[]any{"c9", "cleo", 3, 1, "more"}}, 0, false, "more"}
		return []any{1, epoch, seq, []any{change}, []any{[]any{"ben", 3, 6, "more"}}, []any{[]any{"dan", "", 7, "more"}}, "more of the frame"}
	})
	f := r.next()
	if len(f.Changes) != 1 || f.Gap {
		t.Fatalf("the frame of a later release: %+v", f)
	}
	if ch := f.Changes[0]; len(ch.Join) != 1 || ch.Join[0].User != "ben" || len(ch.Leave) != 1 || len(ch.Ended) != 1 || ch.Count != 2 {
		t.Errorf("its change: %+v", ch)
	}
	if len(f.Users) != 1 || len(f.Revoked) != 1 || f.Revoked[0].User != "dan" {
		t.Errorf("what it tells of users: %+v, %+v", f.Users, f.Revoked)
	}
	if n := r.Unknown(); n != 0 {
		t.Errorf("%d values were not understood", n)
	}
}

// What a later release keeps in a layout of its own is left alone: nobody else is
// any the worse for it, and the log tells once.
func TestLayoutsOfALaterReleaseAreLeftAlone(t *testing.T) {
	r := newReleases(t)
	r.Feed(func(f *rollcall.Frame) { r.frames <- f })
	r.grant("ana", "c1")
	r.next()
	r.put("ben", 2, "packed in a way of its own")
	r.do("ZADD", r.key("l"), "0", "\x02 a name of its own")
	name := leaseName(&rollcall.Lease{Room: "lobby", User: "ben", Connection: "b1", Generation: 7})
	r.do("ZADD", r.key("l"), "1", name)

	for _, want := range []rollcall.Want{rollcall.WantSnapshot, rollcall.WantPage, rollcall.WantUsers} {
		if a := r.read(want); !slices.Equal(users(a), []string{"ana"}) {
			t.Errorf("read %v: %q", want, users(a))
		}
	}
	if in, err := r.Inspect(context.Background(), "lobby", ""); err != nil || len(in.Users) != 1 {
		t.Errorf("inspect: %+v, %v", in, err)
	}
	for range 3 {
		if err := r.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := r.do("ZCARD", r.key("l")).AsInt64(); n != 3 {
		t.Errorf("%d leases are left, want all 3: whoever wrote them ends them", n)
	}
	results := r.grant("ben", "b2",
		rollcall.Op{Kind: rollcall.OpSet, Room: "lobby", User: "ben", Connection: "b1", Status: rollcall.StatusActive},
		rollcall.Op{Kind: rollcall.OpEndUser, Room: "lobby", User: "ben", Reason: rollcall.ReasonKicked},
		rollcall.Op{Kind: rollcall.OpSet, Room: "lobby", User: "ana", Connection: "c1", Status: rollcall.StatusActive})
	for i, res := range results[:3] {
		if res.Err == nil || res.Err.Code != rollcall.CodeUnavailable {
			t.Errorf("operation %d on a record of a later release: %+v", i, res)
		}
	}
	if results[3].Err != nil || results[3].Member.Status != rollcall.StatusActive {
		t.Errorf("an operation of the same batch on another user: %+v", results[3])
	}
	if rec := r.record("ben"); len(rec) != 2 {
		t.Errorf("the record has become %v", rec)
	}
	// Its own lease of a user whom the later release has taken over is not lost.
	renewals := []rollcall.Renewal{{Lease: &rollcall.Lease{Room: "lobby", User: "ben", Connection: "b3", Generation: 9}}}
	if err := r.Renew(context.Background(), renewals); err != nil || renewals[0].Outcome != rollcall.Renewed {
		t.Errorf("renewal: %v, %v", renewals[0].Outcome, err)
	}
	r.next()

	r.publishFrame(func(seq int64) []any { return []any{2, "what follows", seq} })
	if f := r.next(); !f.Gap {
		t.Errorf("a frame of a later release: %+v, want a gap that is read again", f)
	}
	if r.Unknown() < 5 {
		t.Errorf("%d values were not understood", r.Unknown())
	}
	r.Close()
	if n := strings.Count(r.log.String(), "a later release"); n != 1 {
		t.Errorf("the log tells %d times of a later release, want once:\n%s", n, r.log)
	}
}

// However many leases that a later release should have ended lie before them, those
// of this release end, and the sweep comes to an end.
func TestLeasesEndBehindThoseOfALaterRelease(t *testing.T) {
	r := newReleases(t)
	ours := r.grant("ana", "c1")[0].Lease
	r.put("ben", 2, "packed in a way of its own")
	for i := range 3 * tickMost {
		r.do("ZADD", r.key("l"), "0", fmt.Sprintf("\x02 name %d", i))
		theirs := leaseName(&rollcall.Lease{Room: "lobby", User: "ben", Connection: "b1", Generation: rollcall.Generation(7 + i)})
		r.do("ZADD", r.key("l"), "1", theirs)
	}
	r.do("ZADD", r.key("l"), "2", leaseName(&ours))
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.read(rollcall.WantSnapshot); len(users(a)) != 0 {
		t.Errorf("%q are here, whose leases ran out", users(a))
	}
	if n, _ := r.do("ZCARD", r.key("l")).AsInt64(); n != 6*tickMost {
		t.Errorf("%d leases are left, want the %d of the later release", n, 6*tickMost)
	}
}

// kept is a key as a release has left it.
type kept struct {
	Hash map[string][]byte  `json:",omitempty"`
	Set  map[string]float64 `json:",omitempty"` // by the name in hex
}

const keptFile = "testdata/layout1.json"

// What releases of this layout have kept is read, renewed and ended by this one.
func TestWhatEarlierReleasesKeptIsRead(t *testing.T) {
	r := newReleases(t)
	if *write {
		r.grant("ana", "c1", rollcall.Op{Kind: rollcall.OpGrant, Room: "lobby", User: "ana", Connection: "c2", Status: rollcall.StatusAway})
		r.grant("ben", "b1")
		r.writeKept()
	}
	r.do("FLUSHALL", "ASYNC")
	text, err := os.ReadFile(keptFile)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]kept
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		for field, value := range all[key].Hash {
			r.do("HSET", key, field, string(value))
		}
		for name, score := range all[key].Set {
			var raw []byte
			fmt.Sscanf(name, "%x", &raw)
			r.do("ZADD", key, fmt.Sprintf("%.0f", score), string(raw))
		}
	}
	a := r.read(rollcall.WantSnapshot)
	if !slices.Equal(users(a), []string{"ana", "ben"}) || a.Count != 2 || a.Connections != 3 {
		t.Fatalf("read: %q, %+v", users(a), a)
	}
	for _, m := range a.Members {
		if m.Status != rollcall.StatusIdle || string(m.Data) != `{"n":1}` || string(m.Info) != `{"name":"Ana"}` || m.Since == 0 {
			t.Errorf("%+v", m)
		}
	}
	in, err := r.Inspect(context.Background(), "lobby", "ben")
	if err != nil || len(in.Users) != 1 || len(in.Users[0].Leases) != 1 {
		t.Fatalf("inspect: %+v, %v", in, err)
	}
	lease := &rollcall.Lease{Room: "lobby", User: "ben", Connection: "b1", Generation: in.Users[0].Leases[0].Generation}
	renewals := []rollcall.Renewal{{Lease: lease}}
	if err := r.Renew(context.Background(), renewals); err != nil || renewals[0].Outcome != rollcall.Renewed {
		t.Errorf("renewal: %v, %v", renewals[0].Outcome, err)
	}
	if at, err := r.Users(context.Background(), []rollcall.UserID{"ana"}); err != nil || at.Users[0].Status != rollcall.StatusIdle {
		t.Errorf("where ana is: %+v, %v", at, err)
	}
	for name := range all[r.key("l")].Set { // their time runs out
		var raw []byte
		fmt.Sscanf(name, "%x", &raw)
		r.do("ZADD", r.key("l"), "0", string(raw))
	}
	if err := r.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a := r.read(rollcall.WantSnapshot); a.Count != 0 || a.Connections != 0 || len(a.Members) > 0 {
		t.Errorf("after their time: %+v", a)
	}
}

// writeKept writes what is kept now.
func (r *releases) writeKept() {
	r.t.Helper()
	if _, err := r.Users(context.Background(), []rollcall.UserID{"ana", "ben"}); err != nil { // flushes the index
		r.t.Fatal(err)
	}
	keys, err := r.client.Do(context.Background(), r.client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	all := make(map[string]kept)
	for _, key := range keys {
		kind, _ := r.do("TYPE", key).ToString()
		k := kept{Hash: make(map[string][]byte), Set: make(map[string]float64)}
		switch kind {
		case "hash":
			fields, err := r.do("HGETALL", key).AsStrMap()
			if err != nil {
				r.t.Fatal(err)
			}
			for field, value := range fields {
				k.Hash[field] = []byte(value)
			}
		case "zset":
			scores, err := r.do("ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
			if err != nil {
				r.t.Fatal(err)
			}
			for _, s := range scores {
				k.Set[fmt.Sprintf("%x", s.Member)] = s.Score
			}
		}
		all[key] = k
	}
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(keptFile, append(text, '\n'), 0o644); err != nil {
		r.t.Fatal(err)
	}
}
