package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Redis is the shared store: one that was started for the bench, or one that was
// there. Not safe for concurrent use.
type Redis struct {
	*Process // nil if it was there
	URL      string
	client   rueidis.Client
	dir      string
}

// StartRedis starts a redis-server of its own, which keeps nothing; or uses the
// one of url, if that is not "".
func StartRedis(ctx context.Context, core int, url string) (*Redis, error) {
	r := &Redis{URL: url}
	if url == "" {
		if err := r.start(ctx, core); err != nil {
			return nil, err
		}
	}
	o, err := rueidis.ParseURL(r.URL)
	if err == nil {
		o.DisableCache, o.ForceSingleClient = true, true
		r.client, err = rueidis.NewClient(o)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	return r, nil
}

func (r *Redis) start(ctx context.Context, core int) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("several nodes share a store, and there is no redis-server here: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if r.dir, err = os.MkdirTemp("", "rollcall-bench"); err != nil {
		return err
	}
	ready := func(line string) bool { return strings.Contains(line, "Ready to accept connections") }
	r.Process, err = start(ctx, "redis", core, ready, program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", r.dir, "--maxmemory-policy", "noeviction")
	if err != nil {
		os.RemoveAll(r.dir)
		return err
	}
	r.URL = "redis://127.0.0.1:" + strconv.Itoa(port)
	return nil
}

// Close ends the Redis, if it was started here.
func (r *Redis) Close() {
	if r.client != nil {
		r.client.Close()
	}
	if r.Process != nil {
		r.Kill()
		os.RemoveAll(r.dir)
	}
}

// Info is what the store says of itself: the numbers of INFO by their names, and
// of commands "NAME.calls" and "NAME.usec".
func (r *Redis) Info(ctx context.Context) (map[string]float64, error) {
	text, err := r.client.Do(ctx, r.client.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			for part := range strings.SplitSeq(value, ",") {
				what, number, _ := strings.Cut(part, "=")
				values[command+"."+what], _ = strconv.ParseFloat(number, 64)
			}
		}
	}
	return values, nil
}

// WatchSlow has the store note its longer calls, in its own memory.
func (r *Redis) WatchSlow(ctx context.Context) error {
	set := r.client.B().ConfigSet().ParameterValue().
		ParameterValue("slowlog-log-slower-than", "100").ParameterValue("slowlog-max-len", "20000").Build()
	return r.client.Do(ctx, set).Error()
}

// ForgetSlow begins anew what Slowest tells.
func (r *Redis) ForgetSlow(ctx context.Context) error {
	return r.client.Do(ctx, r.client.B().SlowlogReset().Build()).Error()
}

// Slowest is how long the longest call took in the store since [Redis.WatchSlow],
// during which it did nothing else; 0 if none took more than 100 us.
func (r *Redis) Slowest(ctx context.Context) (most time.Duration, err error) {
	entries, err := r.client.Do(ctx, r.client.B().SlowlogGet().Count(-1).Build()).ToArray()
	if err != nil {
		return 0, fmt.Errorf("ask the store: %w", err)
	}
	for _, e := range entries {
		parts, err := e.ToArray()
		if err != nil || len(parts) < 4 {
			return 0, fmt.Errorf("slow log of %d parts: %w", len(parts), err)
		}
		us, err := parts[2].AsInt64()
		if err != nil {
			return 0, err
		}
		if command, _ := parts[3].AsStrSlice(); len(command) > 0 && command[0] == "SLOWLOG" {
			continue // ForgetSlow
		}
		most = max(most, time.Duration(us)*time.Microsecond)
	}
	return most, nil
}

// Empty has the store lose its memory.
func (r *Redis) Empty(ctx context.Context) error {
	return r.client.Do(ctx, r.client.B().Flushall().Build()).Error()
}

// Version is the name and the version of the store.
func (r *Redis) Version(ctx context.Context) string {
	text, _ := r.client.Do(ctx, r.client.B().Info().Section("server").Build()).ToString()
	version, name := "", "Redis"
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "valkey_version":
			return "Valkey " + value
		case "redis_version":
			version = value
		}
	}
	return name + " " + version
}

// CPU is the CPU time that the store has used, of all its threads.
func (r *Redis) CPU(ctx context.Context) (time.Duration, error) {
	if r.Process != nil {
		return r.Usage().CPU, nil
	}
	info, err := r.Info(ctx)
	return time.Duration((info["used_cpu_user"] + info["used_cpu_sys"]) * float64(time.Second)), err
}
