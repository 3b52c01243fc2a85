package harness

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
	"rollcall/store/redis"
)

// Worlds runs a test in each world, over each transport, in parallel: on one node
// whose store is in memory, and on two nodes that share a Redis. With two nodes,
// observers and reads are on the one, members on the other, and whatever a client
// calls by HTTP goes to the node that does not hold its stream.
func Worlds(t *testing.T, c Config, f func(t *testing.T, s *Server, over Transport)) {
	t.Parallel()
	for _, world := range []struct {
		name string
		pair bool
	}{{"one node", false}, {"two nodes", true}} {
		t.Run(world.name, func(t *testing.T) {
			Each(t, func(t *testing.T, over Transport) {
				c := c
				c.Pair = world.pair
				f(t, Start(t, c), over)
			})
		})
	}
}

// startPair starts the other node of a pair, before the first one.
func (s *Server) startPair(c Config) {
	s.t.Helper()
	c.Pair = false
	c.store = sharedStore(s.t, c)
	s.Config.store = c.store
	far := &Server{Config: c, t: s.t, known: s.known}
	far.open()
	s.far = far
}

// Home is the URL of the node where members are.
func (s *Server) Home() string {
	if s.far != nil {
		return s.far.URL
	}
	return s.URL
}

// other is the node that the client's calls go to: that of its options; or that of the
// pair that does not hold the client's stream; the node itself if there is no other.
func (c *Client) other() *Server {
	at := c.node()
	switch {
	case c.o.Through != nil:
		return c.o.Through
	case c.s.far == nil, c.s.Wrap != nil:
		return at // what wraps a store does not pass on what nodes say to each other
	case at == c.s.far:
		return c.s
	}
	return c.s.far
}

// sharedRedis is a redis-server of the process, in which every test has a database
// of its own.
var sharedRedis struct {
	once      sync.Once
	cmd       *exec.Cmd
	addr, dir string
	err       error
	databases atomic.Int64
}

// databases is how many tests may have a database.
const databases = 1024

func startSharedRedis() {
	r := &sharedRedis
	if r.dir, r.err = os.MkdirTemp("", "rollcall-redis-"); r.err != nil {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.err = err
		return
	}
	r.addr = l.Addr().String()
	_, port, _ := net.SplitHostPort(r.addr)
	l.Close()
	r.cmd = exec.Command(RedisServer(), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", r.dir, "--databases", fmt.Sprint(databases))
	dieWithParent(r.cmd)
	if r.err = r.cmd.Start(); r.err != nil {
		r.cmd = nil
		r.err = fmt.Errorf("%w (this test needs redis-server: script/setup)", r.err)
		return
	}
	if !holds(10*time.Second, func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}) {
		r.err = fmt.Errorf("redis-server does not listen on %s", r.addr)
	}
}

// RedisServer is the server that tests use as Redis: redis-server, or what
// ROLLCALL_REDIS_SERVER names, such as valkey-server.
func RedisServer() string { return cmp.Or(os.Getenv("ROLLCALL_REDIS_SERVER"), "redis-server") }

// removeRedis ends the redis-server, if there is one.
func removeRedis() {
	if r := &sharedRedis; r.cmd != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
		os.RemoveAll(r.dir)
	}
}

// sharedStore is the URL of a database that no other test uses; a store that has
// settled already, unless that is asked for otherwise.
func sharedStore(t testing.TB, c Config) string {
	t.Helper()
	r := &sharedRedis
	r.once.Do(startSharedRedis)
	if r.err != nil {
		t.Fatal(r.err)
	}
	n := r.databases.Add(1)
	if n >= databases {
		t.Fatalf("more than %d tests have a database", databases)
	}
	url := fmt.Sprintf("redis://%s/%d", r.addr, n)
	if c.Settling {
		return url
	}
	s, err := redis.Open(context.Background(), redis.Options{URL: url, Timing: c.Timing()})
	if err != nil {
		t.Fatal(err)
	}
	s.Feed(func(*rollcall.Frame) {}) // begins every partition
	s.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.addr}, SelectDB: int(n), DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	settle := client.B().Eval().Script(`
		for _, key in ipairs(redis.call('KEYS', '*:c')) do redis.call('HSET', key, 'settled', 0) end`).Numkeys(0).Build()
	if err := client.Do(context.Background(), settle).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return url
}

// newStore opens the store of a server in this process.
func (s *Server) newStore(limits rollcall.Limits) (store.Store, error) {
	if s.Config.store != "" {
		return redis.Open(context.Background(), redis.Options{URL: s.Config.store, Timing: s.Timing(), Limits: limits, Modes: s.Modes, Logger: silence})
	}
	return store.NewMemory(store.MemoryOptions{Timing: s.Timing(), Limits: limits, Modes: s.Modes, Settled: !s.Settling}), nil
}
