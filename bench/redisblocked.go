package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall"
	"rollcall/bench/process"
	"rollcall/store/redis"
)

// blocked adds how long one call keeps the store from everybody else, at most: while
// a crowd joins one room in as few calls as can be, sets data, is read, is renewed
// after the store has lost its memory, and runs out all at once. The store does not
// know when the machine kept it from running, so of some rounds the best one counts.
func blocked(ctx context.Context, s *Settings, r *Result) error {
	server, err := process.StartRedis(ctx, 1, "")
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.WatchSlow(ctx); err != nil {
		return err
	}
	st, err := redis.Open(ctx, redis.Options{URL: server.URL})
	if err != nil {
		return err
	}
	defer st.Close()
	parts := []struct {
		what string
		do   func() error
		most time.Duration // of the best round
	}{
		{what: "all join a room at once", do: func() error { return crowdJoins(ctx, st, s.Members, 0) }},
		{what: "all set 1 KB", do: func() error { return crowdSets(ctx, st, s.Members) }},
		{what: "the room is read", do: func() error { return crowdRead(ctx, st, s.Members) }},
		{what: "leases that the store lost are renewed", do: func() error { return crowdLost(ctx, st, server, s.Members) }},
		{what: "all leases run out at once", do: func() error { return crowdRunsOut(ctx, st, s.Members) }},
	}
	for round := range blockedRounds {
		for i := range parts {
			p := &parts[i]
			if err := server.ForgetSlow(ctx); err != nil {
				return err
			}
			if err := p.do(); err != nil {
				return fmt.Errorf("%s: %w", p.what, err)
			}
			slow, err := server.Slowest(ctx)
			if err != nil {
				return err
			}
			if round == 0 || slow < p.most {
				p.most = slow
			}
		}
	}
	for i := range parts {
		r.add("longest call while "+parts[i].what, "<= 5 ms", "%.1f ms", float64(parts[i].most.Microseconds())/1000)
	}
	return nil
}

const blockedRounds = 5

const hall = rollcall.RoomID("hall")

func member(i int) (rollcall.UserID, rollcall.ConnectionID) {
	return rollcall.UserID(fmt.Sprintf("user-%d", i)), rollcall.ConnectionID(fmt.Sprintf("connection-%05d", i))
}

// crowdOps applies n operations in one batch.
func crowdOps(ctx context.Context, st *redis.Store, n int, op func(i int) rollcall.Op) ([]rollcall.Result, error) {
	ops := make([]rollcall.Op, n)
	for i := range ops {
		ops[i] = op(i)
		ops[i].Room = hall
		ops[i].User, ops[i].Connection = member(i)
	}
	results, err := st.Apply(ctx, ops)
	if err != nil {
		return nil, err
	}
	for i := range results {
		if results[i].Err != nil {
			return nil, results[i].Err
		}
	}
	return results, nil
}

// crowdJoins grants n leases, as of evidence of that age.
func crowdJoins(ctx context.Context, st *redis.Store, n int, age time.Duration) error {
	_, err := crowdOps(ctx, st, n, func(int) rollcall.Op {
		return rollcall.Op{Kind: rollcall.OpGrant, Info: []byte(`{"name":"Somebody"}`), Age: age}
	})
	return err
}

func crowdSets(ctx context.Context, st *redis.Store, n int) error {
	data := append(append([]byte{'"'}, make([]byte, 1000)...), '"')
	for i := 1; i <= 1000; i++ {
		data[i] = 'x'
	}
	_, err := crowdOps(ctx, st, min(n, 1000), func(int) rollcall.Op { return rollcall.Op{Kind: rollcall.OpSet, Data: data} })
	return err
}

func crowdRead(ctx context.Context, st *redis.Store, n int) error {
	limits := rollcall.DefaultLimits()
	users := make([]rollcall.UserID, min(n, limits.Contacts))
	for i := range users {
		users[i], _ = member(i)
	}
	for _, q := range []rollcall.Query{
		{Want: rollcall.WantSnapshot, Room: hall},
		{Want: rollcall.WantPage, Room: hall, Limit: 200, States: true},
		{Want: rollcall.WantUsers, Room: hall, Users: users, States: true},
	} {
		if _, err := st.Read(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func crowdLost(ctx context.Context, st *redis.Store, server *process.Redis, n int) error {
	results, err := crowdOps(ctx, st, n, func(int) rollcall.Op { return rollcall.Op{Kind: rollcall.OpGrant} })
	if err != nil {
		return err
	}
	if err := server.Empty(ctx); err != nil {
		return err
	}
	if err := server.ForgetSlow(ctx); err != nil { // what emptied it
		return err
	}
	renewals := make([]rollcall.Renewal, n)
	for i := range renewals {
		renewals[i].Lease = &results[i].Lease
	}
	return st.Renew(ctx, renewals)
}

func crowdRunsOut(ctx context.Context, st *redis.Store, n int) error {
	// A store that has just begun, or begun again, lets nobody go at first.
	const left = 3 * time.Second
	if err := crowdJoins(ctx, st, n, rollcall.DefaultTiming().Lease-left); err != nil {
		return err
	}
	for end := time.Now().Add(3 * rollcall.DefaultTiming().Lease); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := st.Tick(ctx); err != nil {
			return err
		}
		a, err := st.Read(ctx, rollcall.Query{Want: rollcall.WantRoom, Room: hall})
		if err != nil || a.Count == 0 {
			return err
		}
	}
	return errors.New("somebody is still there")
}
