package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"rollcall/server/auth"
	"rollcall/store"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // Guarded by mu.
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestTokensAreInNoLogAndNoAnswer(t *testing.T) {
	const secret = "a-token-that-nobody-may-see"
	var log lockedBuffer
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	s, err := New(Options{
		Store: m, Auth: auth.Guests{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	get := func(method, path string, header ...string) {
		t.Helper()
		req, err := http.NewRequest(method, ts.URL+path, strings.NewReader(`{"token":"`+secret+`","resume":"`+secret+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode < 400 || strings.Contains(string(body), secret) {
			t.Errorf("%s %s: %d %s", method, path, res.StatusCode, body)
		}
	}
	get("GET", "/v1/rooms/r?access_token="+secret)
	get("GET", "/v1/rooms/r/stream?access_token="+secret)
	get("GET", "/v1/ws?access_token="+secret)
	get("GET", "/v1/rooms/r/members", "Authorization", "Bearer "+secret)
	get("POST", "/v1/connections/c/beat?resume="+secret)
	get("POST", "/v1/connections/c/auth", "Rollcall-Resume", secret)
	get("PUT", "/v1/rooms/r/connections/c?resume="+secret)
	m.Close() // whatever is logged of a store that fails
	get("GET", "/v1/rooms/r/members?user=ana&x="+secret)
	s.Close()
	ts.Close()
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log tells the token: %s", log.String())
	}
}
