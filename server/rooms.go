package server

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// backend checks that the request comes from a server with a key.
func (s *Server) backend(r *http.Request, what string) (*auth.Identity, error) {
	id, err := s.identify(r)
	if err != nil {
		return nil, err
	}
	if !id.Server() {
		return nil, rollcall.Errorf(rollcall.CodeForbidden, "a server key is needed to %s", what)
	}
	return id, nil
}

// prefixOf is the prefix of room names that a query names.
func prefixOf(q url.Values) (string, error) {
	prefix := q.Get("prefix")
	if len(prefix) > rollcall.MaxID {
		return "", rollcall.LimitError(rollcall.CodeBadRequest, rollcall.MaxID, "the prefix is longer than a room id: %d bytes", rollcall.MaxID)
	}
	return strings.Clone(prefix), nil
}

// limitOf is how long a page is to be: most, if more is asked for.
func limitOf(q url.Values, most int) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return min(defaultPage, most), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, rollcall.LimitError(rollcall.CodeBadRequest, most, "limit must be a number from 1 to %d", most)
	}
	return min(n, most), nil
}

// getRooms is GET /v1/rooms: the rooms with members, by name.
func (s *Server) getRooms(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.backend(r, "list rooms"); err != nil {
		return err
	}
	lister, ok := s.o.Store.(store.Rooms)
	if !ok {
		return rollcall.Errorf(rollcall.CodeNotFound, "the store of this server cannot list rooms")
	}
	q := r.URL.Query()
	var query rollcall.RoomsQuery
	var err error
	if query.Prefix, err = prefixOf(q); err != nil {
		return err
	}
	if query.Limit, err = limitOf(q, s.o.Limits.PageRooms); err != nil {
		return err
	}
	if text := q.Get("cursor"); text != "" {
		if query.After, ok = parseRoomsCursor(query.Prefix, text); !ok {
			return rollcall.Errorf(rollcall.CodeBadRequest, "the cursor is not one that the list of this prefix gave")
		}
	}
	if s.h.anyDown() {
		return s.h.unavailable(errDown)
	}
	a, err := lister.Rooms(r.Context(), query)
	if err != nil {
		return s.h.unavailable(err)
	}
	settling(w, &rollcall.Answer{Settling: a.Settling})
	page := wire.RoomsPage{Rooms: a.Rooms}
	if a.Next != "" {
		page.NextCursor = roomsCursor(query.Prefix, a.Next)
	}
	s.json(w, http.StatusOK, wire.AppendRoomsPage(nil, page))
	return nil
}

// roomsCursor names a place in the list of rooms of a prefix: the last name, and a
// check that it is of this list.
func roomsCursor(prefix string, last rollcall.RoomID) string {
	b := binary.BigEndian.AppendUint32(nil, roomsCheck(prefix, last))
	return base64.RawURLEncoding.EncodeToString(append(b, last...))
}

func roomsCheck(prefix string, last rollcall.RoomID) uint32 {
	return uint32(digest(viewing{room: last, epoch: rollcall.Epoch("rooms " + prefix)}))
}

func parseRoomsCursor(prefix, text string) (rollcall.RoomID, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 5 || !rollcall.ValidID(string(b[4:])) {
		return "", false
	}
	last := rollcall.RoomID(b[4:])
	return last, binary.BigEndian.Uint32(b) == roomsCheck(prefix, last)
}
