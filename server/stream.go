package server

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"rollcall"
	"rollcall/server/transport"
	"rollcall/wire"
)

type protocol uint8

const (
	protocolSSE protocol = iota
	protocolWS
)

var protocolNames = [...]string{"sse", "ws"}

// stream is the open socket of a connection. It has no queue: it knows which
// version of each room the client was sent, and what it writes next is always
// the newest. All fields but the static ones are guarded by c.mu.
type stream struct {
	c      *connection
	no     uint64 // static
	conn   transport.Conn
	proto  protocol // static
	plain  bool     // static: the client cannot answer beats (SSE)
	multi  bool     // static: more than one room may come (SSE)
	resume string   // static: the secret of this stream, for its ids (SSE)

	own     []byte // answers and notices that belong to nobody else
	busy    bool   // a goroutine is writing what the kernel did not take
	again   bool   // something came up meanwhile
	late    bool   // a beat among it
	told    bool   // said goodbye: ends with the write of that
	over    bool   // the socket has ended or is being ended by us
	left    bool   // the client announced its end
	closing wire.CloseCode

	beats    [beatsPending]instant // when the last beats were sent; their n
	answered instant               // when the newest answered one was sent, or the stream opened
	nextBeat instant
	rotateAt instant // plain: when the stream is ended so that the client proves itself
	warned   bool    // that the token ends
	degraded bool    // it was told that what it sees may be old
	pace     pace    // how much of the signals it can take
	held     bool    // there are signals that it could not take yet
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// putBuffer keeps no giants.
func putBuffer(p *[]byte, b []byte) {
	if cap(b) <= 64<<10 {
		*p = b[:0]
		buffers.Put(p)
	}
}

// event appends an event to what is the stream's own.
func (s *stream) event(e wire.Event, body []byte) { s.own = s.append(s.own, e, body) }

// append appends an event in the framing of the stream.
func (s *stream) append(b []byte, e wire.Event, body []byte) []byte {
	if s.proto == protocolWS {
		return wire.AppendWS(b, e, body)
	}
	return wire.AppendSSE(b, e, body)
}

// pumpLocked writes whatever the stream is due, in one write: its own answers,
// what changed in its rooms, and then extra, which is not kept.
func (s *stream) pumpLocked(extra []byte) {
	s.held = false
	if s.busy || s.over {
		s.again = true
		return
	}
	p := buffers.Get().(*[]byte)
	b := append((*p)[:0], s.own...)
	if s.own != nil {
		s.own = nil
	}
	deliveries := 0
	if !s.told {
		for _, sub := range s.c.subs {
			b, deliveries = s.appendView(b, sub, deliveries)
		}
		b = append(b, extra...)
	}
	if len(b) == 0 {
		putBuffer(p, b)
		if s.told {
			s.finishLocked()
		}
		return
	}
	if s.proto == protocolSSE {
		b = s.appendID(b)
	}
	s.c.h.metrics.deliveries.Add(float64(deliveries))
	s.c.h.metrics.writes.Inc()
	n, err := s.conn.TryWrite(b)
	s.pace.wrote(len(b), s.c.h.clock.now())
	switch {
	case err != nil:
		s.abortLocked()
		putBuffer(p, b)
	case n == len(b):
		putBuffer(p, b)
		if s.told {
			s.finishLocked()
		}
	default:
		s.busy = true
		s.c.h.wg.Go(func() { s.writeRest(p, b, n) })
	}
}

// writeRest writes what the kernel did not take, and then whatever is newest.
func (s *stream) writeRest(p *[]byte, b []byte, n int) {
	err := s.conn.Write(b[n:], slowAfter)
	putBuffer(p, b)
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.busy = false
	switch {
	case err != nil:
		if err == transport.ErrSlow {
			c.h.metrics.slow.Inc()
		}
		s.abortLocked()
	case s.told && len(s.own) == 0:
		s.finishLocked()
	case s.late:
		s.again, s.late = false, false
		now := c.h.clock.now()
		s.beatLocked(now, newBeat(now))
	case s.again:
		s.again = false
		s.pumpLocked(nil)
	}
}

// appendRoster appends what the client is due of the roster of one room. Called
// with the room locked.
func (s *stream) appendRoster(b []byte, sub *sub, deliveries int) ([]byte, int) {
	r, v := sub.room, &sub.view
	switch {
	case !r.loadedLocked():
		return b, deliveries // not read yet
	case sub.counts:
		return s.appendCount(b, sub, deliveries)
	case r.tally != nil:
		return s.appendTally(b, sub, deliveries)
	}
	now := r.roster.Version()
	switch v.phase {
	case viewNew:
		if r.broken || sub.aheadLocked(r.roster.Epoch(), now) {
			return b, deliveries // the feed is on its way
		}
		b = s.appendStart(b, r, v)
		v.phase, v.epoch, v.sent = viewLive, r.epochLocked(), now
	case viewLive:
		if v.mode != rollcall.ModeFull {
			b = s.append(b, wire.EventMode, r.snapshotLocked())
			*v = view{phase: viewLive, epoch: r.epochLocked(), sent: now}
			break
		}
		if r.notified <= v.sent && v.sent <= now {
			return b, deliveries
		}
		// A store that took over with older writes leads back: only a snapshot
		// tells that.
		body, ok := r.diffLocked(v.sent)
		// What is seen here is no longer what others see, and may not be taken for
		// it by another node.
		ok = ok && (r.roster.Unconfirmed() == 0 || v.epoch == r.epochLocked())
		switch {
		case !ok:
			b = s.append(b, wire.EventSnapshot, r.snapshotLocked())
			v.epoch, v.sent, v.holds = r.epochLocked(), now, false
			v.signalAnew()
		case body != nil:
			b = s.append(b, wire.EventDiff, body)
			v.sent = now
		default:
			return b, deliveries // what changed has cancelled out
		}
	default:
		return b, deliveries
	}
	return b, deliveries + 1
}

// appendStart appends the first event of a room: what the client holds is
// current, or can be brought to date, or is replaced.
func (s *stream) appendStart(b []byte, r *room, v *view) []byte {
	now := r.roster.Version()
	if v.sent != 0 && v.epoch == r.epochLocked() {
		d, ok := r.roster.SinceElsewhere(v.sent)
		if ok && v.sent == now {
			return s.append(b, wire.EventResumed, wire.AppendResumed(nil, r.id, v.epoch, now))
		}
		if ok && !d.Empty() && r.settlingLocked() == 0 {
			return s.append(b, wire.EventDiff, wire.AppendDiff(nil, r.id, &d))
		}
	}
	return s.append(b, wire.EventSnapshot, r.snapshotLocked())
}

// abortLocked ends the socket at once; its reader does the rest.
func (s *stream) abortLocked() {
	s.over = true
	s.conn.Close()
}

// finishLocked ends the socket after the goodbye was written.
func (s *stream) finishLocked() {
	if s.over {
		return
	}
	s.over = true
	if ws, ok := s.conn.(*transport.WebSocket); ok {
		ws.CloseAfter(closeLinger)
		return
	}
	s.conn.Close()
}

// byeLocked says goodbye and ends the stream. reconnect is when to come back;
// wire.DontReconnect for never.
func (s *stream) byeLocked(reason wire.ByeReason, reconnect time.Duration) {
	if s.told || s.over {
		return
	}
	s.event(wire.EventBye, wire.AppendBye(nil, reason, reconnect))
	s.closeLocked(byeCodes[reason], string(reason))
}

// closeLocked ends the stream with a close code, which SSE does not have.
func (s *stream) closeLocked(code wire.CloseCode, reason string) {
	if s.told || s.over {
		return
	}
	s.closing = code
	if s.proto == protocolWS {
		s.own = wire.AppendWSClose(s.own, code, reason)
	}
	s.told = true
	s.pumpLocked(nil)
}

var byeCodes = map[wire.ByeReason]wire.CloseCode{
	wire.ByeDraining: wire.CloseDraining,
	wire.ByeExpired:  wire.CloseExpired,
	wire.ByeKicked:   wire.CloseForbidden,
	wire.ByeRevoked:  wire.CloseToken,
	wire.ByeReplaced: wire.CloseReplaced,
	wire.ByeToken:    wire.CloseToken,
	wire.ByeSlow:     wire.CloseSlow,
	wire.ByeBusy:     wire.CloseTooMany,
	wire.ByeRotate:   wire.CloseGoingAway,
}

// beatLocked sends a beat, numbered by the moment of its sending: now, or with what
// is written next if the kernel has yet to take something.
func (s *stream) beatLocked(now instant, b *beatBytes) {
	if s.plain {
		return
	}
	if s.busy {
		s.late = true
		return
	}
	copy(s.beats[1:], s.beats[:beatsPending-1])
	s.beats[0] = now
	if s.proto == protocolWS {
		s.pumpLocked(b.ws)
	} else {
		s.pumpLocked(b.sse)
	}
}

// answeredLocked notes the answer to beat n, and reports whether it is one of
// the last that were sent.
func (s *stream) answeredLocked(n instant) bool {
	for _, sent := range s.beats {
		if sent == n && n != 0 {
			s.answered = max(s.answered, n)
			s.c.proveLocked(n)
			return true
		}
	}
	return false
}

// heardLocked notes that something else arrived from the client.
func (s *stream) heardLocked(now instant) {
	if s.c.h.clock.fresh(now, s.answered) {
		s.c.proveLocked(now)
	}
}

// beatBytes is a beat, shared by all streams that are sent it.
type beatBytes struct{ ws, sse []byte }

func newBeat(now instant) *beatBytes {
	body := wire.AppendBeat(nil, int64(now))
	var payload [8]byte
	binary.BigEndian.PutUint64(payload[:], uint64(now))
	return &beatBytes{
		ws:  wire.AppendWS(wire.AppendWSPing(nil, payload[:]), wire.EventBeat, body),
		sse: wire.AppendSSE(nil, wire.EventBeat, body),
	}
}

// retry is when a client of an SSE stream should first try again.
func (h *hub) retry() time.Duration {
	most := min(300*time.Millisecond, h.timing.Lease/6)
	return most/6 + rand.N(most*5/6)
}

// appendID appends the line by which an EventSource says where it was: the
// resume secret, and the state of its rooms.
func (s *stream) appendID(b []byte) []byte {
	b = append(b, "id: "...)
	b = append(b, s.resume...)
	b = append(b, '~')
	before := len(b)
	b = appendState(b, s.c.subs, s.multi)
	if s.c.asked != 0 {
		if bytes.IndexByte(b[before:], '~') < 0 {
			b = append(b, '~') // no digest
		}
		b = strconv.AppendUint(append(b, '~'), s.c.asked, 36)
	}
	return append(b, '\n', '\n')
}

// viewing is a room and the version held of it.
type viewing struct {
	room    rollcall.RoomID
	epoch   rollcall.Epoch
	version rollcall.Version
}
