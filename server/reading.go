package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// read asks the store about a room.
func (s *Server) read(ctx context.Context, q rollcall.Query) (rollcall.Answer, error) {
	a, err := s.h.query(ctx, q)
	if err != nil {
		return a, s.h.unavailable(err)
	}
	if a.Settling > 0 {
		s.h.remember(&q, &a)
	}
	return a, nil
}

// remember adds to an answer of a store that has lost its memory who was here
// before and has not been missing for a lease: what the streams of this node go
// on showing.
func (h *hub) remember(q *rollcall.Query, a *rollcall.Answer) {
	shard := &h.rooms[rollcall.PartitionOf(q.Room)]
	shard.mu.RLock()
	r := shard.rooms[q.Room]
	shard.mu.RUnlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tally; t != nil {
		least := t.least
		if t.epoch != a.Epoch { // it is about to be read again
			least = r.shownCountLocked()
		}
		a.Count, a.Mode = max(a.Count, least), rollcall.ModeCounts
		return
	}
	if r.roster == nil || r.roster.Unconfirmed() == 0 {
		return
	}
	known := make(map[rollcall.UserID]bool, len(a.Members))
	for _, m := range a.Members {
		known[m.User] = true
	}
	a.Count = r.roster.Count()
	switch {
	case q.Want == rollcall.WantUsers:
		for _, id := range q.Users {
			if m := r.roster.Member(id); m != nil && !known[id] {
				a.Members = append(a.Members, m)
			}
		}
	case q.Want == rollcall.WantPage && q.Cursor == 0 && r.roster.Count() <= q.Limit:
		for _, m := range r.roster.Members() {
			if !known[m.User] {
				a.Members = append(a.Members, m)
			}
		}
	}
	for q.States && len(a.States) < len(a.Members) {
		a.States = append(a.States, nil)
	}
}

// settling says with a read that members may be on their way back.
func settling(w http.ResponseWriter, a *rollcall.Answer) {
	if a.Settling > 0 {
		w.Header().Set("Rollcall-Settling", strconv.FormatInt(max(a.Settling.Milliseconds(), 1), 10))
	}
}

// reader checks that the request may read a room.
func (s *Server) reader(r *http.Request, c auth.Capability) (rollcall.RoomID, error) {
	room, err := roomOf(r)
	if err != nil {
		return "", err
	}
	id, err := s.identify(r)
	if err != nil {
		return "", err
	}
	return room, may(id, room, c)
}

// getRoom is GET /v1/rooms/{room}.
func (s *Server) getRoom(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Count)
	if err != nil {
		return err
	}
	a, err := s.read(r.Context(), rollcall.Query{Want: rollcall.WantRoom, Room: room})
	if err != nil {
		return err
	}
	settling(w, &a)
	tag := `"` + string(a.Epoch) + "." + strconv.FormatInt(int64(a.Version), 36) + "." + strconv.Itoa(a.Connections) +
		"." + strconv.Itoa(a.Count) + `"`
	w.Header().Set("ETag", tag)
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	s.json(w, http.StatusOK, wire.AppendRoomInfo(nil, wire.RoomInfo{
		Room: room, Mode: wire.Mode(a.Mode.String()), Count: a.Count, Connections: a.Connections, Epoch: a.Epoch, Version: a.Version,
		Estimate: a.Estimate, StandardError: a.StandardError,
	}))
	return nil
}

// matches reports whether one of the entity tags of If-None-Match is tag, as caches
// compare (RFC 9110, 8.8.3.2): weak or not is one. * is any.
func matches(fields []string, tag string) bool {
	for _, field := range fields {
		for one := range strings.SplitSeq(field, ",") { // our tags have no comma
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// getMembers is GET /v1/rooms/{room}/members, by cursor, newest join first.
func (s *Server) getMembers(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Read)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	query := rollcall.Query{
		Want: rollcall.WantPage, Room: room, States: flag(q, "connections"),
	}
	if query.Limit, err = limitOf(q, s.o.Limits.PageMembers); err != nil {
		return err
	}
	if text := q.Get("cursor"); text != "" {
		v, ok := parseCursor(room, text)
		if !ok {
			return errCursor
		}
		query.Cursor = v
	}
	a, err := s.read(r.Context(), query)
	if err != nil {
		return err
	}
	settling(w, &a)
	page := wire.MembersPage{Members: a.Members, ByConnection: a.States, Count: a.Count, Version: a.Version}
	if a.Next != 0 {
		page.NextCursor = cursor(room, a.Next)
	}
	s.json(w, http.StatusOK, wire.AppendMembersPage(nil, page))
	return nil
}

// cursor names a place in the order of joins of a room: the version of a join,
// and a check that it is of this room.
func cursor(room rollcall.RoomID, v rollcall.Version) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(v))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, cursorCheck(room, v)))
}

