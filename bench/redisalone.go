package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/store/redis"
)

// renewRounds is how often every lease is renewed.
const renewRounds = 10

// alone measures the operations of a store that does nothing else: no node, no
// index of users.
func (x *shared) alone() error {
	st, err := redis.Open(x.ctx, redis.Options{URL: x.redis.URL, NoUserIndex: true})
	if err != nil {
		return err
	}
	defer st.Close()
	leases := make([]rollcall.Lease, x.Members)
	n := float64(x.Members)
	joins, err := x.during(func() error {
		return apply(x.ctx, st, len(leases), func(i int) rollcall.Op {
			return rollcall.Op{
				Kind: rollcall.OpGrant, Room: rollcall.RoomID(fmt.Sprintf("room-%d", i/x.room)), User: rollcall.UserID(fmt.Sprintf("user-%d", i)),
				Connection: rollcall.ConnectionID(fmt.Sprintf("connection-%05d", i)), Info: []byte(`{"name":"Somebody"}`),
			}
		}, func(i int, res rollcall.Result) { leases[i] = res.Lease })
	})
	if err != nil {
		return err
	}
	batch := make([]rollcall.Renewal, len(leases))
	renewals, err := x.during(func() error {
		for range renewRounds {
			for i := range batch {
				batch[i] = rollcall.Renewal{Lease: &leases[i], Age: time.Millisecond}
			}
			if err := st.Renew(x.ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range batch {
		if batch[i].Outcome != rollcall.Renewed {
			return fmt.Errorf("lease %d was not renewed", i)
		}
	}
	half := len(leases) / 2
	leaves, err := x.during(func() error {
		return apply(x.ctx, st, half, func(i int) rollcall.Op {
			l := &leases[i]
			return rollcall.Op{Kind: rollcall.OpEnd, Room: l.Room, User: l.User, Connection: l.Connection, Generation: l.Generation, Reason: rollcall.ReasonLeft}
		}, func(int, rollcall.Result) {})
	})
	if err != nil {
		return err
	}
	x.costs.join, x.costs.leave = joins.cpu()/n, leaves.cpu()/float64(half)
	x.costs.renewal = renewals.cpu() / n / renewRounds
	x.costs.member = joins.of("used_memory") / n
	x.add("CPU of a join", "", "%.0f us", x.costs.join)
	x.add("CPU of a leave", "", "%.0f us", x.costs.leave)
	x.add(fmt.Sprintf("CPU of a renewal, %.0f to a call", n*renewRounds/max(renewals.scripts(), 1)), "<= 2 us", "%.2f us", x.costs.renewal)
	x.add("memory of a member, without the index of users", "<= 400 B", "%.0f B", x.costs.member)
	return nil
}

// apply carries out n operations, each a call of its own as a node makes it, some at
// a time.
func apply(ctx context.Context, st *redis.Store, n int, op func(int) rollcall.Op, done func(int, rollcall.Result)) error {
	const atOnce = 16
	var next atomic.Int64
	errs := make([]error, atOnce)
	var wg sync.WaitGroup
	for k := range atOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[k] == nil; i = int(next.Add(1)) - 1 {
				results, err := st.Apply(ctx, []rollcall.Op{op(i)})
				switch {
				case err != nil:
					errs[k] = err
				case results[0].Err != nil:
					errs[k] = results[0].Err
				default:
					done(i, results[0])
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
