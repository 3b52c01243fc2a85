// Package redis is the store of many nodes: the presence of every room in one
// Redis or Valkey, standalone, behind Sentinel, or as a cluster.
//
// Everything of a partition lies in one hash slot, and every decision is one
// script there, on the server's own clock. Nodes hold nothing that cannot be lost:
// their leases bring back what the store forgot.
package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

var (
	//go:embed prelude.lua
	preludeLua string
	//go:embed apply.lua
	applyLua string
	//go:embed renew.lua
	renewLua string
	//go:embed tick.lua
	tickLua string
	//go:embed read.lua
	readLua string
	//go:embed poll.lua
	pollLua string
)

var (
	applyScript = script(applyLua)
	renewScript = script(renewLua)
	tickScript  = script(personLua + tickLua)
	readScript  = script(readLua)
	pollScript  = script(pollLua)
)

// Options are the settings of a [Store]. The zero value of everything but URL
// works.
type Options struct {
	// URL is where the store is: redis://user:password@host:port/db, rediss://
	// for TLS (?ca=FILE&cert=FILE&key=FILE), several hosts with commas between
	// them for a cluster, redis+sentinel://h1:p1,h2:p2/master for Sentinel
	// (?sentinelUser=USER&sentinelPassword=PASSWORD&db=NUMBER).
	URL string
	// Timing, Limits and Modes; the zero values mean the defaults. Rules are
	// exceptions to Modes.
	Timing rollcall.Timing
	Limits rollcall.Limits
	Modes  rollcall.Modes
	Rules  rollcall.RoomRules
	// NoUserIndex leaves out where users are over all rooms.
	NoUserIndex bool
	// Sweep is the least time between two sweeps of a partition, whoever makes
	// them (250 ms, less for leases under 7.5 s); nodes take turns by chance. Negative: every Tick sweeps.
	Sweep time.Duration
	// Timeout of one call (2 s).
	Timeout time.Duration
	// Logger; slog.Default if nil.
	Logger *slog.Logger
}

// Store implements [store.Store]. Safe for concurrent use.
type Store struct {
	o       Options
	client  rueidis.Client
	db      int    // number of the database; channels know none, so it is in their names
	publish string // PUBLISH, or SPUBLISH in a cluster
	cluster bool

	parts   [rollcall.Partitions]partition
	index   *index
	feed    func(*rollcall.Frame) // set once, before any other call
	signals signalLine
	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	closed  atomic.Bool
	secret  atomic.Pointer[string] // nil if this node was given its secret
	later   laterValues
	avoided avoided
	// clockAhead is by how many seconds the server's clock is ahead of that by
	// which audiences are told; nil before the first answer.
	clockAhead atomic.Pointer[int64]
}

// partition is what this node knows of a partition.
type partition struct {
	index  int
	prefix string // of its keys
	head   string // KEYS[1] of every script

	mu      sync.Mutex
	epoch   rollcall.Epoch // Guarded by mu. "" until the first answer.
	resting bool           // Guarded by mu. Nothing is to be swept.
	woken   bool           // Guarded by mu. Something happened since the last answer of a sweep.
	ticked  time.Time      // Guarded by mu. When this node may tick it again.
	grace   time.Time      // Guarded by mu. The earliest end of a close grace that this node began.

	// away tells that the last call of the partition failed. Whoever has to do with
	// all partitions leaves it out; sweeps go on trying it.
	away atomic.Bool

	feed partitionFeed
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Parted = (*Store)(nil)
)

