package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// No script call has more operations or bytes than these: none runs longer than
// a few milliseconds, and no frame is larger than 64 KiB.
const (
	applyMost  = 24
	applyBytes = 32 << 10
)

// Apply implements [store.Store]. Consecutive operations on rooms of one
// partition are one step, as far as the size of a call allows.
func (s *Store) Apply(ctx context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	results := make([]rollcall.Result, len(ops))
	for i := 0; i < len(ops); {
		if results[i].Err = s.o.Limits.Check(&ops[i]); results[i].Err != nil {
			i++
			continue
		}
		p := &s.parts[rollcall.PartitionOf(ops[i].Room)]
		if ops[i].Kind == rollcall.OpSet && ops[i].Data != nil {
			if err := s.set(ctx, p, &ops[i], &results[i]); err != nil {
				return nil, err
			}
			i++
			continue
		}
		j, bytes := i, 0
		for j < len(ops) && j-i < applyMost && bytes < applyBytes && s.joins(p, &ops[j]) {
			bytes += len(ops[j].Info) + len(ops[j].Data)
			j++
		}
		if err := s.apply(ctx, p, ops[i:j], nil, results[i:j]); err != nil {
			return nil, err
		}
		i = j
	}
	return results, nil
}

// joins reports whether an operation can go along in a call for p.
func (s *Store) joins(p *partition, op *rollcall.Op) bool {
	return rollcall.PartitionOf(op.Room) == p.index && s.o.Limits.Check(op) == nil &&
		(op.Kind != rollcall.OpSet || op.Data == nil)
}

// set carries out a set of data. Data that is merged is merged here, since a
// script would change the numbers of a JSON text, and is stored if nobody else
// was faster.
func (s *Store) set(ctx context.Context, p *partition, op *rollcall.Op, result *rollcall.Result) error {
	results := make([]rollcall.Result, 1)
	if refused := s.o.Limits.CheckData(len(op.Data)); refused != nil {
		return s.refuse(ctx, p, op, refused, result)
	}
	if !op.Merge {
		err := s.apply(ctx, p, []rollcall.Op{*op}, nil, results)
		*result = results[0]
		return err
	}
	for {
		merged, expected, refused, err := s.merge(ctx, p, op)
		if err != nil {
			return err
		}
		if refused != nil {
			return s.refuse(ctx, p, op, refused, result)
		}
		changed := *op
		changed.Data = merged
		err = s.apply(ctx, p, []rollcall.Op{changed}, &expected, results)
		*result = results[0]
		if err != nil || result.Err == nil || result.Err != errChanged {
			return err
		}
	}
}

// refuse refuses a set, unless there is no lease that it could have changed: that
// is said first.
func (s *Store) refuse(ctx context.Context, p *partition, op *rollcall.Op, refused *rollcall.Error, result *rollcall.Result) error {
	nothing := *op
	nothing.Status, nothing.Data = rollcall.StatusUnset, nil
	results := make([]rollcall.Result, 1)
	err := s.apply(ctx, p, []rollcall.Op{nothing}, nil, results)
	*result = results[0]
	if err == nil && result.Err == nil && !result.Stale {
		*result = rollcall.Result{Err: refused}
	}
	return err
}

// errLater is the refusal of what is to be done to a user whom a later release of
// the server has written in a layout of its own. Like whatever cannot be reached it
// waits, until that release or this one is gone.
var errLater = rollcall.Errorf(rollcall.CodeUnavailable, "a later release of the server keeps this user; try again")

// errChanged is the refusal of data that was merged into what is no longer there.
var errChanged = rollcall.Errorf(rollcall.CodeConflict, "the data has changed")

// merge merges the data of op into what the connection has, and returns the
// version of that.
func (s *Store) merge(ctx context.Context, p *partition, op *rollcall.Op) (merged []byte, expected rollcall.Version, refused *rollcall.Error, err error) {
	answer, err := s.readRoom(ctx, p, op.Room, "u", []rollcall.UserID{op.User})
	if err != nil {
		return nil, 0, nil, err
	}
	merged = op.Data
	for _, rec := range answer.records {
		for i := range rec.leases {
			l := &rec.leases[i]
			if l.connection == op.Connection {
				expected = l.dataVersion
				if l.data != nil {
					merged = rollcall.MergeObjects(l.data, op.Data)
				}
			}
		}
	}
	return merged, expected, s.o.Limits.CheckData(len(merged)), nil
}

