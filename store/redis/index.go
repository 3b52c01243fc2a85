package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// index brings to the users' own partitions what the scripts of the rooms'
// partitions have decided. A script cannot write to both: so the node whose call
// decided writes it next, and the nodes that hold leases repeat it with every
// third renewal. What is not repeated for two leases is believed no more, so
// whatever a node that dies has left undone is over by then.
type index struct {
	s    *Store
	wake chan struct{} // capacity 1; never closed

	writing sync.Mutex // held by whoever flushes

	mu      sync.Mutex
	notes   map[place]note      // Guarded by mu. To be written; the newest of each place.
	doubts  map[place]time.Time // Guarded by mu. Renewed, and to be looked at again; when the evidence was given.
	written map[place]time.Time // Guarded by mu. When this node last wrote that somebody is there.
	swept   time.Time           // Guarded by mu. When written was last rid of what is old.
}

// place is a user in a room.
type place struct {
	room rollcall.RoomID
	user rollcall.UserID
}

// note is what is known of a place.
type note struct {
	version  rollcall.Version
	status   rollcall.Status // StatusUnset: not there
	evidence time.Time
	ttl      time.Duration // the longest of the leases there
}

const (
	indexLinger = 10 * time.Millisecond // for what comes together to be written together
	indexRetry  = 250 * time.Millisecond
	indexMost   = 50 // notes of one script call
)

func newIndex(s *Store) *index {
	return &index{
		s: s, wake: make(chan struct{}, 1),
		notes: make(map[place]note), doubts: make(map[place]time.Time), written: make(map[place]time.Time),
	}
}

func (x *index) rouse() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// note takes what a script answered of people: {room, user, version, status, age,
// ttl}.
func (x *index) note(m rueidis.RedisMessage) error {
	if x.s.o.NoUserIndex {
		return nil
	}
	list, err := m.ToArray()
	if err != nil {
		return fmt.Errorf("a list of people cannot be read: %w", err)
	}
	if len(list) == 0 {
		return nil
	}
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range list {
		f, err := list[i].ToArray()
		if err != nil || len(f) < 6 {
			return fmt.Errorf("a person cannot be read: %w", err)
		}
		room, err1 := f[0].ToString()
		user, err2 := f[1].ToString()
		var n [4]int64
		for j := range n {
			if n[j], err = f[2+j].AsInt64(); err != nil {
				return fmt.Errorf("a person cannot be read: %w", err)
			}
		}
		if err1 != nil || err2 != nil {
			return fmt.Errorf("a person cannot be read")
		}
		x.noteLocked(place{rollcall.RoomID(room), rollcall.UserID(user)}, note{
			version: rollcall.Version(n[0]), status: rollcall.Status(n[1]),
			evidence: now.Add(-time.Duration(n[2]) * time.Microsecond), ttl: time.Duration(n[3]) * time.Microsecond,
		}, now)
	}
	x.rouse()
	return nil
}

func (x *index) noteLocked(at place, n note, now time.Time) {
	old, waits := x.notes[at]
	if waits && old.evidence.After(n.evidence) {
		n.evidence = old.evidence
	}
	if waits && old.version > n.version {
		old.evidence = n.evidence
		n = old
	}
	x.notes[at] = n
	if n.status == rollcall.StatusUnset {
		delete(x.written, at)
	} else {
		x.written[at] = now
	}
	if len(x.written) == 0 {
		x.written = make(map[place]time.Time) // an emptied map keeps its memory
	}
}

// renewed has every third renewal repeat where the user is.
func (x *index) renewed(batch []*rollcall.Renewal) {
	if x.s.o.NoUserIndex {
		return
	}
	now := time.Now()
	every := x.s.o.Timing.Beat * 9 / 4
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range batch {
		at := place{r.Lease.Room, r.Lease.User}
		if r.Outcome != rollcall.Renewed || now.Sub(x.written[at]) < every {
			continue
		}
		x.written[at] = now
		x.doubts[at] = now.Add(-r.Age)
	}
	if len(x.doubts) > 0 {
		x.rouse()
	}
	if lease := x.s.o.Timing.Lease; now.Sub(x.swept) > 4*lease {
		x.swept = now
		for at, written := range x.written {
			if now.Sub(written) > 2*lease {
				delete(x.written, at)
			}
		}
	}
}

