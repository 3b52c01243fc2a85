package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/store/redis"
)

// Limits of a store that serves well.
const (
	slowPing   = 5 * time.Millisecond
	slowestP99 = 100 * time.Millisecond
	jumpDoubt  = 50 * time.Millisecond
	leastLimit = 8 << 20 // of output for a subscriber
)

// examineStore looks at a shared store.
func examineStore(ctx context.Context, url string, found func(Finding)) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	e, err := redis.Examine(ctx, url)
	if err != nil {
		what := redis.Fault(ctx, url, err)
		if what == "" {
			what = err.Error()
		}
		found(wrong("store", redis.Hint(err), "%s", what))
		return
	}
	for i := range e.Servers {
		s := &e.Servers[i]
		if s.Info["role"] == "slave" && e.Kind == "cluster" {
			continue // it may become a master with the settings of one
		}
		for _, check := range []func(*redis.Examination, *redis.Server) Finding{
			checkVersion, checkRole, checkEviction, checkMemory, checkOutput, checkPersistence,
		} {
			f := check(e, s)
			if len(e.Servers) > 1 {
				f.Check += " of " + s.Address
			}
			found(f)
		}
	}
	for _, check := range []func(*redis.Examination) Finding{checkCluster, checkScript, checkEcho, checkLatency, checkStoreClock} {
		if f := check(e); f.Check != "" {
			found(f)
		}
	}
}

func checkVersion(_ *redis.Examination, s *redis.Server) Finding {
	if !s.Fit {
		return wrong("store version", "Redis 7.0 or Valkey 7.2, or newer", "%s %s", s.Name, s.Version)
	}
	return ok("store version", "%s %s", s.Name, s.Version)
}

func checkRole(e *redis.Examination, s *redis.Server) Finding {
	switch role := s.Info["role"]; {
	case role == "slave":
		return wrong("store role", fmt.Sprintf("name its master (%s:%s), or use redis+sentinel://", s.Info["master_host"], s.Info["master_port"]), "a replica")
	case e.Kind == "standalone" && s.Info["connected_slaves"] == "0":
		return ok("store role", "master, without replicas: while it is away nobody comes or goes, and nobody is lost")
	default:
		return ok("store role", "%s of %s replicas, %s", role, s.Info["connected_slaves"], e.Kind)
	}
}

func checkEviction(_ *redis.Examination, s *redis.Server) Finding {
	const name, do = "store eviction", "CONFIG SET maxmemory-policy noeviction, and in its configuration file"
	policy, limit := s.Info["maxmemory_policy"], number(s, "maxmemory")
	switch evicted := number(s, "evicted_keys"); {
	case policy == "":
		return advice(name, "make sure that its maxmemory-policy is noeviction", "it does not tell its policy")
	case policy == "noeviction":
		return ok(name, "noeviction")
	case limit > 0:
		return wrong(name, do, "maxmemory-policy %s with maxmemory %s: people vanish when memory is short (%d keys have)", policy, size(limit), evicted)
	default:
		return advice(name, do, "maxmemory-policy %s, and no maxmemory: it would matter as soon as there is one", policy)
	}
}

func checkMemory(_ *redis.Examination, s *redis.Server) Finding {
	const name = "store memory"
	used, limit := number(s, "used_memory"), number(s, "maxmemory")
	switch {
	case limit > 0 && used*10 > limit*8:
		return advice(name, "raise maxmemory: when it is full nobody can join", "%s of %s used", size(used), size(limit))
	case limit > 0:
		return ok(name, "%s of %s used", size(used), size(limit))
	}
	return ok(name, "%s used, without a limit", size(used))
}

