package transport

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// worker is a goroutine with a stack that has grown already, which is lent to
// one reader after the other for what a client says.
//
// A stack that has once grown for a handler shrinks to 4 KiB at best, and each
// connection that has ever said something would keep that while it is silent.
// This way the goroutine that waits for a connection stays at 2 KiB, and the few
// that work are shared.
type worker struct {
	jobs chan job      // unbuffered; closed by crew when the worker is not needed
	done chan struct{} // capacity 1: the job is done; closed by the worker at its end

	// Written by the worker before done, read by the reader after it.
	panicked *HandlerPanic // the handler panicked
	quit     bool          // the handler ended the goroutine: the worker is gone
}

// job is one feed.
type job struct {
	p   *parser
	b   []byte
	h   WebSocketHandler
	end *End
}

// HandlerPanic is the value with which a panic of a handler goes on in the
// goroutine that called Read.
type HandlerPanic struct {
	Value any    // what the handler panicked with
	Stack []byte // where
}

// Error is the value and the stack.
func (p *HandlerPanic) Error() string {
	return fmt.Sprintf("%v\n\nhandler's stack:\n%s", p.Value, p.Stack)
}

func (w *worker) run() {
	defer close(w.done)
	for j := range w.jobs {
		w.quit = true
		w.feed(j)
		w.quit = false
		w.done <- struct{}{}
	}
}

func (w *worker) feed(j job) {
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				w.panicked = &HandlerPanic{v, debug.Stack()}
			}
		}
	}()
	*j.end = j.p.feed(j.b, j.h)
	returned = true
}

// crew is the workers of this process. It has none when no Read is running.
type crew struct {
	mu      sync.Mutex
	readers int       // Guarded by mu. Running Reads on raw connections.
	idle    []*worker // Guarded by mu.
}

var workers crew

// join and leave are called by each Read that may use do.
func (c *crew) join() {
	c.mu.Lock()
	c.readers++
	c.mu.Unlock()
}

func (c *crew) leave() {
	c.mu.Lock()
	var dismissed []*worker
	if c.readers--; c.readers == 0 {
		dismissed, c.idle = c.idle, nil
	}
	c.mu.Unlock()
	for _, w := range dismissed {
		w.dismiss()
	}
}

func (w *worker) dismiss() {
	close(w.jobs)
	<-w.done
}

// do has a worker do the job and waits for it. If the handler panics, so does
// do, with a [*HandlerPanic].
func (c *crew) do(j job) {
	w := c.take()
	w.jobs <- j
	<-w.done
	if w.quit {
		runtime.Goexit() // as the handler did
	}
	panicked := w.panicked
	w.panicked = nil
	c.give(w)
	if panicked != nil {
		panic(panicked)
	}
}

func (c *crew) take() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1] // the last one: its stack is the warmest
		c.idle = c.idle[:n-1]
		return w
	}
	w := &worker{jobs: make(chan job), done: make(chan struct{}, 1)}
	go w.run()
	return w
}

// give takes a worker back. A crowd that talks at once may have made many; a few
// for each processor are enough to keep.
func (c *crew) give(w *worker) {
	c.mu.Lock()
	keep := len(c.idle) < 4*runtime.GOMAXPROCS(0)
	if keep {
		c.idle = append(c.idle, w)
	}
	c.mu.Unlock()
	if !keep {
		w.dismiss()
	}
}
