package bench

import (
	"context"
	"fmt"
	"time"

	"rollcall"
	"rollcall/bench/load"
	"rollcall/store"
)

// renew measures a renewal: in the store by its handle, and all of it, from the
// ping to the store.
func renew(s *Settings) (*Result, error) {
	r := &Result{title: fmt.Sprintf("Renewal: %d members in rooms of %d", s.Members, s.Room)}
	leases, st, err := grantAll(s.Members, s.Room)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	const times = 5_000_000
	began := load.CPUTime()
	if err := renewAll(times, st, leases); err != nil {
		return nil, err
	}
	r.add("in memory, by handle", "<= 100 ns", "%.0f ns", float64(load.CPUTime()-began)/times)

	// Beats ten times as often, so that they are nearly all that the server does.
	server, err := startChild("-lease", "3s", "-beat", "900ms")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	c := &crowd{addr: server.addr, via: "ws"}
	defer c.stop()
	if err := c.fill(s.Members, s.Room); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second)
	before, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	time.Sleep(s.Span)
	after, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	n := after.Counters["rollcall_lease_renewals_total"] - before.Counters["rollcall_lease_renewals_total"]
	r.add("ping, pong and renewal over WebSocket", "", "%.1f us", micros(after.CPU-before.CPU)/n)
	r.add("renewals a second", "", "%.0f", n/s.Span.Seconds())
	return r, nil
}

// grantAll grants leases in a store of its own.
func grantAll(n, size int) ([]rollcall.Lease, *store.Memory, error) {
	st := store.NewMemory(store.MemoryOptions{})
	leases := make([]rollcall.Lease, n)
	for i := range leases {
		results, err := st.Apply(context.Background(), []rollcall.Op{{
			Kind: rollcall.OpGrant, Room: rollcall.RoomID(fmt.Sprintf("room-%d", i/size)),
			User: rollcall.UserID(fmt.Sprintf("user-%d", i)), Connection: rollcall.ConnectionID(fmt.Sprintf("c%d", i)),
		}})
		if err != nil {
			return nil, nil, err
		}
		if results[0].Err != nil {
			return nil, nil, results[0].Err
		}
		leases[i] = results[0].Lease
	}
	return leases, st, nil
}

// renewAll renews n leases, in batches of what one second brings.
func renewAll(n int, st *store.Memory, leases []rollcall.Lease) error {
	batch := make([]rollcall.Renewal, 0, max(len(leases)/9, 1))
	for i := range n {
		batch = append(batch, rollcall.Renewal{Lease: &leases[i%len(leases)], Age: time.Millisecond})
		if len(batch) == cap(batch) || i == n-1 {
			if err := st.Renew(context.Background(), batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}