func (x *index) run() {
	for {
		select {
		case <-x.s.ctx.Done():
			return
		case <-x.wake:
		}
		wait := indexLinger
		for wait > 0 {
			select {
			case <-x.s.ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = 0
			if err := x.flush(x.s.ctx); err != nil && x.s.ctx.Err() == nil {
				x.s.o.Logger.Debug("write the index of users", "error", err)
				wait = indexRetry
			}
		}
	}
}

// flush writes what is to be written. What fails is kept, and so is what is of a
// partition that is away.
func (x *index) flush(ctx context.Context) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	doubts := x.doubts
	x.doubts = make(map[place]time.Time) // it is written to while these are looked at
	x.mu.Unlock()
	failed, failure := x.look(ctx, doubts)
	x.mu.Lock()
	for at, evidence := range doubts {
		if failed[rollcall.PartitionOf(at.room)] {
			x.doubts[at] = evidence
		}
	}
	notes := x.notes
	x.notes = make(map[place]note)
	x.mu.Unlock()
	failed, err := x.write(ctx, notes)
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, n := range notes {
		if newer, ok := x.notes[at]; failed[rollcall.PartitionOfUser(at.user)] && (!ok || newer.version < n.version) {
			x.notes[at] = n
		}
	}
	return errors.Join(failure, err)
}

// look notes where people are by what their rooms say.
func (x *index) look(ctx context.Context, doubts map[place]time.Time) (failed map[int]bool, err error) {
	byPartition := make(map[int][][]string)
	now := time.Now()
	for at, evidence := range doubts {
		n := rollcall.PartitionOf(at.room)
		byPartition[n] = append(byPartition[n], []string{string(at.room), string(at.user), micros(now.Sub(evidence))})
	}
	return x.call(ctx, whereScript, byPartition, func(answer []rueidis.RedisMessage) error {
		if len(answer) != 1 {
			return fmt.Errorf("%d values where 1 is due", len(answer))
		}
		return x.note(answer[0])
	})
}

// write brings notes to the partitions of their users.
func (x *index) write(ctx context.Context, notes map[place]note) (failed map[int]bool, err error) {
	byPartition := make(map[int][][]string)
	now := time.Now()
	for at, n := range notes {
		p := rollcall.PartitionOfUser(at.user)
		byPartition[p] = append(byPartition[p], []string{
			string(at.user), string(at.room), strconv.FormatInt(int64(n.version), 10), strconv.Itoa(int(n.status)),
			micros(max(now.Sub(n.evidence), 0)), micros(2 * max(n.ttl, x.s.o.Timing.Lease)),
		})
	}
	return x.call(ctx, indexScript, byPartition, func([]rueidis.RedisMessage) error { return nil })
}

// call runs a script in each partition that is there, as many times as it takes,
// all of them in one round trip, and returns those where it failed.
func (x *index) call(ctx context.Context, l *lua, byPartition map[int][][]string, take func([]rueidis.RedisMessage) error) (failed map[int]bool, failure error) {
	if len(byPartition) == 0 {
		return nil, nil
	}
	failed = make(map[int]bool)
	for n := range byPartition {
		p := &x.s.parts[n]
		p.wake() // what is noted has to be swept some day
		if p.away.Load() {
			failed[n], failure = true, errAway
			delete(byPartition, n)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, x.s.o.Timeout)
	defer cancel()
	for len(byPartition) > 0 {
		calls, batches := x.batches(byPartition)
		byPartition = make(map[int][][]string)
		for i, res := range x.s.run(ctx, l, calls...) {
			p := calls[i].p
			answer, again, err := x.s.answer(p, res)
			if err == nil && again {
				byPartition[p.index] = append(byPartition[p.index], batches[i]...)
				continue
			}
			if err == nil {
				err = take(answer)
			}
			if err != nil {
				failed[p.index], failure = true, err
			}
		}
	}
	return failed, failure
}

// batches are the calls that it takes to bring values to their partitions, and the
// values of each.
func (x *index) batches(byPartition map[int][][]string) (calls []scriptCall, batches [][][]string) {
	for n, list := range byPartition {
		p := &x.s.parts[n]
		for len(list) > 0 {
			k := min(len(list), indexMost)
			var own []string
			for _, values := range list[:k] {
				own = append(own, values...)
			}
			calls = append(calls, scriptCall{p, x.s.args(p, p.knownEpoch(), own...)})
			batches = append(batches, list[:k])
			list = list[k:]
		}
	}
	return calls, batches
}
