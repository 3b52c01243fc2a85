package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// witness tells the store who was in which rooms: of the leases of this node, when
// they are granted, now and then while they live, and when a user leaves. What it
// tells are hashes with a secret in them, so nobody can choose ids that collide.
type witness struct {
	h     *hub
	store store.Audiences // static; nil: the store keeps no audiences
	salt  [sha256.Size]byte
	began time.Time // static; moments are counted on by the monotonic clock

	telling sync.Mutex // held while the store is told: who reads waits for what is on its way

	mu      sync.Mutex
	rooms   map[rollcall.RoomID]*visited // Guarded by mu. Where somebody of this node was lately.
	looked  int64                        // Owned by run. When all leases were last looked at.
	failing bool                         // Owned by run.
}

// visited is a room and what the store has not been told of it.
type visited struct {
	fresh *rollcall.Sketch // nil if there is nothing to tell
	due   int64            // when it is to be told
	last  int64            // when somebody of this node was last seen there
}

const (
	// lookEvery is how often the leases that live are told, in seconds; they are
	// spread over as much again. So somebody who is present was told within the last
	// 41 s, less than the shortest window.
	lookEvery = 20
	tellEvery = time.Second
)

func newWitness(h *hub, secret []byte) *witness {
	w := &witness{h: h, began: time.Now(), rooms: make(map[rollcall.RoomID]*visited)}
	w.store, _ = h.store.(store.Audiences)
	w.salt = sha256.Sum256(append([]byte("rollcall audience\x00"), secret...))
	w.looked = w.now()
	return w
}

// now is the present moment in seconds.
func (w *witness) now() int64 { return w.began.Unix() + int64(time.Since(w.began)/time.Second) }

// hash is what stands for a user.
func (w *witness) hash(user rollcall.UserID) uint64 {
	b := make([]byte, 0, sha256.Size+rollcall.MaxID)
	sum := sha256.Sum256(append(append(b, w.salt[:]...), user...))
	return binary.BigEndian.Uint64(sum[:])
}

// saw notes that a user of this node holds a lease in a room now, to be told with
// the next second.
func (w *witness) saw(room rollcall.RoomID, user rollcall.UserID) {
	if w.store == nil {
		return
	}
	now, hash := w.now(), w.hash(user)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(room, hash, now, now)
}

func (w *witness) addLocked(room rollcall.RoomID, hash uint64, now, due int64) {
	v := w.rooms[room]
	if v == nil {
		v = &visited{}
		w.rooms[room] = v
	}
	v.last = now
	v.addLocked(hash, now, due)
}

func (v *visited) addLocked(hash uint64, now, due int64) {
	if v.fresh == nil {
		v.fresh, v.due = &rollcall.Sketch{}, due
	}
	v.due = min(v.due, due)
	v.fresh.Add(hash, now)
}

// frame notes who left the rooms where this node has somebody: until then they
// were there. It is called with the partition of the store locked.
func (w *witness) frame(f *rollcall.Frame) {
	if w.store == nil {
		return
	}
	for i := range f.Changes {
		ch := &f.Changes[i]
		for _, l := range ch.Leave {
			w.mu.Lock()
			if v := w.rooms[ch.Room]; v != nil {
				now := w.now()
				v.addLocked(w.hash(l.User), now, now)
			}
			w.mu.Unlock()
		}
	}
}

func (w *witness) run() {
	if w.store == nil {
		return
	}
	for sleep(w.h.ctx, tellEvery) == nil {
		now := w.now()
		if now-w.looked >= lookEvery {
			w.looked = now
			w.look(now)
		}
		if w.h.anyDown() {
			continue
		}
		err := w.tell(w.h.ctx, w.due(now))
		if err != nil && !w.failing && w.h.ctx.Err() == nil {
			w.h.log.Warn("tell the store of audiences", "error", err)
		}
		w.failing = err != nil
	}
}

