package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"rollcall/server/auth"
	"rollcall/store"
)

func newTestServer(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	if o.Store == nil {
		o.Store = store.NewMemory(store.MemoryOptions{Timing: o.Timing, Limits: o.Limits, Settled: true})
	}
	if o.Auth == nil {
		o.Auth = auth.Guests{}
	}
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		ts.Close()
		o.Store.Close()
	})
	return ts
}

func TestAnyIDFitsIntoAPath(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, id := range []string{"doc/42", "a//b", "/", "//", "a/../b", "a/.", "...", "%2F", "a b", "é\u2028", "?#&", "|", "\x00\x01", "*", "__proto__", strings.Repeat("x", 256)} {
		res, err := http.Get(ts.URL + "/v1/rooms/" + url.PathEscape(id))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("room %q: got %d %s, want 200", id, res.StatusCode, body)
		}
	}
	for _, escaped := range []string{"%2E", "%2E%2E", "..", ".", "%FF", url.PathEscape(strings.Repeat("x", 257))} {
		req, _ := http.NewRequest("GET", ts.URL, nil)
		req.URL.Opaque = "/v1/rooms/" + escaped
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 400 || !strings.Contains(string(body), `"bad_request"`) {
			t.Errorf("room %s: got %d %s, want 400 bad_request", escaped, res.StatusCode, body)
		}
	}
}
