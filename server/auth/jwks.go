package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Defaults of [JWKSOptions].
const (
	DefaultJWKSFresh = 15 * time.Minute
	DefaultJWKSPause = 10 * time.Second
)

const (
	maxJWKS   = 1 << 20         // bytes of an answer
	jwksWait  = 5 * time.Second // for a whole answer
	maxKeySet = 1000            // keys of a set
)

// JWKSOptions sets up a [JWKS].
type JWKSOptions struct {
	// URL answers a JWK Set; required, http or https.
	URL string
	// Fresh is the age at which the keys are fetched anew ([DefaultJWKSFresh] if
	// 0). The old ones serve until the new ones are there.
	Fresh time.Duration
	// Pause is the least time between two fetches ([DefaultJWKSPause] if 0), so
	// that strangers with made-up `kid`s cannot flood the server of the keys.
	Pause time.Duration
	// Transport carries the requests; [http.DefaultTransport] if nil.
	Transport http.RoundTripper
	// Logger is told of fetches that failed; [slog.Default] if nil.
	Logger *slog.Logger
}

// JWKS is a [KeySource] of the keys behind a URL. They are fetched when the first
// token comes, when a token names a key that is not known yet, and when they are
// old. While they cannot be fetched, the last ones serve.
//
// Safe for concurrent use. Close ends what is on its way.
type JWKS struct {
	options JWKSOptions
	client  *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	known   *Keys         // Guarded by mu. nil: never fetched. What it points to is static.
	err     error         // Guarded by mu. Of the last fetch.
	fetched time.Time     // Guarded by mu. When known was fetched.
	tried   time.Time     // Guarded by mu. When the last fetch began.
	flight  chan struct{} // Guarded by mu. Closed at the end of the fetch that is on its way; nil if there is none.
}

// NewJWKS checks the options. It fetches nothing yet.
func NewJWKS(o JWKSOptions) (*JWKS, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", o.URL)
	}
	if o.Fresh == 0 {
		o.Fresh = DefaultJWKSFresh
	}
	if o.Pause == 0 {
		o.Pause = DefaultJWKSPause
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &JWKS{options: o, client: &http.Client{Transport: o.Transport, Timeout: jwksWait}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends a fetch that is on its way.
func (s *JWKS) Close() error {
	s.cancel()
	s.wg.Wait()
	return nil
}

// Keys implements [KeySource].
func (s *JWKS) Keys(ctx context.Context, kid string) ([]Key, error) {
	for {
		s.mu.Lock()
		var keys []Key
		if s.known != nil {
			keys, _ = s.known.Keys(ctx, kid)
		}
		missing := len(keys) == 0
		if missing || time.Since(s.fetched) > s.options.Fresh {
			s.fetchLocked()
		}
		flight, known, err := s.flight, s.known, s.err
		s.mu.Unlock()
		switch {
		case !missing:
			return keys, nil
		case flight == nil && known == nil:
			return nil, err
		case flight == nil:
			return nil, nil
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetchLocked has the keys fetched, unless that is going on or was just tried.
func (s *JWKS) fetchLocked() {
	if s.flight != nil || !s.tried.IsZero() && time.Since(s.tried) < s.options.Pause || s.ctx.Err() != nil {
		return
	}
	s.tried = time.Now()
	flight := make(chan struct{})
	s.flight = flight
	s.wg.Go(func() {
		defer close(flight)
		known, err := s.fetch()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flight, s.err = nil, err
		if err == nil {
			s.known, s.fetched = known, time.Now()
		} else if s.ctx.Err() == nil {
			s.options.Logger.Warn("fetch the keys that verify tokens", "error", err)
		}
	})
}

func (s *JWKS) fetch() (*Keys, error) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.options.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.options.URL, answer.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxJWKS+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s.options.URL, err)
	case len(raw) > maxJWKS:
		return nil, fmt.Errorf("%s answers more than %d bytes", s.options.URL, maxJWKS)
	}
	keys, err := ParseKeySet(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.options.URL, err)
	}
	if len(keys) > maxKeySet {
		return nil, fmt.Errorf("%s has %d keys, and %d are enough", s.options.URL, len(keys), maxKeySet)
	}
	known := &Keys{named: make(map[string][]Key)}
	for _, k := range keys {
		switch {
		case isSecret(k):
			return nil, fmt.Errorf("%s gives a shared secret away to everybody who asks", s.options.URL)
		case k.ID == "":
			known.unnamed = append(known.unnamed, k)
		default: // of two kinds there may be two of one name
			known.named[k.ID] = append(known.named[k.ID], k)
		}
	}
	return known, nil
}

func isSecret(k Key) bool {
	_, ok := k.Material.([]byte)
	return ok
}

// KeySources is a [KeySource] of several: the keys of all of them. It fails only
// if none has a key and one failed.
type KeySources []KeySource

// Keys implements [KeySource].
func (list KeySources) Keys(ctx context.Context, kid string) ([]Key, error) {
	var all []Key
	var failed error
	for _, s := range list {
		keys, err := s.Keys(ctx, kid)
		failed = errors.Join(failed, err)
		all = append(all, keys...)
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, failed
}
