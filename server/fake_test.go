package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/server/transport"
	"rollcall/store"
)

// world is a hub in virtual time, with streams that have no sockets.
type world struct {
	t *testing.T
	h *hub
	m *store.Memory
	s *Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	o := Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Auth: auth.Guests{}}
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	o.Store = m
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		m.Close()
	})
	return &world{t: t, h: s.h, m: m, s: s}
}

// fakeConn takes everything at once, unless it is told to be slow.
type fakeConn struct {
	mu     sync.Mutex
	got    bytes.Buffer // Guarded by mu.
	writes int          // Guarded by mu.
	stuck  bool         // Guarded by mu. The client takes nothing.
	closed chan struct{}
	once   sync.Once
}

func newFakeConn() *fakeConn { return &fakeConn{closed: make(chan struct{})} }

func (f *fakeConn) TryWrite(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck {
		return 0, nil
	}
	f.writes++
	return f.got.Write(p)
}

func (f *fakeConn) Write(p []byte, progress time.Duration) error {
	deadline := time.Now().Add(progress)
	for {
		f.mu.Lock()
		stuck := f.stuck
		f.mu.Unlock()
		if !stuck {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.writes++
			f.got.Write(p)
			return nil
		}
		select {
		case <-f.closed:
			return io.ErrClosedPipe
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return transport.ErrSlow
		}
	}
}

func (f *fakeConn) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *fakeConn) RemoteAddr() string { return "192.0.2.1:1" }
func (f *fakeConn) Detached() bool     { return true }

func (f *fakeConn) isClosed() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

func (f *fakeConn) stick(stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = stuck
}

// take returns what was written since the last take, and in how many writes.
func (f *fakeConn) take() (string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, n := f.got.String(), f.writes
	f.got.Reset()
	f.writes = 0
	return s, n
}

// client is a stream of the world and what its client was told.
type client struct {
	w    *world
	conn *fakeConn
	st   *stream
}

// arrive opens an SSE stream.
func (w *world) arrive(user string, rooms []rollcall.RoomID, change func(*arrival)) *client {
	w.t.Helper()
	conn := newFakeConn()
	return &client{w: w, conn: conn, st: w.arriveOver(conn, user, rooms, change)}
}

// arriveOver opens an SSE stream on a connection of the caller's.
func (w *world) arriveOver(conn transport.Conn, user string, rooms []rollcall.RoomID, change func(*arrival)) *stream {
	w.t.Helper()
	a := arrival{
		identity: auth.GuestIdentity(rollcall.UserID(user)), proto: protocolSSE, multi: len(rooms) > 1,
	}
	for _, r := range rooms {
		a.rooms = append(a.rooms, entry{room: r})
	}
	if change != nil {
		change(&a)
	}
	o, err := w.h.open(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.attach(conn)
}

// answer answers the newest beat.
func (c *client) answer() {
	c.st.c.mu.Lock()
	defer c.st.c.mu.Unlock()
	c.st.answeredLocked(c.st.beats[0])
}

// ends is the end of the stream as its reader saw it.
func (c *client) ends(kind transport.EndKind) { c.st.ended(transport.End{Kind: kind}) }

// events are the SSE events in text, as "event data".
func events(text string) (all []string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		var event, data string
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				event = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = v
			}
		}
		if event != "" {
			all = append(all, event+" "+data)
		}
	}
	return all
}

// told are the joins, updates and leaves that a stream was told.
func told(text string) (all []string) {
	for _, e := range events(text) {
		data, ok := strings.CutPrefix(e, "diff ")
		if !ok {
			continue
		}
		var d struct {
			Join, Update []struct{ User string }
			Leave        []struct{ User, Reason string }
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			panic(err)
		}
		for _, m := range d.Join {
			all = append(all, "join "+m.User)
		}
		for _, m := range d.Update {
			all = append(all, "update "+m.User)
		}
		for _, l := range d.Leave {
			all = append(all, "leave "+l.User+" "+l.Reason)
		}
	}
	return all
}

// here lists the users of a room.
func (w *world) here(room rollcall.RoomID) (users []string) {
	a, err := w.m.Read(w.t.Context(), rollcall.Query{Want: rollcall.WantSnapshot, Room: room})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range a.Members {
		users = append(users, string(m.User))
	}
	return users
}
