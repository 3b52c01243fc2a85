package redis

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

//go:embed audience.lua
var audienceLua string

var audienceScript = script(audienceLua)

var _ store.Audiences = (*Store)(nil)

// No call has more sketches or bytes than these.
const (
	witnessMost  = 64
	witnessBytes = 256 << 10
	witnessTries = 5 // another node writes the same sketches
)

var errForeign = errors.New("what is kept of the audience of a room is not ours")

// audienceName is the key of a room's sketch, below that of its partition. It does
// not contain the name of the room, since it stays when the room is empty.
func audienceName(room rollcall.RoomID) string {
	sum := sha256.Sum256([]byte(room))
	return hex.EncodeToString(sum[:16])
}

// witnessed is a sketch on its way to the store.
type witnessed struct {
	store.RoomSketch
	known string // SHA-1 of what the store has, in hex; "" for nothing
	text  string
}

// Witness implements [store.Audiences]. Nodes do not read a sketch before they
// write it: who was faster is told by the store, and merged.
func (s *Store) Witness(ctx context.Context, now int64, seen []store.RoomSketch) error {
	if s.closed.Load() {
		return errClosed
	}
	if len(seen) == 0 {
		return nil
	}
	ahead, err := s.ahead(ctx, now)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	byPartition := make(map[*partition][]*witnessed)
	for i := range seen {
		moved := &rollcall.Sketch{} // the caller's is told again if this fails
		moved.Merge(seen[i].Sketch)
		moved.Shift(ahead)
		w := &witnessed{RoomSketch: store.RoomSketch{Room: seen[i].Room, Sketch: moved}, text: string(moved.Append(nil))}
		p := &s.parts[rollcall.PartitionOf(w.Room)]
		byPartition[p] = append(byPartition[p], w)
	}
	var failures []error
	for try := 0; len(byPartition) > 0; try++ {
		if try == witnessTries {
			return errors.Join(append(failures, errors.New("witness: other nodes were faster each time"))...)
		}
		var errs []error
		byPartition, errs = s.witness(ctx, now, byPartition)
		failures = append(failures, errs...)
	}
	return errors.Join(failures...)
}

// witness makes one round trip, and returns what is to be told again.
func (s *Store) witness(ctx context.Context, now int64, byPartition map[*partition][]*witnessed) (again map[*partition][]*witnessed, failures []error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	again = make(map[*partition][]*witnessed)
	keep := strconv.Itoa(int((s.o.Limits.MaxWindow + time.Minute) / time.Second))
	var calls []scriptCall
	var told [][]*witnessed
	for p, list := range byPartition {
		for len(list) > 0 {
			own, n, bytes := []string{keep}, 0, 0
			for n < len(list) && n < witnessMost && bytes < witnessBytes {
				w := list[n]
				own = append(own, audienceName(w.Room), w.known, w.text)
				bytes += len(w.text)
				n++
			}
			calls = append(calls, scriptCall{p, s.args(p, "", own...)})
			told = append(told, list[:n])
			list = list[n:]
		}
	}
	for i, res := range s.run(ctx, audienceScript, calls...) {
		answer, _, err := s.answer(calls[i].p, res)
		if err == nil {
			err = s.witnessAnswer(answer, now, told[i], func(w *witnessed) {
				again[calls[i].p] = append(again[calls[i].p], w)
			})
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("witness: %w", err))
		}
	}
	return again, failures
}

// witnessAnswer merges what was there already, and hands on what is new over that.
func (s *Store) witnessAnswer(answer []rueidis.RedisMessage, now int64, told []*witnessed, again func(*witnessed)) error {
	if len(answer) == 0 {
		return errors.New("no values where 1 is due")
	}
	server, err := answer[0].AsInt64()
	if err != nil {
		return err
	}
	s.noteAhead(server - now)
	var failure error
	for _, m := range answer[1:] {
		pair, err := m.ToArray()
		if err != nil || len(pair) < 2 {
			return fmt.Errorf("a sketch cannot be read: %w", err)
		}
		i, err := pair[0].AsInt64()
		if err != nil || i < 1 || int(i) > len(told) {
			return fmt.Errorf("sketch %d of %d: %w", i, len(told), err)
		}
		w := told[i-1]
		text, err := pair[1].ToString()
		if err != nil {
			failure = errForeign // a key of another type
			continue
		}
		there, err := rollcall.DecodeSketch([]byte(text))
		if err != nil {
			failure = fmt.Errorf("%w: %w", errForeign, err)
			continue
		}
		there.Merge(w.Sketch)
		there.Forget(server - int64(s.o.Limits.MaxWindow/time.Second))
		w.Sketch = there
		if merged := string(there.Append(nil)); merged != text {
			sum := sha1.Sum([]byte(text))
			w.known, w.text = hex.EncodeToString(sum[:]), merged
			again(w)
		}
	}
	return failure
}

// ahead is by how much the store's clock is ahead of the caller's, in seconds.
func (s *Store) ahead(ctx context.Context, now int64) (int64, error) {
	if d := s.clockAhead.Load(); d != nil {
		return *d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	p := &s.parts[0]
	answer, _, err := s.answer(p, s.run(ctx, audienceScript, scriptCall{p, s.args(p, "", "1")})[0])
	if err != nil {
		return 0, err
	}
	if err := s.witnessAnswer(answer, now, nil, nil); err != nil {
		return 0, err
	}
	return *s.clockAhead.Load(), nil
}

// noteAhead takes a difference of the clocks. Half a second of way is no difference.
func (s *Store) noteAhead(d int64) {
	if old := s.clockAhead.Load(); old == nil || d > *old+1 || d < *old-1 {
		s.clockAhead.Store(&d)
	}
}

// Audience implements [store.Audiences].
func (s *Store) Audience(ctx context.Context, room rollcall.RoomID, now int64, window time.Duration) (int, float64, error) {
	if s.closed.Load() {
		return 0, 0, errClosed
	}
	ahead, err := s.ahead(ctx, now)
	if err != nil {
		return 0, 0, fmt.Errorf("read audience: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	key := s.parts[rollcall.PartitionOf(room)].prefix + "h:" + audienceName(room)
	text, err := s.client.Do(ctx, s.client.B().Get().Key(key).Build()).ToString()
	switch e, ok := rueidis.IsRedisErr(err); {
	case rueidis.IsRedisNil(err):
		return 0, 0, nil
	case ok && !e.IsClusterDown():
		return 0, 0, fmt.Errorf("read audience: %w: %w", errForeign, err)
	case err != nil:
		return 0, 0, fmt.Errorf("read audience: %w", err)
	}
	sketch, err := rollcall.DecodeSketch([]byte(text))
	if err != nil {
		return 0, 0, fmt.Errorf("read audience: %w: %w", errForeign, err)
	}
	n, e := sketch.Since(store.WindowStart(now+ahead, window))
	return n, e, nil
}
