package server

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// listed reads one page of the list of rooms.
func (w *world) listed(prefix, cursor, limit string) (wire.RoomsPage, []string) {
	w.t.Helper()
	q := url.Values{"prefix": {prefix}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit != "" {
		q.Set("limit", limit)
	}
	page, err := wire.DecodeRoomsPage([]byte(w.wantCall(200, "GET", "/v1/rooms?"+q.Encode(), testKey, "")))
	if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for _, r := range page.Rooms {
		names = append(names, string(r.Room))
	}
	return page, names
}

func TestRoomsAreListedForBackEndsAlone(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ana := w.token(auth.Claims{User: "ana"})
		for _, room := range []rollcall.RoomID{"doc:2", "doc:1", "lobby"} {
			w.mustEnter(ana, room)
		}
		bo := w.mustEnter(w.token(auth.Claims{User: "bo"}), "doc:2")
		w.mustEnter(w.token(auth.Claims{User: "eve", Hidden: true}), "doc:3") // in no list
		_, names := w.listed("", "", "")
		if want := []string{"doc:1", "doc:2", "lobby"}; !slices.Equal(names, want) {
			t.Errorf("listed %q, want %q", names, want)
		}
		page, names := w.listed("doc:", "", "1")
		if !slices.Equal(names, []string{"doc:1"}) || page.NextCursor == "" {
			t.Fatalf("first page %+v", page)
		}
		page, _ = w.listed("doc:", page.NextCursor, "1")
		want := []rollcall.RoomSummary{{Room: "doc:2", Count: 2}}
		if !slices.Equal(page.Rooms, want) || page.NextCursor != "" {
			t.Errorf("second page %+v, want %+v", page, want)
		}
		bo.st.c.end(rollcall.ReasonLeft)
		if page, _ := w.listed("doc:2", "", ""); page.Rooms[0].Count != 1 {
			t.Errorf("after bo left: %+v", page)
		}
		w.wantCall(403, "GET", "/v1/rooms", ana, "")
		w.wantCall(401, "GET", "/v1/rooms", "", "")
		w.wantCall(401, "GET", "/v1/rooms", "sk_not_one_of_the_servers_keys", "")
	})
}

// A46: a limit or a cursor that is none is told, and none of them skips a room.
func TestListOfRoomsRefusesForeignCursors(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		ana := w.token(auth.Claims{User: "ana"})
		for i := range 45 {
			w.mustEnter(ana, rollcall.RoomID(fmt.Sprintf("a%02d", i)))
		}
		a, _ := w.listed("a", "", "2")
		foreign := []string{"x", "!", "MTc", "AAAAAAAA", a.NextCursor[:len(a.NextCursor)-2], a.NextCursor + "AA"}
		for _, c := range foreign {
			w.wantCall(400, "GET", "/v1/rooms?prefix=a&cursor="+url.QueryEscape(c), testKey, "")
		}
		w.wantCall(400, "GET", "/v1/rooms?prefix=b&cursor="+a.NextCursor, testKey, "") // of another list
		w.wantCall(400, "GET", "/v1/rooms?cursor="+a.NextCursor, testKey, "")
		w.wantCall(400, "GET", "/v1/rooms?cursor="+cursor("a00", 17), testKey, "")
		for _, limit := range []string{"0", "-1", "x", "1.5"} {
			w.wantCall(400, "GET", "/v1/rooms?limit="+limit, testKey, "")
		}
		long := make([]byte, rollcall.MaxID+1)
		for i := range long {
			long[i] = 'a'
		}
		w.wantCall(400, "GET", "/v1/rooms?prefix="+string(long), testKey, "")
		if _, names := w.listed("a", "", "1000000000"); len(names) != 45 {
			t.Errorf("a limit over the most: %d rooms, want 45", len(names))
		}
		if page, names := w.listed("a\xf0\x9f", "", ""); len(names) != 0 || page.NextCursor != "" {
			t.Errorf("a prefix of half a character: %+v", page)
		}
	})
}
