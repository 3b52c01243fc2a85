package server

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/transport"
	"rollcall/wire"
)

// eventDesk tells back ends who comes and goes, in every room. Unlike a stream of a
// room, which owes its viewer nothing but the newest state, a reader is owed each
// event; so each has a buffer, with a bound, and is ended when that is full.
// Nothing is stored: what a reader has missed it is told to read.
type eventDesk struct {
	h    *hub
	open atomic.Int32 // readers; while there are none, a frame costs one look at it

	// mu is taken with the lock of a partition held; that of a reader is taken
	// under it, and no other.
	mu      sync.RWMutex
	readers map[*eventReader]bool // Guarded by mu.
}

// eventReader is one stream of the feed for back ends.
type eventReader struct {
	h      *hub
	prefix string // static
	conn   transport.Conn
	wake   chan struct{} // capacity 1; never closed
	gone   chan struct{} // closed by Wait: the client has ended the stream

	mu      sync.Mutex
	pending []byte                    // Guarded by mu. SSE text.
	resets  map[wire.ResetReason]bool // Guarded by mu. Those in pending: one says it all.
	bye     wire.ByeReason            // Guarded by mu. "" until the stream is to end.
	sent    uint64                    // Owned by run. Number of the last write, for ids.
}

func newEventDesk(h *hub) *eventDesk { return &eventDesk{h: h, readers: make(map[*eventReader]bool)} }

// add begins a stream that is told of the rooms whose names begin with prefix. It
// refuses more than the node may have.
func (e *eventDesk) add(prefix string) (*eventReader, *rollcall.Error) {
	r := &eventReader{h: e.h, prefix: prefix, wake: make(chan struct{}, 1), gone: make(chan struct{}), resets: make(map[wire.ResetReason]bool)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if most := e.h.limits.EventStreams; len(e.readers) >= most {
		return nil, rollcall.LimitError(rollcall.CodeRateLimited, most, "a node has %d streams of events at most", most)
	}
	e.readers[r] = true
	e.open.Add(1)
	r.reset(wire.ResetOpened)
	return r, nil
}

func (e *eventDesk) remove(r *eventReader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readers[r] {
		delete(e.readers, r)
		e.open.Add(-1)
	}
}

// end says goodbye to every reader.
func (e *eventDesk) end(reason wire.ByeReason) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for r := range e.readers {
		r.end(reason)
	}
}