func cursorCheck(room rollcall.RoomID, v rollcall.Version) uint32 {
	return uint32(digest(viewing{room: room, epoch: "cursor", version: v}))
}

func parseCursor(room rollcall.RoomID, text string) (rollcall.Version, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 12 {
		return 0, false
	}
	v := rollcall.Version(binary.BigEndian.Uint64(b))
	return v, v > 0 && binary.BigEndian.Uint32(b[8:]) == cursorCheck(room, v)
}

// getMember is GET /v1/rooms/{room}/members/{user}.
func (s *Server) getMember(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Read)
	if err != nil {
		return err
	}
	user, err := pathID(r, "user")
	if err != nil {
		return err
	}
	a, err := s.read(r.Context(), rollcall.Query{
		Want: rollcall.WantUsers, Room: room, Users: []rollcall.UserID{rollcall.UserID(user)},
		States: flag(r.URL.Query(), "connections"),
	})
	if err != nil {
		return err
	}
	settling(w, &a)
	switch {
	case len(a.Members) == 0:
		return rollcall.Errorf(rollcall.CodeNotFound, "the user is not in this room")
	case a.States != nil:
		s.json(w, http.StatusOK, wire.AppendMemberConnections(nil, a.Members[0], a.States[0]))
	default:
		s.json(w, http.StatusOK, wire.AppendMember(nil, a.Members[0]))
	}
	return nil
}

// postLookup is POST /v1/rooms/{room}/members/lookup: which of these are here.
func (s *Server) postLookup(w http.ResponseWriter, r *http.Request) error {
	room, err := s.reader(r, auth.Read)
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	users, err := wire.DecodeUsers(raw, s.o.Limits.LookupUsers)
	if err != nil {
		return err
	}
	a, err := s.read(r.Context(), rollcall.Query{
		Want: rollcall.WantUsers, Room: room, Users: users, States: flag(r.URL.Query(), "connections"),
	})
	if err != nil {
		return err
	}
	settling(w, &a)
	s.json(w, http.StatusOK, wire.AppendPresent(nil, a.Members, a.States))
	return nil
}

// postCounts is POST /v1/counts: how many are in each of these rooms.
func (s *Server) postCounts(w http.ResponseWriter, r *http.Request) error {
	id, err := s.identify(r)
	if err != nil {
		return err
	}
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	rooms, err := wire.DecodeRooms(raw, s.o.Limits.CountRooms)
	if err != nil {
		return err
	}
	for _, room := range rooms {
		if err := may(id, room, auth.Count); err != nil {
			return err
		}
	}
	counts, longest, err := s.countRooms(r.Context(), rooms)
	if err != nil {
		return err
	}
	settling(w, &rollcall.Answer{Settling: longest})
	s.json(w, http.StatusOK, wire.AppendRoomCounts(nil, counts))
	return nil
}

// countsAtOnce is how many rooms are read at a time. The store's client puts their
// reads into few round trips.
const countsAtOnce = 32

// countRooms reads how many are in each of rooms, and how long the store that settles
// longest still does.
func (s *Server) countRooms(ctx context.Context, rooms []rollcall.RoomID) (counts []wire.RoomCount, longest time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	counts = make([]wire.RoomCount, len(rooms))
	waits := make([]time.Duration, len(rooms))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(countsAtOnce, len(rooms)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rooms) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				a, err := s.read(ctx, rollcall.Query{Want: rollcall.WantRoom, Room: rooms[i]})
				if err != nil {
					cancel(err)
					return
				}
				counts[i], waits[i] = wire.RoomCount{Room: rooms[i], Count: a.Count}, a.Settling
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	if len(rooms) > 0 {
		longest = slices.Max(waits)
	}
	return counts, longest, nil
}
