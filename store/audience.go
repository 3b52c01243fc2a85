package store

import (
	"context"
	"sync"
	"time"

	"rollcall"
)

// Audiences is a store that keeps sketches of who was in rooms, for
// [rollcall.Limits.MaxWindow]. Stores may implement it; safe for concurrent use.
//
// Moments are seconds of the caller's clock, which tells now: a store of many nodes
// translates them to its own.
type Audiences interface {
	// Witness adds to the sketches of rooms. What failed may be told again: adding
	// it twice changes nothing. It does not change the sketches.
	Witness(ctx context.Context, now int64, seen []RoomSketch) error

	// Audience is how many distinct visitors a room had within the window until
	// now, and the standard error of that number as a part of it; 0 if exact.
	Audience(ctx context.Context, room rollcall.RoomID, now int64, window time.Duration) (n int, standardError float64, err error)
}

// RoomSketch is visitors of a room.
type RoomSketch struct {
	Room   rollcall.RoomID
	Sketch *rollcall.Sketch
}

var _ Audiences = (*Memory)(nil)

// audiences are the sketches of a [Memory], of at most so many rooms: those that
// were visited least lately are forgotten first.
type audiences struct {
	keep   int64 // static; seconds
	most   int   // static; rooms of a shard
	shards [rollcall.Partitions]audienceShard
}

type audienceShard struct {
	mu    sync.Mutex
	rooms map[rollcall.RoomID]*audience // Guarded by mu.
	swept int64                         // Guarded by mu. When those without visitors were last let go of.
}

type audience struct {
	sketch rollcall.Sketch
	newest int64
}

func newAudiences(l *rollcall.Limits) *audiences {
	a := &audiences{keep: int64(l.MaxWindow / time.Second), most: max(l.AudienceRooms/rollcall.Partitions, 1)}
	for i := range a.shards {
		a.shards[i].rooms = make(map[rollcall.RoomID]*audience)
	}
	return a
}

// Witness implements [Audiences].
func (m *Memory) Witness(_ context.Context, now int64, seen []RoomSketch) error {
	if m.closed.Load() {
		return ErrClosed
	}
	for _, s := range seen {
		m.audiences.shards[rollcall.PartitionOf(s.Room)].add(m.audiences, now, s)
	}
	return nil
}

func (s *audienceShard) add(a *audiences, now int64, seen RoomSketch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.rooms[seen.Room]
	if at == nil {
		if s.sweep(a, now); len(s.rooms) >= a.most {
			s.evict()
		}
		at = &audience{}
		s.rooms[seen.Room] = at
	}
	at.newest = max(at.newest, seen.Sketch.Newest())
	at.sketch.Merge(seen.Sketch)
	at.sketch.Forget(now - a.keep)
}

// sweep lets go of the rooms that nobody has visited within the time that is kept,
// every now and then.
func (s *audienceShard) sweep(a *audiences, now int64) {
	if now-s.swept < a.keep/60 {
		return
	}
	s.swept = now
	for room, at := range s.rooms {
		if at.newest < now-a.keep {
			delete(s.rooms, room)
		}
	}
}

// evict makes room for another one.
func (s *audienceShard) evict() {
	var oldest rollcall.RoomID
	var newest int64
	for room, at := range s.rooms {
		if oldest == "" || at.newest < newest {
			oldest, newest = room, at.newest
		}
	}
	delete(s.rooms, oldest)
}

// Audience implements [Audiences].
func (m *Memory) Audience(_ context.Context, room rollcall.RoomID, now int64, window time.Duration) (int, float64, error) {
	if m.closed.Load() {
		return 0, 0, ErrClosed
	}
	s := &m.audiences.shards[rollcall.PartitionOf(room)]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.rooms[room]
	if at == nil {
		return 0, 0, nil
	}
	n, e := at.sketch.Since(WindowStart(now, window))
	return n, e, nil
}

// WindowStart is the first moment, in seconds, of a window until now: of the last
// second of a visit, who was here longer ago than the window is not counted.
func WindowStart(now int64, window time.Duration) int64 { return now - int64(window/time.Second) + 1 }
