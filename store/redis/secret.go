package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

const (
	secretKey = "rollcall:secret"
	secretTTL = 30 * 24 * time.Hour
)

// Secret is the secret that all nodes on this store share, made by the first one
// that asked, and kept for 30 days after the last.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	var b [32]byte
	rand.Read(b[:])
	make := s.client.B().Set().Key(secretKey).Value(hex.EncodeToString(b[:])).Nx().Ex(secretTTL).Build()
	s.client.Do(ctx, make) // fails if there is one already
	text, err := s.client.Do(ctx, s.client.B().Getex().Key(secretKey).Ex(secretTTL).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("the secret of the nodes: %w", err)
	}
	s.secret.Store(&text)
	return []byte(text), nil
}

// restoreSecret gives a store that has lost its memory the secret back, so that a
// node that starts later has the same one.
func (s *Store) restoreSecret() {
	text := s.secret.Load()
	if text == nil {
		return
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
		defer cancel()
		s.client.Do(ctx, s.client.B().Set().Key(secretKey).Value(*text).Nx().Ex(secretTTL).Build())
	})
}
