package fieldcases

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"rollcall/test/harness"
)

const app = "https://app.test"

func from(origin string, more ...string) http.Header {
	h := http.Header{"Origin": {origin}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// TestA38CORSWithCredentials: a listed origin is echoed, with credentials and
// Vary, on answers and on errors; any other gets no such header. No preflight and
// no HEAD joins anything.
func TestA38CORSWithCredentials(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true, Origins: []string{app}})
	token := s.Token(harness.Claims{User: "ana"})
	stream := harness.RoomPath(room, "/stream")
	calls := map[string]harness.Call{
		"read":           {Path: harness.RoomPath(room, ""), Token: token},
		"read refused":   {Path: harness.RoomPath(room, ""), Nobody: true},
		"beat refused":   {Method: "POST", Path: "/v1/connections/x/beat", Body: `{"n":1}`, Nobody: true},
		"stream refused": {Path: stream, Nobody: true},
		"no such path":   {Path: "/v1/nothing", Token: token},
		"wrong verb":     {Method: "DELETE", Path: harness.RoomPath(room, ""), Token: token},
		"head":           {Method: "HEAD", Path: stream, Token: token},
		"options":        {Method: "OPTIONS", Path: stream, Nobody: true},
		"preflight": {Method: "OPTIONS", Path: "/v1/connections/x/beat", Nobody: true, Header: http.Header{
			"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"rollcall-resume,content-type,authorization"},
		}},
	}
	for what, call := range calls {
		for _, origin := range []string{app, "https://evil.test", "http://app.test", "https://app.test.evil.test", "null"} {
			c := call
			c.Header = http.Header{"Origin": {origin}}
			for k, v := range call.Header {
				c.Header[k] = v
			}
			a := s.Do(c)
			if a.Err != nil {
				t.Fatalf("%s: %v", what, a.Err)
			}
			allow, credentials := a.Header.Get("Access-Control-Allow-Origin"), a.Header.Get("Access-Control-Allow-Credentials")
			if origin == app && (allow != app || credentials != "true") {
				t.Errorf("%s from %s: allows %q with credentials %q", what, origin, allow, credentials)
			}
			if origin != app && allow != "" {
				t.Errorf("%s from %s: allows %q", what, origin, allow)
			}
			if !slices.ContainsFunc(a.Header.Values("Vary"), func(v string) bool { return strings.Contains(v, "Origin") }) {
				t.Errorf("%s from %s: Vary is %q", what, origin, a.Header.Values("Vary"))
			}
			if strings.Contains(what, "refused") && a.Status != 401 {
				t.Errorf("%s: status %d", what, a.Status)
			}
			if c.Method == "OPTIONS" && a.Status != 204 {
				t.Errorf("%s: status %d", what, a.Status)
			}
		}
	}
	if n := s.Count(room); n != 0 {
		t.Errorf("count after all that: got %d, want 0", n)
	}
	s.Know(room, "ana")
	ana := s.OpenSSE(t, harness.Options{Rooms: []string{room}, Token: token, Header: from(app)})
	if got := ana.Head().Get("Access-Control-Allow-Origin"); got != app {
		t.Errorf("stream: allows %q", got)
	}
	ready := ana.Ready()
	a := s.Do(harness.Call{Method: "POST", Path: "/v1/connections/" + ready.Connection + "/beat", Resume: ready.Resume, Body: `{}`, Header: from(app)})
	if a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != app {
		t.Errorf("beat: %d, allows %q", a.Status, a.Header.Get("Access-Control-Allow-Origin"))
	}
}

// TestA40CookiesOpenNothingForOtherSites: a visitor's cookie opens a stream for
// pages of listed origins alone.
func TestA40CookiesOpenNothingForOtherSites(t *testing.T) {
	harness.Worlds(t, harness.Config{Tokens: true, Origins: []string{app}}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		try := func(origin, by string) *harness.Client {
			o := harness.Options{Rooms: []string{room}, Token: s.Token(harness.Claims{User: "ana"}), TokenBy: by, NoWait: true, Header: http.Header{}}
			if origin != "" {
				o.Header.Set("Origin", origin)
			}
			return s.Try(t, over, o)
		}
		for _, origin := range []string{"https://evil.test", "null", "", "https://app.test.evil.test", "http://app.test", "https://app.test:444", "https://APP.test.", "*"} {
			c := try(origin, "cookie")
			if a := c.Refused(); a == nil || a.Status != 403 || a.Problem().Code != "forbidden" {
				t.Errorf("cookie from %q: not refused: %+v", origin, a)
			}
		}
		if over == harness.WS {
			if a := try("https://evil.test", "subprotocol").Refused(); a == nil || a.Status != 403 {
				t.Errorf("a token from evil.test: not refused: %+v", a)
			}
		}
		if n := s.Count(room); n != 0 {
			t.Errorf("count: got %d, want 0", n)
		}
		for origin, by := range map[string]string{app: "cookie", "": "header", s.Home(): "cookie"} {
			c := try(origin, by)
			if a := c.Refused(); a != nil {
				t.Errorf("%s from %q: refused: %d %s", by, origin, a.Status, a.Body)
				continue
			}
			c.Until(soon, "ana", func() bool { return c.Has(room, "ana") })
		}
	})
}
