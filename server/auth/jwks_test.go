package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
)

// keyServer answers with a body, after a time, or fails.
type keyServer struct {
	mu       sync.Mutex
	body     []byte
	status   int
	err      error
	delay    time.Duration
	requests int
}

func (s *keyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests++
	body, status, err, delay := s.body, s.status, s.err, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (s *keyServer) set(change func(*keyServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *keyServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func newJWKS(t *testing.T, server *keyServer) *JWKS {
	t.Helper()
	s, err := NewJWKS(JWKSOptions{URL: "https://issuer.test/jwks", Transport: server, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeysAreFetchedWhenTheyAreNeeded(t *testing.T) {
	pairs := keyPairs(t)
	old, next := pairs["ES256"], pairs["EdDSA"]
	synctest.Test(t, func(t *testing.T) {
		server := &keyServer{status: 200, body: jwksOf(t, jwkOf(t, old.key)), delay: 100 * time.Millisecond}
		source := newJWKS(t, server)
		defer source.Close()
		a, err := NewJWT(JWTOptions{Keys: source})
		if err != nil {
			t.Fatal(err)
		}
		byOld, byNext := tokenBy(t, "ES256", "e", old.private), tokenBy(t, "EdDSA", "d", next.private)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := authenticate(a, byOld); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := server.count(); got != 1 {
			t.Errorf("20 tokens at once: %d fetches, want 1", got)
		}
		// A stranger's names make it fetch once in ten seconds.
		for range 100 {
			if _, err := authenticate(a, byNext); err == nil {
				t.Error("a token of an unknown key is taken")
			}
		}
		time.Sleep(11 * time.Second)
		for range 100 {
			authenticate(a, byNext)
		}
		if got := server.count(); got != 2 {
			t.Errorf("%d fetches, want 2", got)
		}
		// The issuer changes its key: the new one is found at once.
		server.set(func(s *keyServer) { s.body = jwksOf(t, jwkOf(t, next.key)) })
		time.Sleep(11 * time.Second)
		if _, err := authenticate(a, byNext); err != nil {
			t.Errorf("the new key: %v", err)
		}
		if _, err := authenticate(a, byOld); err == nil {
			t.Error("the key that was taken out is still good")
		}
		// Old keys serve while new ones cannot be fetched, and no token waits.
		server.set(func(s *keyServer) { s.status, s.delay = 500, 3*time.Second })
		time.Sleep(16 * time.Minute)
		start := time.Now()
		if _, err := authenticate(a, byNext); err != nil {
			t.Errorf("while the issuer is away: %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("a token of a known key waited %v", waited)
		}
		time.Sleep(time.Minute)
		if _, err := authenticate(a, byNext); err != nil {
			t.Errorf("after the issuer failed: %v", err)
		}
		server.set(func(s *keyServer) { s.status, s.delay, s.body = 200, 0, jwksOf(t, jwkOf(t, old.key)) })
		time.Sleep(time.Minute)
		authenticate(a, byNext)
		synctest.Wait()
		if _, err := authenticate(a, byOld); err != nil {
			t.Errorf("after the issuer came back: %v", err)
		}
	})
}

func TestAnIssuerThatIsAwayRefusesNobodyForGood(t *testing.T) {
	pair := keyPairs(t)["ES256"]
	synctest.Test(t, func(t *testing.T) {
		server := &keyServer{err: errors.New("no route")}
		source := newJWKS(t, server)
		a, _ := NewJWT(JWTOptions{Keys: source})
		token := tokenBy(t, "ES256", "e", pair.private)
		_, err := authenticate(a, token)
		if told, ok := errors.AsType[*rollcall.Error](err); !ok || told.Code != rollcall.CodeUnavailable || strings.Contains(told.Detail, "route") {
			t.Errorf("got %v, want unavailable", err)
		}
		for name, change := range map[string]func(*keyServer){
			"too large": func(s *keyServer) { s.err, s.status, s.body = nil, 200, make([]byte, maxJWKS+1) },
			"no set":    func(s *keyServer) { s.body = []byte("<html>") },
			"a secret":  func(s *keyServer) { s.body = jwksOf(t, jwkOf(t, SecretKey("e", secret))) },
			"hangs":     func(s *keyServer) { s.delay = time.Hour },
		} {
			server.set(change)
			time.Sleep(DefaultJWKSPause)
			if _, err := authenticate(a, token); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		time.Sleep(DefaultJWKSPause)
		if _, err := source.Keys(ctx, "e"); err == nil {
			t.Error("the caller's patience is not heeded")
		}
		source.Close()
		server.set(func(s *keyServer) { s.delay = 0 })
	})
}

func TestSeveralSourcesAddUp(t *testing.T) {
	pairs := keyPairs(t)
	first, _ := NewKeys(pairs["ES256"].key)
	second, _ := NewKeys(SecretKey("", secret))
	failing := newJWKS(t, &keyServer{err: errors.New("no route")})
	t.Cleanup(func() { failing.Close() })
	a, err := NewJWT(JWTOptions{Keys: KeySources{failing, first, second}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authenticate(a, tokenBy(t, "ES256", "e", pairs["ES256"].private)); err != nil {
		t.Error(err)
	}
	if _, err := authenticate(a, tokenBy(t, "HS256", "", secret)); err != nil {
		t.Error(err)
	}
	if _, err := NewJWKS(JWKSOptions{URL: "ftp://x"}); err == nil {
		t.Error("ftp is taken")
	}
}
