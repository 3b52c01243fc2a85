package main

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"rollcall/store"
	"rollcall/store/redis"
)

const (
	storeTry   = 10 * time.Second       // the most time of one try
	storePause = 250 * time.Millisecond // between two
)

// openRedis opens the shared store. One that is not there yet is waited for: a
// store and its nodes are often started together, in any order. Whatever else is
// wrong with it will not get better by waiting. The secret is that of all nodes:
// given, or made by the first one and kept there.
func openRedis(ctx context.Context, c *checked, log *slog.Logger) (store.Store, []byte, error) {
	s, err := awaitRedis(ctx, c, log)
	if err != nil {
		return nil, nil, err
	}
	if c.secret != nil {
		return s, c.secret, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	secret, err := s.Secret(ctx)
	if err != nil {
		s.Close()
		return nil, nil, storeFailure(ctx, c.Store, err)
	}
	return s, secret, nil
}

func awaitRedis(ctx context.Context, c *checked, log *slog.Logger) (*redis.Store, error) {
	until := time.Now().Add(c.StoreWait)
	for told := false; ; told = true {
		try, cancel := context.WithTimeout(ctx, storeTry)
		s, err := redis.Open(try, redis.Options{URL: c.Store, NoUserIndex: !c.UserIndex, Timing: c.timing, Limits: c.limits, Modes: c.modes, Rules: c.rules, Logger: log})
		cancel()
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, failed("", "interrupted before the store was there")
		case !redis.Away(err) || !time.Now().Add(storePause).Before(until):
			return nil, storeFailure(ctx, c.Store, err)
		case !told:
			log.Warn("store is not there, waiting for it", "error", err, "wait", c.StoreWait)
		}
		select {
		case <-time.After(storePause):
		case <-ctx.Done():
		}
	}
}

// storeFailure tells what is wrong with a store, in words of people.
func storeFailure(ctx context.Context, address string, err error) *failure {
	hint := redis.Hint(err)
	if hint == "" {
		hint = "`rollcall doctor --store URL` tells more"
	}
	if what := redis.Fault(ctx, address, err); what != "" {
		return failed(hint, "--store %s: %s", redacted(address), what)
	}
	return failed(hint, "--store %s: %w", redacted(address), err)
}

// redacted is an address without user and password.
func redacted(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "(no address)"
	}
	rest, _, _ = strings.Cut(rest, "?") // may have a password too
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if _, err := url.Parse(scheme + "://" + rest); err != nil && !strings.Contains(rest, ",") {
		return scheme + "://"
	}
	return scheme + "://" + rest
}
