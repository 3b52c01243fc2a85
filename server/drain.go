package server

import (
	"context"
	"math/rand/v2"
	"time"

	"rollcall/wire"
)

// drain says goodbye to every stream, one after the other, spread over the given
// time, and waits for them to end. Their leases are kept: whoever comes back, or
// to another node, was never away.
func (h *hub) drain(ctx context.Context, over time.Duration) error {
	h.admission.drain()
	h.events.end(wire.ByeDraining)
	var streams []*connection
	h.connections.each(func(c *connection) {
		c.mu.Lock()
		if c.stream != nil {
			streams = append(streams, c)
		}
		c.mu.Unlock()
	})
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	began := time.Now()
	for i, c := range streams {
		wait := time.Until(began.Add(over * time.Duration(i) / time.Duration(len(streams))))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		c.mu.Lock()
		if c.stream != nil {
			c.stream.byeLocked(wire.ByeDraining, h.retry())
		}
		c.mu.Unlock()
	}
	deadline := time.Now().Add(closeLinger + tickEvery)
	for h.connections.open() > 0 && time.Now().Before(deadline) {
		if err := sleep(ctx, tickEvery/5); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
