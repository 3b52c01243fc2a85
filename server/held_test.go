package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rollcall"
)

// While a room cannot be read, what is heard of it does not pile up; once it can be,
// it is what it is.
func TestWhatWaitsForASnapshotIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := &room{h: w.h, id: "lobby"}
		asked := r.losses
		for i := range 2*heldMost + 10 {
			r.change(&rollcall.Change{Room: "lobby", Prev: rollcall.Version(i), Version: rollcall.Version(i + 1)})
			if len(r.held) > heldMost {
				t.Fatalf("%d changes wait", len(r.held))
			}
		}
		r.install(&rollcall.Answer{Epoch: "e", Version: 1}, asked)
		if !r.broken {
			t.Error("a snapshot from before the changes that were let go of is taken for the room")
		}
		r.install(&rollcall.Answer{Epoch: "e", Version: 2*heldMost + 10}, r.losses)
		if r.broken || r.roster.Version() != 2*heldMost+10 {
			t.Errorf("broken: %v, at version %d", r.broken, r.roster.Version())
		}
	})
}

// readLobby reads the lobby, unless one of those tags is that of its state.
func (w *world) readLobby(match ...string) *http.Response {
	r := httptest.NewRequest("GET", "/v1/rooms/lobby", nil)
	r.Header["If-None-Match"] = match
	answer := httptest.NewRecorder()
	w.s.ServeHTTP(answer, r)
	return answer.Result()
}

func TestARoomIsNotModified(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.arrive("ana", lobby, nil)
		get := w.readLobby
		tag := get().Header.Get("ETag")
		for _, match := range [][]string{{tag}, {"W/" + tag}, {`"x", ` + tag}, {`"x"`, `"y",W/` + tag}, {"*"}} {
			if a := get(match...); a.StatusCode != http.StatusNotModified || a.Header.Get("ETag") != tag {
				t.Errorf("%q: %d, want 304", match, a.StatusCode)
			}
		}
		for _, match := range [][]string{nil, {`"x"`}, {"w/" + tag}, {strings.Trim(tag, `"`)}} {
			if a := get(match...); a.StatusCode != http.StatusOK {
				t.Errorf("%q: %d, want 200", match, a.StatusCode)
			}
		}
		w.arrive("bob", lobby, nil)
		if a := get(tag); a.StatusCode != http.StatusOK {
			t.Errorf("after a change: %d, want 200", a.StatusCode)
		}
	})
}

// Many rooms are counted while the store takes its time for each.
func TestManyRoomsAreReadTogether(t *testing.T) {
	slowReads(t, 10*time.Millisecond, func(t *testing.T, w *world) {
		w.arrive("ana", []rollcall.RoomID{"room 7"}, nil)
		var names []string
		for i := range 500 {
			names = append(names, fmt.Sprintf(`"room %d"`, i))
		}
		began := time.Now()
		code, body := w.ask("POST", "/v1/counts", "", `{"rooms":[`+strings.Join(names, ",")+`]}`)
		if code != http.StatusOK || !strings.Contains(body, `"room 7":1`) || strings.Count(body, ":0") != 499 {
			t.Errorf("%d %.200s", code, body)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
