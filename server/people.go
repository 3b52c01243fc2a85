package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// whereabouts asks the store where users are, unless it has just failed.
func (h *hub) whereabouts(ctx context.Context, users []rollcall.UserID) (rollcall.UsersAnswer, error) {
	s, ok := h.store.(store.Users)
	if !ok {
		return rollcall.UsersAnswer{}, store.ErrNoIndex
	}
	parts := h.usersByKeeper(users)
	if len(parts) > 1 {
		return h.whereaboutsOf(ctx, s, users, parts)
	}
	var a rollcall.UsersAnswer
	for k := range parts {
		var err error
		if a, err = k.whereabouts(ctx, s, users); err != nil {
			return a, err
		}
	}
	return a, nil
}

// whereaboutsOf asks several parts of the store at once, and puts their answers in
// the order of users.
func (h *hub) whereaboutsOf(ctx context.Context, s store.Users, users []rollcall.UserID, parts map[*keeper][]rollcall.UserID) (a rollcall.UsersAnswer, err error) {
	var mu sync.Mutex
	known := make(map[rollcall.UserID]*rollcall.Whereabouts, len(users))
	var all sync.WaitGroup
	for k, some := range parts {
		all.Go(func() {
			b, failure := k.whereabouts(ctx, s, some)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = failure
			}
			a.Settling = max(a.Settling, b.Settling)
			for i := range b.Users {
				known[b.Users[i].User] = &b.Users[i]
			}
		})
	}
	all.Wait()
	if err != nil {
		return rollcall.UsersAnswer{}, err
	}
	for _, user := range users {
		a.Users = append(a.Users, *known[user])
	}
	return a, nil
}

// whereabouts asks the keeper's part of the store.
func (k *keeper) whereabouts(ctx context.Context, s store.Users, users []rollcall.UserID) (rollcall.UsersAnswer, error) {
	if k.isDown() {
		return rollcall.UsersAnswer{}, errDown
	}
	a, err := s.Users(ctx, users)
	if errors.Is(err, store.ErrNoIndex) {
		return a, err
	}
	return a, k.note(ctx, err)
}

// noUsers is what to tell a client of an error of whereabouts.
func (h *hub) noUsers(err error) *rollcall.Error {
	if errors.Is(err, store.ErrNoIndex) {
		return rollcall.Errorf(rollcall.CodeNotFound, "this server keeps no index of users (--user-index)")
	}
	return h.unavailable(err)
}

// knowsAnywhere reports whether somebody may know whether a user is anywhere, and
// when the user was last seen. Others know what they may read.
func knowsAnywhere(id *auth.Identity, user rollcall.UserID) bool {
	return mayWatchUsers(id) || id.User == user
}

func mayWatchUsers(id *auth.Identity) bool {
	return id.Server() || id.Grants.Anywhere(auth.Contacts) || id.Grants.Everywhere(auth.Read)
}

// seenBy is what a reader may know of where a user is.
func seenBy(id *auth.Identity, w *rollcall.Whereabouts) *wire.User {
	u := &wire.User{UserStatus: wire.UserStatus{User: w.User}}
	for _, at := range w.Rooms {
		if id.Can(at.Room, auth.Read) {
			u.Rooms = append(u.Rooms, at.Room)
			u.Status = max(u.Status, at.Status)
		}
	}
	slices.Sort(u.Rooms)
	if knowsAnywhere(id, w.User) {
		u.Status, u.LastSeen = w.Status, w.Seen
	}
	return u
}

// getUser is GET /v1/users/{user}.
func (s *Server) getUser(w http.ResponseWriter, r *http.Request) error {
	id, err := s.identify(r)
	if err != nil {
		return err
	}
	user, err := pathID(r, "user")
	if err != nil {
		return err
	}
	a, err := s.h.whereabouts(r.Context(), []rollcall.UserID{rollcall.UserID(user)})
	if err != nil {
		return s.h.noUsers(err)
	}
	settling(w, &rollcall.Answer{Settling: a.Settling})
	s.json(w, http.StatusOK, wire.AppendUser(nil, seenBy(id, &a.Users[0])))
	return nil
}

// postUsersLookup is POST /v1/users/lookup.
func (s *Server) postUsersLookup(w http.ResponseWriter, r *http.Request) error {
	id, err := s.identify(r)
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
	a, err := s.h.whereabouts(r.Context(), users)
	if err != nil {
		return s.h.noUsers(err)
	}
	settling(w, &rollcall.Answer{Settling: a.Settling})
	statuses := make([]wire.UserStatus, len(users))
	for i := range a.Users {
		statuses[i] = seenBy(id, &a.Users[i]).UserStatus
	}
	s.json(w, http.StatusOK, wire.AppendUserStatuses(nil, statuses))
	return nil
}

// putUsers is PUT /v1/connections/{connection}/users: the users that the stream of
// the connection watches from now on.
func (s *Server) putUsers(w http.ResponseWriter, r *http.Request) error {
	raw, err := s.body(w, r)
	if err != nil {
		return err
	}
	watch, err := wire.DecodeWatch(raw, s.o.Limits.LookupUsers)
	if err != nil {
		return err
	}
	c, _, err := s.proven(r, watch.Resume)
	if err != nil {
		return err
	}
	c.mu.Lock()
	st := c.stream
	c.hearLocked(s.h.clock.now())
	c.mu.Unlock()
	if st == nil {
		return rollcall.Errorf(rollcall.CodeGone, "the connection has no stream to tell about users")
	}
	present, refused := st.watchUsers(r.Context(), watch.Users)
	if refused != nil {
		return refused
	}
	s.json(w, http.StatusOK, wire.AppendPresentUsers(nil, present))
	return nil
}

// watchUsers has the stream told of users, in place of those that it watched.
func (st *stream) watchUsers(ctx context.Context, users []rollcall.UserID) ([]wire.UserStatus, *rollcall.Error) {
	c := st.c
	c.mu.Lock()
	id := c.identity
	c.mu.Unlock()
	if !mayWatchUsers(id) {
		return nil, rollcall.Errorf(rollcall.CodeForbidden, "to watch users anywhere, the token has to allow contacts in some room")
	}
	if most := c.h.limits.WatchedUsers; len(users) > most {
		return nil, rollcall.LimitError(rollcall.CodeRateLimited, most, "a stream may watch %d users", most)
	}
	present, err := c.h.watching.watch(ctx, st, users)
	if err != nil {
		return nil, c.h.noUsers(err)
	}
	return present, nil
}
