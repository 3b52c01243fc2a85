package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// puts is a PUT of a lease without a stream, with a token along if there is one.
func (w *world) puts(room, connection, resume, token, body string) (status int, lease struct {
	Resume  string
	LeaseMs int
}) {
	w.t.Helper()
	query := ""
	if token != "" {
		query = "?access_token=" + token
	}
	status, answer := w.ask("PUT", "/v1/rooms/"+room+connection+query, resume, body)
	if err := json.Unmarshal([]byte(answer), &lease); err != nil {
		w.t.Fatalf("PUT: %d %s", status, answer)
	}
	return status, lease
}

// The node of leases without a stream dies, and PUTs bring them to another one: each
// goes on as it ran, in every room, and no other room is entered by that.
func TestLeasesWithoutAStreamGoOnAsTheyRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		token := one.token(auth.Claims{User: "ana", Expires: time.Now().Add(24 * time.Hour)})
		path, resume := one.tokenLease(token, `{"ttlMs":1800000}`)
		if status, _ := one.puts("kitchen", path, resume, token, `{"ttlMs":600000,"data":{"a":1}}`); status != http.StatusOK {
			t.Fatal(status)
		}
		one.dies()
		time.Sleep(5 * time.Minute)
		for _, c := range []struct {
			room, token   string
			status, lease int
		}{
			{"lobby", "", http.StatusOK, 1800000},
			{"kitchen", "", http.StatusOK, 600000},
			{"kitchen", "", http.StatusOK, 600000},
			{"attic", "", http.StatusGone, 0},
		} {
			status, lease := two.puts(c.room, path, resume, c.token, `{}`)
			if status != c.status || lease.LeaseMs != c.lease {
				t.Errorf("PUT in the %s: %d, and a lease of %d ms, want %d and %d", c.room, status, lease.LeaseMs, c.status, c.lease)
			}
		}
		if status, _ := two.puts("kitchen", path, resume, "", `{"status":"away"}`); status != http.StatusOK {
			t.Error(status)
		}
		if _, body := two.ask("GET", "/v1/rooms/kitchen/members/ana", "", ""); !strings.Contains(body, `"data":{"a":1}`) {
			t.Errorf("in the kitchen is %s", body)
		}
		time.Sleep(599 * time.Second)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 1})
		time.Sleep(5 * time.Second)
		two.wantHere(map[rollcall.RoomID]int{"lobby": 1, "kitchen": 0})
	})
}

// The node of a lease without a stream dies, and a PUT brings it to another one: it ends
// with its token all the same, unless a later one comes along, and enters another room
// by the rights of that one.
func TestALeaseWithoutAStreamEndsWithItsTokenOnAnotherNodeToo(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // the PUT that comes to the other node; the token ends after a minute
		later  bool          // a token comes along
		status int
		other  int    // of a PUT in another room
		told   string // of ana, within three minutes
	}{
		"before its end":               {30 * time.Second, false, http.StatusOK, http.StatusGone, "leave ana revoked"},
		"before its end, with a later": {30 * time.Second, true, http.StatusOK, http.StatusOK, ""},
		"after its end":                {90 * time.Second, false, http.StatusGone, http.StatusGone, "leave ana expired"},
		"after its end, with a later":  {90 * time.Second, true, http.StatusOK, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := twoNodes(t)
				eve := two.arrive("eve", lobby, nil)
				path, resume := one.tokenLease(one.token(auth.Claims{User: "ana", Expires: time.Now().Add(time.Minute)}), `{"ttlMs":120000}`)
				one.dies()
				live(c.after, eve)
				eve.conn.take()
				later := ""
				if c.later {
					later = two.token(auth.Claims{User: "ana", Expires: time.Now().Add(time.Hour)})
				}
				status, _ := two.puts("lobby", path, resume, later, `{}`)
				other, _ := two.puts("attic", path, resume, "", `{}`)
				if status != c.status || other != c.other {
					t.Errorf("the PUTs: %d and %d, want %d and %d", status, other, c.status, c.other)
				}
				var got []string
				for range 18 {
					live(10*time.Second, eve)
					if len(got) == 0 && status == http.StatusOK {
						two.puts("lobby", path, resume, "", `{}`)
					}
					said, _ := eve.conn.take()
					got = append(got, slices.DeleteFunc(told(said), func(s string) bool { return strings.HasPrefix(s, "update") })...)
				}
				if strings.Join(got, " ") != c.told {
					t.Errorf("eve was told %q, want %q", got, c.told)
				}
			})
		})
	}
}
