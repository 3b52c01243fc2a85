package keynote

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/bench/load"
)

// member is one of the crowd. Its run owns what is not said to be guarded.
type member struct {
	c     *crowd
	n     int    // static: its number; its user is named by it
	token string // static

	node    *seat  // where it is, or goes next
	id      []byte // of its last event stream
	epoch   string // of what it holds of the room
	version int
	count   int       // that it was told last on this stream; -1 before
	counted time.Time // when, if it is one whose gaps are taken
	entered bool      // it has been shown the room, ever
	inRoom  bool      // on this stream
	rotated bool      // the server ended the stream so that it comes back
	gone    bool      // its stream ended otherwise, and it is not back

	inside  atomic.Bool // shown the room, and the stream has not ended but to rotate
	leaving atomic.Bool // it was asked to leave

	mu         sync.Mutex
	stream     closer // Guarded by mu. nil between two.
	connection string // Guarded by mu.
	resume     string // Guarded by mu.
	at         string // Guarded by mu. The address of the node of stream.
}

type closer interface{ Close() error }

// seat is a node that members may be on.
type seat struct {
	addr string // static
	up   atomic.Bool
}

func userOf(n int) string { return "m" + strconv.Itoa(n) }

// run is the life of a member, until it leaves or ctx ends.
func (m *member) run(ctx context.Context) {
	for try := 0; ; try++ {
		m.count, m.inRoom, m.rotated, m.counted = -1, false, false, time.Time{}
		pause, err := m.visit(ctx)
		if m.inRoom {
			try = 0
		}
		if !m.rotated && m.inside.Swap(false) {
			m.c.present.Add(-1)
		}
		m.mu.Lock()
		m.stream = nil
		m.mu.Unlock()
		if ctx.Err() != nil || m.leaving.Load() {
			return
		}
		if !m.rotated {
			m.c.series.now().ended.Add(1)
			m.gone = true
			m.c.fault(err)
			// As clients do: soon at first, and then less often.
			pause = rand.N(300 * time.Millisecond << min(try, 3))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !m.node.up.Load() {
			m.node = m.c.elsewhere()
		}
	}
}

// visit opens a stream and reads it until its end.
func (m *member) visit(ctx context.Context) (pause time.Duration, err error) {
	select {
	case m.c.doors <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	through := sync.OnceFunc(func() { <-m.c.doors })
	defer through()
	as := load.Login{Token: m.token}
	if m.c.transport == "sse" {
		s, err := load.DialSSE(m.node.addr, url.PathEscape(roomName), "", as, m.id, load.BufferSmall)
		if err != nil {
			return 0, err
		}
		defer s.Close()
		s.ID = m.id
		m.hold(ctx, s)
		err = s.Read(true, func(kind, body []byte) { m.hear(kind, body, through) })
		m.id = s.ID
		return s.Retry, err
	}
	as.Resume = m.resume // written by this goroutine only
	ws, err := load.DialWS(m.node.addr, as, load.BufferSmall)
	if err != nil {
		return 0, err
	}
	defer ws.Close()
	m.hold(ctx, ws)
	if err := ws.Join(roomName, m.epoch, m.version); err != nil {
		return 0, err
	}
	return 0, ws.Read(func(kind, body []byte) { m.hear(kind, body, through) })
}

// hold makes the stream one that stop can end.
func (m *member) hold(ctx context.Context, s closer) {
	m.mu.Lock()
	m.stream, m.at = s, m.node.addr
	m.mu.Unlock()
	if ctx.Err() != nil {
		s.Close()
	}
}

// streamTo is the stream of the member, if it is to a node; else nil.
func (m *member) streamTo(addr string) closer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream == nil || m.at != addr {
		return nil
	}
	return m.stream
}

// has reports whether the member has this stream.
func (m *member) has(stream closer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stream == stream
}

// stop ends the stream without a word.
func (m *member) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil {
		m.stream.Close()
	}
}

// hear takes an event.
func (m *member) hear(kind, body []byte, through func()) {
	switch string(kind) {
	case "ready":
		m.ready(body)
		return
	case "bye":
		m.rotated = load.Text(body, "reason") == "rotate"
		return
	case "snapshot", "mode", "count", "diff", "resumed":
	default:
		return
	}
	now := time.Now()
	s := &m.c.series.slots[m.c.series.index(now)]
	s.messages.Add(1)
	if epoch := load.Text(body, "epoch"); epoch != "" {
		m.epoch = epoch
	}
	if version := load.Number(body, "version"); version >= 0 {
		m.version = version
	}
	if count := load.Number(body, "count"); count >= 0 {
		s.tell(count)
		if string(kind) == "count" {
			m.counts(s, now, count)
		}
		m.count = count
	}
	if string(kind) == "diff" {
		m.leaves(s, body)
	}
	if !m.inRoom {
		m.inRoom = true
		through()
		m.enter(s, now)
	}
}

// enter notes that the member is in.
func (m *member) enter(s *slot, now time.Time) {
	switch killed := m.c.killed.Load(); {
	case !m.entered:
		m.entered = true
		s.entered.Add(1)
	case m.gone && killed != 0:
		s.returned.Add(1)
		m.c.series.cameBack(now.Sub(time.Unix(0, killed)))
	}
	m.gone = false
	if !m.inside.Swap(true) {
		m.c.present.Add(1)
	}
}

func (m *member) ready(body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connection, m.resume = load.Text(body, "connection"), load.Text(body, "resume")
}

// gapsOf is of how many members one has the time between its counts taken.
const gapsOf = 20

func (m *member) counts(s *slot, now time.Time, count int) {
	s.counts.Add(1)
	if count < m.count && !m.c.churning.Load() {
		s.falls.Add(1)
	}
	if m.n%gapsOf == 0 {
		if !m.counted.IsZero() {
			m.c.series.gap(*m.c.phase.Load(), now.Sub(m.counted))
		}
		m.counted = now
	}
}

// leaves looks for the leave of somebody who has not left.
func (m *member) leaves(s *slot, diff []byte) {
	_, rest, ok := bytes.Cut(diff, []byte(`"leave":[`))
	for ok {
		if _, rest, ok = bytes.Cut(rest, []byte(`"user":"m`)); ok {
			digits, _, _ := bytes.Cut(rest, []byte(`"`))
			if n, err := strconv.Atoi(string(digits)); err == nil && !m.c.hasLeft(n) {
				s.leaves.Add(1)
			}
		}
	}
}

// leave has the member leave the room, with a word.
func (m *member) leave() error {
	m.leaving.Store(true)
	m.mu.Lock()
	stream, connection, resume, addr := m.stream, m.connection, m.resume, m.at
	m.mu.Unlock()
	switch s := stream.(type) {
	case *load.WS:
		s.Leave(roomName)
	case *load.SSE:
		defer s.Close()
		calls, err := load.DialCalls(addr)
		if err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		defer calls.Close()
		return calls.Post(connection, resume, "release", []byte("{}"))
	}
	return nil
}
