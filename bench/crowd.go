package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/bench/load"
)

// crowd is many clients that are present and do nothing but prove it.
type crowd struct {
	addr string
	via  string
	hear func(i int, kind, body []byte) // extra look at the events of client i; nil for none

	events  atomic.Int64 // of rooms, heard
	inside  atomic.Int64 // clients that were shown their room
	ended   atomic.Int64 // streams that ended while nobody asked
	closing atomic.Bool

	mu    sync.Mutex
	close []func() // Guarded by mu. One a client.
	leave []func() // Guarded by mu. One a WebSocket.
	wg    sync.WaitGroup
}

// fill opens n clients in rooms of a size, at most a few at a time, and waits
// until each was shown its room.
func (c *crowd) fill(n, size int) error {
	slots := make(chan struct{}, 32)
	errs := make(chan error, 1)
	pace := time.NewTicker(500 * time.Microsecond)
	defer pace.Stop()
	for i := range n {
		<-pace.C
		slots <- struct{}{}
		c.wg.Go(func() {
			run, err := c.open(i, fmt.Sprintf("room-%d", i/size))
			<-slots
			if err != nil {
				select {
				case errs <- fmt.Errorf("client %d: %w", i, err):
				default:
				}
				return
			}
			run()
		})
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-errs:
			return err
		default:
		}
		if c.inside.Load() >= int64(n) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d clients were shown their room", c.inside.Load(), n)
		}
	}
}

// stop closes every client and waits.
func (c *crowd) stop() {
	c.closing.Store(true)
	c.mu.Lock()
	for _, f := range c.close {
		f()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// depart lets n of those over WebSocket leave, one a millisecond.
func (c *crowd) depart(n int) error {
	c.closing.Store(true)
	c.mu.Lock()
	leave := c.leave[:min(n, len(c.leave))]
	c.leave = c.leave[len(leave):]
	c.mu.Unlock()
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for _, f := range leave {
		<-pace.C
		f()
	}
	time.Sleep(500 * time.Millisecond) // for the last one to reach the store
	if len(leave) < n {
		return fmt.Errorf("only %d of %d clients could leave", len(leave), n)
	}
	return nil
}

func (c *crowd) closer(f func()) {
	c.mu.Lock()
	c.close = append(c.close, f)
	c.mu.Unlock()
}

// open opens client i, and returns what reads it until its end.
func (c *crowd) open(i int, room string) (run func(), err error) {
	user := fmt.Sprintf("user-%d", i)
	buffer := load.BufferSmall
	if c.hear != nil {
		buffer = load.BufferWhole
	}
	first := true
	listen := func(kind, body []byte) {
		switch string(kind) {
		case "snapshot", "resumed":
			if first {
				first = false
				c.inside.Add(1)
			}
			c.events.Add(1)
		case "diff", "count", "mode":
			c.events.Add(1)
		}
		if c.hear != nil {
			c.hear(i, kind, body)
		}
	}
	if c.via == "ws" {
		ws, err := load.DialWS(c.addr, load.Login{User: user}, buffer)
		if err != nil {
			return nil, err
		}
		c.closer(func() { ws.Close() })
		c.mu.Lock()
		c.leave = append(c.leave, func() { ws.Leave(room) })
		c.mu.Unlock()
		if err := ws.Join(room, "", 0); err != nil {
			return nil, err
		}
		return func() {
			ws.Read(listen)
			c.end()
		}, nil
	}
	query := ""
	if c.via == "sse-beat" {
		query = "beat=1"
	}
	sse, err := load.DialSSE(c.addr, room, query, load.Login{User: user}, nil, buffer)
	if err != nil {
		return nil, err
	}
	var current atomic.Pointer[load.SSE]
	current.Store(sse)
	c.closer(func() { current.Load().Close() })
	return func() {
		for {
			sse.Read(c.via == "sse", func(kind, body []byte) {
				listen(kind, body)
				if c.via == "sse-beat" && bytes.Equal(kind, []byte("beat")) {
					if err := sse.Beat(body); err != nil && !c.closing.Load() {
						fmt.Fprintln(os.Stderr, "bench: beat:", err)
					}
				}
			})
			if c.via == "sse-beat" || c.closing.Load() {
				c.end()
				return
			}
			// As an EventSource does.
			sse.Close()
			time.Sleep(sse.Retry)
			again, err := load.DialSSE(c.addr, room, query, load.Login{User: user}, sse.ID, buffer)
			if err != nil {
				c.end()
				return
			}
			again.ID = sse.ID
			sse = again
			current.Store(sse)
			if c.closing.Load() {
				sse.Close()
			}
		}
	}, nil
}

func (c *crowd) end() {
	if !c.closing.Load() {
		c.ended.Add(1)
	}
}

// check tells whether everybody stayed.
func (c *crowd) check() error {
	if n := c.ended.Load(); n > 0 {
		return errors.New(fmt.Sprint(n, " streams ended that should not have"))
	}
	return nil
}
