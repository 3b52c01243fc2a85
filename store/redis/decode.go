package redis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"rollcall"
)

// reader reads MessagePack as the scripts write it: arrays, with false for
// nothing. After an error it reads zeros.
type reader struct {
	d   *msgpack.Decoder
	err error
}

func newReader(b string) *reader {
	return &reader{d: msgpack.NewDecoder(bytes.NewReader([]byte(b)))}
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("a value of the store cannot be read: %w", err)
	}
}

// nothing takes a false or a nil.
func (r *reader) nothing() bool {
	if r.err != nil {
		return true
	}
	code, err := r.d.PeekCode()
	r.fail(err)
	if err == nil && (code == msgpcode.False || code == msgpcode.Nil) {
		r.fail(r.d.Skip())
		return true
	}
	return err != nil
}

// list begins an array and returns its length; 0 for nothing and for the empty
// table, which a script may write as a map.
func (r *reader) list(most int) int {
	if r.nothing() {
		return 0
	}
	code, err := r.d.PeekCode()
	r.fail(err)
	if r.err == nil && code == msgpcode.FixedMapLow {
		r.fail(r.d.Skip())
		return 0
	}
	n, err := r.d.DecodeArrayLen()
	r.fail(err)
	if n > most {
		r.fail(fmt.Errorf("a list of %d", n))
	}
	if r.err != nil {
		return 0
	}
	return max(n, 0)
}

func (r *reader) text() string {
	if r.nothing() {
		return ""
	}
	b, err := r.d.DecodeBytes()
	r.fail(err)
	return string(b)
}

// object is a JSON object; nil for nothing.
func (r *reader) object() json.RawMessage {
	if s := r.text(); s != "" {
		return json.RawMessage(s)
	}
	return nil
}

func (r *reader) number() int64 {
	if r.err != nil {
		return 0
	}
	code, err := r.d.PeekCode()
	r.fail(err)
	if code == msgpcode.Double || code == msgpcode.Float {
		f, err := r.d.DecodeFloat64()
		r.fail(err)
		return int64(f)
	}
	n, err := r.d.DecodeInt64()
	r.fail(err)
	return n
}

func (r *reader) boolean() bool {
	if r.err != nil {
		return false
	}
	b, err := r.d.DecodeBool()
	r.fail(err)
	return b
}

// fields begins an array that has at least n values.
func (r *reader) fields(n int) int {
	got := r.list(1 << 20)
	if r.err == nil && got < n {
		r.fail(fmt.Errorf("%d values where %d are due", got, n))
	}
	return got
}

func (r *reader) skip(n int) {
	for range n {
		if r.err == nil {
			r.fail(r.d.Skip())
		}
	}
}

// laidOut begins an array whose first value is its layout and which has at least n
// values.
func (r *reader) laidOut(n int) int {
	got := r.list(1 << 20)
	if v := r.number(); r.err == nil && v != layout {
		r.fail(errLayout)
	}
	if r.err == nil && got < n {
		r.fail(fmt.Errorf("%d values where %d are due", got, n))
	}
	return got
}

// member reads {user, info, status, connections, since, data}.
func (r *reader) member() *rollcall.Member {
	n := r.fields(6)
	m := &rollcall.Member{
		User: rollcall.UserID(r.text()), Info: r.object(), Status: rollcall.Status(r.number()),
		Connections: int(r.number()), Since: r.number(), Data: r.object(),
	}
	r.skip(n - 6)
	return m
}

// decodeMember reads one member by itself.
func decodeMember(b string) (*rollcall.Member, error) {
	r := newReader(b)
	m := r.member()
	return m, r.err
}

// decodeFrame reads {layout, epoch, seq, changes, users, revocations}; an older
// release writes no more than the changes.
func decodeFrame(partition int, b string) (*rollcall.Frame, error) {
	r := newReader(b)
	n := r.laidOut(4)
	f := &rollcall.Frame{Partition: partition, Epoch: rollcall.Epoch(r.text()), Seq: uint64(r.number())}
	for n := r.list(1 << 16); n > 0; n-- {
		f.Changes = append(f.Changes, r.change())
	}
	if n >= 6 {
		f.Users, f.Revoked = r.userChanges(), r.revocations()
	}
	return f, r.err
}

