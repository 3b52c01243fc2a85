package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// renewMost is the most leases of one script call: the store is never blocked
// for more than 1-2 ms.
const renewMost = 500

// Renew implements [store.Store]: one script call a partition, all of them in one
// round trip.
func (s *Store) Renew(ctx context.Context, renewals []rollcall.Renewal) error {
	if s.closed.Load() {
		return errClosed
	}
	byPartition := make(map[int][]*rollcall.Renewal)
	for i := range renewals {
		n := rollcall.PartitionOf(renewals[i].Lease.Room)
		byPartition[n] = append(byPartition[n], &renewals[i])
	}
	var failure error
	for len(byPartition) > 0 {
		again, err := s.renewSome(ctx, byPartition)
		if err != nil {
			failure = fmt.Errorf("renew: %w", err)
		}
		byPartition = again
	}
	return failure
}

// renewSome renews a call's worth of leases in each partition and returns those
// that are left.
func (s *Store) renewSome(ctx context.Context, byPartition map[int][]*rollcall.Renewal) (left map[int][]*rollcall.Renewal, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	left = make(map[int][]*rollcall.Renewal)
	var calls []scriptCall
	var parts []*partition
	var batches [][]*rollcall.Renewal
	var failure error
	for n, all := range byPartition {
		p := &s.parts[n]
		batch := all[:min(len(all), renewMost)]
		if len(batch) < len(all) {
			left[n] = all[len(batch):]
		}
		own := make([]string, 0, 2*len(batch))
		for _, r := range batch {
			own = append(own, leaseName(r.Lease), micros(s.ttl(r)-r.Age))
		}
		calls = append(calls, scriptCall{p, s.args(p, p.knownEpoch(), own...)})
		parts, batches = append(parts, p), append(batches, batch)
	}
	for i, res := range s.run(ctx, renewScript, calls...) {
		answer, again, err := s.answer(parts[i], res)
		if err != nil {
			// In a cluster some partitions may be away: the others are renewed.
			failure = err
			for _, r := range append(batches[i], left[parts[i].index]...) {
				r.Outcome = rollcall.Unheard
			}
			delete(left, parts[i].index)
			continue
		}
		if again {
			left[parts[i].index] = append(batches[i], left[parts[i].index]...)
			continue
		}
		seen, err := outcomes(batches[i], answer)
		if err != nil {
			return nil, err
		}
		if rest := batches[i][seen:]; len(rest) > 0 {
			left[parts[i].index] = append(rest, left[parts[i].index]...)
		}
		s.index.renewed(batches[i][:seen])
	}
	return left, failure
}

// ttl of the lease that is renewed.
func (s *Store) ttl(r *rollcall.Renewal) time.Duration {
	if r.Lease.TTL != 0 {
		return r.Lease.TTL
	}
	return s.o.Timing.Lease
}

// outcomes notes what has become of the leases, and returns how many of the batch
// were seen to: at least one.
func outcomes(batch []*rollcall.Renewal, answer []rueidis.RedisMessage) (seen int, err error) {
	if len(answer) == 0 {
		return 0, errors.New("an outcome is missing")
	}
	n, err := answer[0].AsInt64()
	if err != nil || n < 1 || n > int64(len(batch)) {
		return 0, fmt.Errorf("%d leases were seen to, of %d: %v", n, len(batch), err)
	}
	batch = batch[:n]
	for _, r := range batch {
		r.Outcome, r.Reason = rollcall.Renewed, rollcall.ReasonNone
	}
	for i := range answer[1:] {
		f, err := answer[1+i].AsIntSlice()
		if err != nil || len(f) < 3 || f[0] < 1 || f[0] > n {
			return 0, fmt.Errorf("an outcome cannot be read: %w", err)
		}
		r := batch[f[0]-1]
		r.Outcome, r.Reason = rollcall.Outcome(f[1]), rollcall.Reason(f[2])
	}
	return int(n), nil
}

// leaseName is a lease, not closing, in the sorted set of its partition: the
// same bytes as the scripts pack.
func leaseName(l *rollcall.Lease) string {
	b := make([]byte, 0, 2+6+8+len(l.Room)+len(l.User)+len(l.Connection))
	b = append(b, layout, 0)
	for _, s := range []string{string(l.Room), string(l.User), string(l.Connection)} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	return string(binary.BigEndian.AppendUint64(b, uint64(l.Generation)))
}