var opKinds = map[rollcall.OpKind]string{
	rollcall.OpGrant: "g", rollcall.OpSet: "s", rollcall.OpClose: "c", rollcall.OpEnd: "e", rollcall.OpEndUser: "k",
}

// apply runs one call. expected is the version that the data of a set has to
// have; nil for any.
func (s *Store) apply(ctx context.Context, p *partition, ops []rollcall.Op, expected *rollcall.Version, results []rollcall.Result) error {
	own := make([]string, 0, 1+17*len(ops))
	own = append(own, strconv.Itoa(s.o.Limits.ConnectionsPerUser))
	for i := range ops {
		own = s.appendOp(own, &ops[i], expected)
	}
	p.wake()
	epoch, answer, err := s.exec(ctx, applyScript, p, own...)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if len(answer) != len(ops)+1 {
		return fmt.Errorf("apply: %d answers to %d operations", len(answer), len(ops))
	}
	if err := s.index.note(answer[len(ops)]); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	for i := range ops {
		if results[i], err = s.result(&ops[i], answer[i]); err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		results[i].Epoch = epoch
		if op := &ops[i]; op.Kind == rollcall.OpClose && op.Grace > 0 {
			p.graceUntil(time.Now().Add(op.Grace))
		}
	}
	return nil
}

func (s *Store) appendOp(own []string, op *rollcall.Op, expected *rollcall.Version) []string {
	ttl, want, only, grace := op.TTL, int64(-1), "", op.Grace
	if op.Kind == rollcall.OpEndUser {
		grace = min(op.Ban, s.o.Limits.MaxBan)
	}
	if ttl == 0 {
		ttl = s.o.Timing.Lease
	}
	modes := s.o.Rules.Of(op.Room, rollcall.RoomSettings{Modes: s.o.Modes}).Modes
	if expected != nil {
		want = int64(*expected)
	}
	switch {
	case op.ResumeOnly && op.Late:
		only = "3"
	case op.ResumeOnly:
		only = "1"
	case op.Late:
		only = "2"
	}
	return append(own, opKinds[op.Kind], string(op.Room), string(op.User), string(op.Connection),
		strconv.FormatInt(int64(op.Generation), 10), string(op.Info), strconv.Itoa(int(op.Status)), string(op.Data),
		strconv.FormatInt(want, 10), micros(ttl), micros(op.Age), only, micros(grace), strconv.Itoa(int(op.Reason)), strconv.FormatInt(op.Since, 10),
		strconv.FormatUint(op.Claim, 10), fmt.Sprintf("%d %d", modes.Above, modes.Below))
}

// result reads {code, generation, version, stale, member}.
func (s *Store) result(op *rollcall.Op, m rueidis.RedisMessage) (r rollcall.Result, err error) {
	fields, err := m.ToArray()
	if err != nil || len(fields) < 5 {
		return r, fmt.Errorf("an answer cannot be read: %w", err)
	}
	code, err := fields[0].ToString()
	if err != nil {
		return r, err
	}
	switch code {
	case "":
	case "gone":
		r.Err = rollcall.RefuseGone()
	case "connections":
		r.Err = s.o.Limits.RefuseConnections()
	case "absent":
		r.Err = rollcall.RefuseAbsent()
	case "banned":
		left, err1 := fields[1].AsInt64()
		now, err2 := fields[2].AsInt64()
		if err1 != nil || err2 != nil {
			return r, errors.New("a ban cannot be read")
		}
		r.Err = rollcall.RefuseBanned(time.UnixMicro(now + left))
	case "changed":
		r.Err = errChanged
	case "layout":
		s.unknown("a user")
		r.Err = errLater
	default:
		return r, fmt.Errorf("unknown refusal %q", code)
	}
	if r.Err != nil {
		return r, nil
	}
	generation, err1 := fields[1].AsInt64()
	version, err2 := fields[2].AsInt64()
	stale, err3 := fields[3].AsInt64()
	packed, err4 := fields[4].ToString()
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return r, err
		}
	}
	r.Version, r.Stale = rollcall.Version(version), stale == 1
	if packed != "" {
		if r.Member, err = decodeMember(packed); err != nil {
			return r, err
		}
	}
	if op.Kind == rollcall.OpGrant {
		r.Lease = rollcall.Lease{
			Room: op.Room, User: op.User, Connection: op.Connection, Generation: rollcall.Generation(generation), TTL: op.TTL,
		}
	}
	return r, nil
}