// Open connects to the store and checks that it can be one.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timing == (rollcall.Timing{}) {
		o.Timing = rollcall.DefaultTiming()
	}
	if o.Limits == (rollcall.Limits{}) {
		o.Limits = rollcall.DefaultLimits()
	}
	if o.Modes == (rollcall.Modes{}) {
		o.Modes = rollcall.DefaultModes()
	}
	if o.Sweep == 0 {
		// Well within the clamp of the lease clock, or that would run slow.
		o.Sweep = min(250*time.Millisecond, o.Timing.Lease/30)
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	option, err := option(o.URL, o.Timeout)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	s := &Store{o: o, client: client, db: option.SelectDB, publish: "PUBLISH"}
	if client.Mode() == rueidis.ClientModeCluster {
		s.publish, s.cluster = "SPUBLISH", true
	}
	if err := s.check(ctx); err != nil {
		client.Close()
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for i := range s.parts {
		p := &s.parts[i]
		p.index, p.prefix = i, prefix(i)
		p.head = p.prefix + "c"
	}
	s.index = newIndex(s)
	if !o.NoUserIndex {
		s.wg.Go(s.index.run)
	}
	return s, nil
}

// Shared implements [store.Shared].
func (s *Store) Shared() bool { return true }

// Parted implements [store.Parted]: the masters of a cluster may fail apart.
func (s *Store) Parted() bool { return s.cluster }

// Close implements [store.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cancel()
	s.client.Close()
	s.wg.Wait()
	for i := range s.parts {
		s.parts[i].feed.close()
	}
	return nil
}

func newEpoch() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// channel is the channel of a partition's frames.
func (s *Store) channel(p *partition) string {
	if s.db == 0 {
		return p.prefix + "b"
	}
	return p.prefix + "b:" + strconv.Itoa(s.db)
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// args are the arguments that every script has.
func (s *Store) args(p *partition, epoch rollcall.Epoch, own ...string) []string {
	return append([]string{
		p.prefix, string(epoch), newEpoch(), micros(s.o.Timing.Lease), s.publish + " " + s.channel(p), micros(s.o.Timing.ConnectionUpdates), micros(s.o.Timing.ClockClamp()),
	}, own...)
}

func (p *partition) knownEpoch() rollcall.Epoch {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// errClosed tells that the store was closed.
var errClosed = store.ErrClosed

// exec runs a script in a partition and returns its answer, and of which memory it
// is. A store that has another epoch than we knew has lost its memory, or another has
// taken its place: that is noted, and the script is run again.
func (s *Store) exec(ctx context.Context, l *lua, p *partition, own ...string) (epoch rollcall.Epoch, answer []rueidis.RedisMessage, err error) {
	if s.closed.Load() {
		return "", nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	for range 3 {
		res := s.run(ctx, l, scriptCall{p, s.args(p, p.knownEpoch(), own...)})[0]
		epoch, answer, again, err := s.answerOf(p, res)
		if err != nil || !again {
			return epoch, answer, err
		}
	}
	return "", nil, errors.New("the epoch of the store keeps changing")
}

// answer is answerOf for those who need not know the epoch.
func (s *Store) answer(p *partition, res rueidis.RedisResult) (answer []rueidis.RedisMessage, again bool, err error) {
	_, answer, again, err = s.answerOf(p, res)
	return answer, again, err
}

// answerOf takes the epoch off an answer: that of the memory which gave it, and not
// always the newest that is known. again tells that nothing was done, since the
// caller knew another epoch.
func (s *Store) answerOf(p *partition, res rueidis.RedisResult) (epoch rollcall.Epoch, answer []rueidis.RedisMessage, again bool, err error) {
	all, err := res.ToArray()
	if err != nil {
		if s.closed.Load() {
			return "", nil, false, errClosed
		}
		return "", nil, false, fmt.Errorf("run script: %w", err)
	}
	if len(all) == 0 {
		return "", nil, false, errors.New("run script: empty answer")
	}
	name, err := all[0].ToString()
	if err != nil {
		return "", nil, false, fmt.Errorf("run script: %w", err)
	}
	epoch = rollcall.Epoch(name)
	if len(all) == 2 {
		if word, err := all[1].ToString(); err == nil && word == "epoch" {
			s.newEpoch(p, epoch)
			return epoch, nil, true, nil
		}
	}
	p.mu.Lock()
	first := p.epoch == ""
	if first {
		p.epoch = epoch
	}
	p.mu.Unlock()
	return epoch, all[1:], false, nil
}

// newEpoch notes another epoch and tells the feed of it.
func (s *Store) newEpoch(p *partition, epoch rollcall.Epoch) {
	p.mu.Lock()
	changed := p.epoch != epoch
	p.epoch = epoch
	p.mu.Unlock()
	if changed {
		s.feedEpoch(p, epoch)
	}
}