// change reads {room, prev, version, count, join, update, leave, ended, mode,
// switched}; the last two are new in this release.
func (r *reader) change() rollcall.Change {
	n := r.fields(8)
	c := rollcall.Change{
		Room: rollcall.RoomID(r.text()), Prev: rollcall.Version(r.number()),
		Version: rollcall.Version(r.number()), Count: int(r.number()),
	}
	c.Join, c.Update = r.members(), r.members()
	for k := r.list(1 << 16); k > 0; k-- {
		w := r.fields(2)
		c.Leave = append(c.Leave, rollcall.Leave{User: rollcall.UserID(r.text()), Reason: rollcall.Reason(r.number())})
		r.skip(w - 2)
	}
	for k := r.list(1 << 16); k > 0; k-- {
		w := r.fields(4)
		c.Ended = append(c.Ended, rollcall.Ended{
			Connection: rollcall.ConnectionID(r.text()), User: rollcall.UserID(r.text()),
			Generation: rollcall.Generation(r.number()), Reason: rollcall.Reason(r.number()),
		})
		r.skip(w - 4)
	}
	if n >= 10 {
		c.Mode, c.Switched = rollcall.Mode(r.number()), r.boolean()
		n -= 2
	}
	r.skip(n - 8)
	return c
}

func (r *reader) members() (all []*rollcall.Member) {
	for n := r.list(1 << 16); n > 0; n-- {
		all = append(all, r.member())
	}
	return all
}

// record is a user of a room as the scripts keep it.
type record struct {
	user   rollcall.UserID
	info   json.RawMessage
	since  int64
	joined rollcall.Version
	shown  int // connections, as last published
	leases []recordLease
}

type recordLease struct {
	connection  rollcall.ConnectionID
	ttl         time.Duration
	status      rollcall.Status
	data        json.RawMessage
	dataVersion rollcall.Version
	closing     bool
}

func decodeRecord(user, b string) (*record, error) {
	r := newReader(b)
	n := r.laidOut(8)
	rec := &record{
		user: rollcall.UserID(user), info: r.object(), since: r.number(),
		joined: rollcall.Version(r.number()), shown: int(r.number()),
	}
	r.skip(2)
	for k := r.list(1 << 16); k > 0; k-- {
		w := r.fields(7)
		l := recordLease{connection: rollcall.ConnectionID(r.text())}
		r.skip(1)
		l.ttl = time.Duration(r.number()) * time.Microsecond
		l.status, l.data = rollcall.Status(r.number()), r.object()
		l.dataVersion, l.closing = rollcall.Version(r.number()), r.number() != 0
		r.skip(w - 7)
		rec.leases = append(rec.leases, l)
	}
	r.skip(n - 8)
	return rec, r.err
}

// member is the fold of the leases; published tells whether it shows the number
// of connections that was last published, or that of this moment.
func (rec *record) member(published bool) *rollcall.Member {
	m := &rollcall.Member{User: rec.user, Info: rec.info, Since: rec.since, Connections: rec.shown}
	var newest rollcall.Version
	open := 0
	for i := range rec.leases {
		l := &rec.leases[i]
		m.Status = max(m.Status, l.status)
		if l.dataVersion > newest {
			newest, m.Data = l.dataVersion, l.data
		}
		if !l.closing {
			open++
		}
	}
	if !published {
		m.Connections = max(open, 1)
	}
	return m
}

func (rec *record) states() []rollcall.ConnectionState {
	states := make([]rollcall.ConnectionState, len(rec.leases))
	for i := range rec.leases {
		l := &rec.leases[i]
		states[i] = rollcall.ConnectionState{Connection: l.connection, Status: l.status, Data: l.data, TTL: l.ttl}
	}
	return states
}