// frame tells what a frame of the feed changed. It is called with the partition of
// the store locked.
func (e *eventDesk) frame(f *rollcall.Frame) {
	if e.open.Load() == 0 {
		return
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if f.Gap {
		reason := wire.ResetGap
		if known := e.h.epochs[f.Partition].Load(); known != nil && *known != f.Epoch {
			reason = wire.ResetMemory
		}
		for r := range e.readers {
			r.reset(reason)
		}
	}
	for i := range f.Changes {
		ch := &f.Changes[i]
		if len(ch.Join)+len(ch.Leave) == 0 {
			continue
		}
		var text []byte // made for the first who wants it
		for r := range e.readers {
			if !strings.HasPrefix(string(ch.Room), r.prefix) {
				continue
			}
			if text == nil {
				text = appendHappenings(nil, f.Epoch, ch)
			}
			r.tell(text)
		}
	}
}

// appendHappenings appends the events of one change. In counts mode users are
// named and not described, since not every store describes them.
func appendHappenings(b []byte, epoch rollcall.Epoch, ch *rollcall.Change) []byte {
	var body []byte
	before := ch.Count - len(ch.Join) + len(ch.Leave)
	if before == 0 && ch.Count > 0 {
		body = wire.AppendOccupancy(body[:0], ch.Room, epoch, ch.Version)
		b = wire.AppendSSE(b, wire.EventOccupied, body)
	}
	for _, m := range ch.Join {
		body = wire.AppendJoin(body[:0], epoch, ch, m, ch.Mode == rollcall.ModeFull)
		b = wire.AppendSSE(b, wire.EventJoin, body)
	}
	for _, l := range ch.Leave {
		body = wire.AppendLeave(body[:0], epoch, ch, l)
		b = wire.AppendSSE(b, wire.EventLeave, body)
	}
	if before > 0 && ch.Count == 0 {
		body = wire.AppendOccupancy(body[:0], ch.Room, epoch, ch.Version)
		b = wire.AppendSSE(b, wire.EventVacated, body)
	}
	return b
}

func (r *eventReader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tell adds events to what the reader is owed, or ends it if that is too much.
func (r *eventReader) tell(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bye != "" {
		return
	}
	if len(r.pending)+len(text) > r.h.limits.EventBacklog {
		r.pending, r.bye = nil, wire.ByeSlow
	} else {
		r.pending = append(r.pending, text...)
	}
	r.rouse()
}

// reset tells the reader to read anew. What it is written at once needs no second.
func (r *eventReader) reset(reason wire.ResetReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bye != "" || r.resets[reason] {
		return
	}
	r.resets[reason] = true
	r.pending = wire.AppendSSE(r.pending, wire.EventReset, wire.AppendReset(nil, reason, time.Now().UnixMilli()))
	r.rouse()
}

func (r *eventReader) end(reason wire.ByeReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bye == "" {
		r.bye = reason
	}
	r.rouse()
}

// take returns what is to be written next, and whether that is the end.
func (r *eventReader) take() (b []byte, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, r.pending = r.pending, nil
	clear(r.resets)
	if r.bye == "" {
		return b, false
	}
	return wire.AppendSSE(b, wire.EventBye, wire.AppendBye(nil, r.bye, r.h.retry())), true
}

// run writes to the reader until its stream ends: the first event after quiet at
// once, further ones with the next tick, and a comment when there is nothing.
func (r *eventReader) run() {
	defer r.conn.Close()
	quiet := time.NewTimer(r.h.timing.Beat)
	defer quiet.Stop()
	if r.conn.Write(wire.AppendRetry(nil, r.h.retry()), slowAfter) != nil { // with the head of the answer
		return
	}
	var b []byte
	for {
		silent := false
		select {
		case <-r.h.ctx.Done():
			return
		case <-r.gone:
			return
		case <-quiet.C:
			silent = true
		case <-r.wake:
		}
		told, over := r.take()
		if b = append(b, told...); len(b) == 0 && silent {
			b = wire.AppendComment(b)
		} else if len(told) > 0 {
			r.sent++
			b = wire.AppendSSEID(b, r.h.node+"."+strconv.FormatUint(r.sent, 36))
		}
		if len(b) > 0 {
			if err := r.conn.Write(b, slowAfter); err != nil {
				if err == transport.ErrSlow {
					r.h.metrics.slow.Inc()
				}
				return
			}
		}
		if over {
			return
		}
		b = nil
		quiet.Reset(r.h.timing.Beat)
		if sleep(r.h.ctx, tickEvery) != nil {
			return
		}
	}
}

// getEvents is GET /v1/events.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.backend(r, "read events"); err != nil {
		return err
	}
	prefix, err := prefixOf(r.URL.Query())
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		transport.SetSSEHeader(w.Header())
		return nil
	}
	if s.h.admission.isDraining() {
		return rollcall.Errorf(rollcall.CodeUnavailable, "this node is draining; try another")
	}
	reader, refused := s.h.events.add(prefix)
	if refused != nil {
		return refused
	}
	conn, err := transport.AcceptSSE(w, r, nil)
	if err != nil {
		s.h.events.remove(reader)
		return nil // the client is gone, or the answer was written
	}
	reader.conn = conn
	if !s.h.spawn(reader.run) {
		conn.Close()
	}
	wait := func() {
		conn.Wait()
		s.h.events.remove(reader)
		close(reader.gone)
	}
	if !conn.Detached() || !s.h.spawn(wait) {
		wait()
	}
	return nil
}
