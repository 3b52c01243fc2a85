package redis

import (
	"context"
	"testing"
	"time"

	"rollcall"
)

// A node that starts after the store has lost its memory signs as the others do.
func TestSecretComesBackToAStoreThatForgot(t *testing.T) {
	addr, _ := startServer(t, "redis-server")
	open := func() *Store {
		s, err := Open(context.Background(), Options{URL: "redis://" + addr, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	ctx := context.Background()
	first := open()
	secret, err := first.Secret(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first.Feed(func(*rollcall.Frame) {})
	if err := first.client.Do(ctx, first.client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for !exists(first) {
		if time.Now().After(deadline) {
			t.Fatal("the secret did not come back")
		}
		time.Sleep(10 * time.Millisecond) //house:sleep polls another process
	}
	again, err := open().Secret(ctx)
	if err != nil || string(again) != string(secret) {
		t.Errorf("another secret, %v", err)
	}
}

func exists(s *Store) bool {
	n, err := s.client.Do(context.Background(), s.client.B().Exists().Key(secretKey).Build()).AsInt64()
	return err == nil && n == 1
}
