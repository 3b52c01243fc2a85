package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// info is the answer of INFO as a table.
func info(text string) map[string]string {
	table := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			table[name] = value
		}
	}
	return table
}

// check makes sure that the server can be a store: Redis 7.0 or Valkey 7.2, and
// no eviction of what we keep.
func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	text, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
	if err != nil {
		return fmt.Errorf("ask the store what it is: %w", err)
	}
	table := info(text)
	name, version := "Redis", table["redis_version"]
	if v := table["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	if !atLeast(version, 7, 0) {
		return fmt.Errorf("the store is %s %s; it has to be Redis 7.0 or Valkey 7.2, or newer", name, version)
	}
	if policy := table["maxmemory_policy"]; policy != "" && policy != "noeviction" && table["maxmemory"] != "0" {
		s.o.Logger.Warn("store evicts keys", "policy", policy, "hint", "set maxmemory-policy noeviction, or people vanish when memory is short")
	}
	if s.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	if table["role"] == "slave" {
		return fmt.Errorf("the store is a replica; name its master, or use redis+sentinel://")
	}
	return nil
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}