// look notes all who hold a lease, to be told a room at a time until the next look.
func (w *witness) look(now int64) {
	w.h.connections.each(func(c *connection) {
		c.mu.Lock()
		var few [8]rollcall.RoomID
		rooms := few[:0]
		for _, s := range c.subs {
			if s.leased() || s.estimated {
				rooms = append(rooms, s.id)
			}
		}
		c.mu.Unlock()
		if len(rooms) == 0 {
			return
		}
		hash := w.hash(c.user)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, room := range rooms {
			w.addLocked(room, hash, now, now+int64(roomsCheck("", room)%lookEvery))
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for room, v := range w.rooms {
		if v.fresh == nil && now-v.last > 2*lookEvery {
			delete(w.rooms, room)
		}
	}
	if len(w.rooms) == 0 {
		w.rooms = make(map[rollcall.RoomID]*visited) // an emptied map keeps its memory
	}
}

// due takes what is to be told by now.
func (w *witness) due(now int64) (seen []store.RoomSketch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for room, v := range w.rooms {
		if v.fresh != nil && v.due <= now {
			seen = append(seen, store.RoomSketch{Room: room, Sketch: v.fresh})
		}
	}
	return seen
}

// tell tells the store. What it was not told stays.
func (w *witness) tell(ctx context.Context, seen []store.RoomSketch) error {
	w.telling.Lock()
	defer w.telling.Unlock()
	// Taken only now: who waited has been told meanwhile, maybe of these too.
	kept := seen[:0]
	w.mu.Lock()
	for _, s := range seen {
		if v := w.rooms[s.Room]; v != nil && v.fresh != nil {
			kept = append(kept, store.RoomSketch{Room: s.Room, Sketch: v.fresh})
			v.fresh = nil
		}
	}
	w.mu.Unlock()
	if len(kept) == 0 {
		return nil
	}
	err := w.store.Witness(ctx, w.now(), kept)
	if err == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range kept {
		v := w.rooms[s.Room]
		if v == nil {
			continue
		}
		if v.fresh == nil {
			v.fresh, v.due = &rollcall.Sketch{}, w.now()+5
		}
		v.fresh.Merge(s.Sketch)
	}
	return err
}

// audience reads how many distinct users were in a room within a window, what this
// node knows included.
func (w *witness) audience(ctx context.Context, room rollcall.RoomID, window time.Duration) (int, float64, error) {
	if err := w.tell(ctx, []store.RoomSketch{{Room: room}}); err != nil {
		return 0, 0, err
	}
	return w.store.Audience(ctx, room, w.now(), window)
}

// getAudience is GET /v1/rooms/{room}/audience.
func (s *Server) getAudience(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Count)
	if err != nil {
		return err
	}
	window, err := s.windowOf(r.URL.Query())
	if err != nil {
		return err
	}
	h := s.h
	if h.witness.store == nil {
		return rollcall.Errorf(rollcall.CodeNotFound, "the store of this server keeps no audiences")
	}
	if h.keeperOf(rollcall.PartitionOf(room)).isDown() {
		return h.unavailable(errDown)
	}
	n, e, err := h.witness.audience(r.Context(), room, window)
	if err != nil {
		h.log.Warn("read an audience", "error", err)
		return h.unavailable(err)
	}
	s.json(w, http.StatusOK, wire.AppendAudience(nil, wire.Audience{Estimate: n, StandardError: e, Window: window}))
	return nil
}

// windowOf is the window that a query asks for, within what is kept.
func (s *Server) windowOf(q url.Values) (time.Duration, error) {
	l := &s.o.Limits
	window := 5 * time.Minute
	if text := q.Get("windowMs"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, rollcall.Errorf(rollcall.CodeBadRequest, "windowMs must be a number of milliseconds")
		}
		window = time.Duration(min(n, int64(l.MaxWindow/time.Millisecond))) * time.Millisecond
	}
	return min(max(window, l.MinWindow), l.MaxWindow), nil
}