func number(s *redis.Server, field string) int64 {
	n, _ := strconv.ParseInt(s.Info[field], 10, 64)
	return n
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// checkOutput looks at how much a node may have unread before the server cuts it
// off. Nodes notice and repair that, but each time by reading everything.
func checkOutput(_ *redis.Examination, s *redis.Server) Finding {
	const name = "store output"
	words := strings.Fields(s.PubSubLimit)
	if len(words) != 3 {
		return advice(name, "make sure that its client-output-buffer-limit leaves pubsub 32mb 8mb 60 or more", "it does not tell its limit for subscribers")
	}
	for _, word := range words[:2] {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > 0 && n < leastLimit {
			return advice(name, "CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"", "client-output-buffer-limit pubsub %s: a busy node may be cut off from its feed", s.PubSubLimit)
		}
	}
	return ok(name, "client-output-buffer-limit pubsub %s", s.PubSubLimit)
}

// checkPersistence: presence needs none, since nodes bring it back; what makes a
// store wait for a disk harms.
func checkPersistence(_ *redis.Examination, s *redis.Server) Finding {
	const name = "store persistence"
	switch {
	case s.Info["loading"] == "1":
		return wrong(name, "wait until it has read its data", "it is reading its data from disk")
	case s.Info["aof_enabled"] == "1" && s.Info["aof_last_write_status"] == "err", s.Info["rdb_last_bgsave_status"] == "err":
		return wrong(name, "give it room on its disk, or switch persistence off (save \"\", appendonly no): it may refuse writes", "its last write to disk failed")
	case s.Info["aof_enabled"] == "1":
		return ok(name, "appendonly: more than presence needs; with appendfsync everysec it costs little")
	}
	return ok(name, "no append-only file, and none is needed: nodes bring back who is here. Give them a --secret, which a store that is emptied forgets")
}

func checkCluster(e *redis.Examination) Finding {
	const name = "store cluster"
	if e.Kind != "cluster" {
		return Finding{}
	}
	for i := range e.Servers {
		if s := &e.Servers[i]; s.Slots != "" && s.Slots != "ok" {
			return wrong(name, "`redis-cli --cluster check HOST:PORT` tells which slots are not served", "cluster_state:%s on %s", s.Slots, s.Address)
		}
	}
	return ok(name, "cluster_state:ok, %d servers", len(e.Servers))
}

func checkScript(e *redis.Examination) Finding {
	const name = "store scripts"
	if err := e.ScriptErr; err != nil {
		return wrong(name, orElse(redis.Hint(err), "the user needs EVALSHA and the keys {p*"), "a script does not run: %v", err)
	}
	return ok(name, "run")
}

func orElse(hint, other string) string {
	if hint == "" {
		return other
	}
	return hint
}

func checkEcho(e *redis.Examination) Finding {
	const name = "store feed"
	switch err := e.EchoErr; {
	case errors.Is(err, context.DeadlineExceeded):
		return wrong(name, "is a proxy before the store that does not pass subscriptions on?", "%v", err)
	case err != nil:
		return wrong(name, orElse(redis.Hint(err), "the user needs SUBSCRIBE, PUBLISH and the channels {p*"), "%v", err)
	}
	return ok(name, "what is published arrives within %s", short(e.Echoes[len(e.Echoes)-1]))
}

func checkLatency(e *redis.Examination) Finding {
	const name = "store latency"
	p50, p99 := quantile(e.Pings, .5), quantile(e.Pings, .99)
	switch {
	case len(e.Pings) == 0:
		return wrong(name, "the user needs TIME", "it does not tell the time")
	case p99 > slowestP99:
		return wrong(name, "move the nodes next to the store; `redis-cli --latency` and SLOWLOG tell whether it is busy", "p50 %s, p99 %s of %d", short(p50), short(p99), len(e.Pings))
	case p50 > slowPing:
		return advice(name, "keep the nodes and the store in one place: each join waits for one round trip", "p50 %s, p99 %s of %d", short(p50), short(p99), len(e.Pings))
	}
	return ok(name, "p50 %s, p99 %s of %d", short(p50), short(p99), len(e.Pings))
}

func checkStoreClock(e *redis.Examination) Finding {
	const name = "store clock"
	const do = "set it by NTP that slews and does not step. A jump costs at most two seconds of lease time"
	switch {
	case e.Jump > jumpDoubt:
		return advice(name, do, "it jumped by %s while we looked", short(e.Jump))
	case e.Ahead.Abs() > clockDoubt:
		return advice(name, "nothing depends on it; but the logs will not fit together", "it is %s off ours", short(e.Ahead.Abs()))
	}
	return ok(name, "steady")
}
