package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
)

// ErrClosed is returned by calls on a store that was closed.
var ErrClosed = errors.New("store: closed")

// MemoryOptions are the settings of a [Memory]. The zero value works.
type MemoryOptions struct {
	// Timing, Limits and Modes; the zero values mean the defaults. Rules are
	// exceptions to Modes.
	Timing rollcall.Timing
	Limits rollcall.Limits
	Modes  rollcall.Modes
	Rules  rollcall.RoomRules
	// Settled tells that nobody can hold a lease from before, so that snapshots
	// need not warn of members on their way back.
	Settled bool
	// NoUserIndex leaves out where users are over all rooms.
	NoUserIndex bool
}

// Memory is the store of a single node: partitions of state machines, each
// behind its own lock. Its memory ends with the process.
type Memory struct {
	epoch      rollcall.Epoch
	partitions [rollcall.Partitions]memoryPartition
	feed       func(*rollcall.Frame) // set once, before any other call
	closed     atomic.Bool
	restored   []rollcall.Held // static after New
	index      *index
	audiences  *audiences
}

// memoryPartition lets one call at a time decide, and hands over the frames in
// the order of the decisions: the lock of the feed is taken before that of the
// state is released.
type memoryPartition struct {
	mu     sync.Mutex
	state  *rollcall.Partition // Guarded by mu.
	feedMu sync.Mutex
}

// NewMemory makes an empty store with a new epoch.
func NewMemory(o MemoryOptions) *Memory {
	if o.Limits == (rollcall.Limits{}) {
		o.Limits = rollcall.DefaultLimits()
	}
	m := &Memory{epoch: newEpoch(), index: newIndex(o.NoUserIndex, o.Limits.SeenUsers), audiences: newAudiences(&o.Limits)}
	now := time.Now()
	for i := range m.partitions {
		m.partitions[i].state = rollcall.NewPartition(rollcall.PartitionOptions{
			Index: i, Epoch: m.epoch, Timing: o.Timing, Limits: o.Limits, Modes: o.Modes, Rules: o.Rules, Settling: !o.Settled,
		}, now)
	}
	return m
}

func newEpoch() rollcall.Epoch {
	var b [6]byte
	rand.Read(b[:])
	return rollcall.Epoch(hex.EncodeToString(b[:]))
}

// Feed implements [Store]. Frames are handed over before the call that caused
// them returns.
func (m *Memory) Feed(fn func(*rollcall.Frame)) { m.feed = fn }

// Close implements [Store]. It waits for the frames that are being handed over.
func (m *Memory) Close() error {
	m.closed.Store(true)
	for i := range m.partitions {
		m.partitions[i].feedMu.Lock()
		m.partitions[i].feedMu.Unlock()
	}
	return nil
}

func (m *Memory) partition(room rollcall.RoomID) *memoryPartition {
	return &m.partitions[rollcall.PartitionOf(room)]
}

// unlock releases the state and hands over the frame of the call.
func (m *Memory) unlock(p *memoryPartition, f *rollcall.Frame) {
	if f != nil {
		m.index.note(f)
	}
	if f == nil || m.feed == nil {
		p.mu.Unlock()
		return
	}
	p.feedMu.Lock()
	p.mu.Unlock()
	if !m.closed.Load() {
		m.feed(f)
	}
	p.feedMu.Unlock()
}

// Apply implements [Store]. Consecutive operations on rooms of one partition are
// one step.
func (m *Memory) Apply(_ context.Context, ops []rollcall.Op) ([]rollcall.Result, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	results := make([]rollcall.Result, len(ops))
	for i := 0; i < len(ops); {
		n := rollcall.PartitionOf(ops[i].Room)
		j := i + 1
		for j < len(ops) && rollcall.PartitionOf(ops[j].Room) == n {
			j++
		}
		p := &m.partitions[n]
		p.mu.Lock()
		f := p.state.Apply(time.Now(), ops[i:j], results[i:j])
		m.unlock(p, f)
		i = j
	}
	return results, nil
}

// Renew implements [Store]: a deadline is stored, nothing is looked up.
func (m *Memory) Renew(_ context.Context, renewals []rollcall.Renewal) error {
	if m.closed.Load() {
		return ErrClosed
	}
	for i := range renewals {
		p := m.partition(renewals[i].Lease.Room)
		p.mu.Lock()
		p.state.RenewOne(time.Now(), &renewals[i])
		p.mu.Unlock()
	}
	return nil
}

// Tick implements [Store].
func (m *Memory) Tick(context.Context) error {
	if m.closed.Load() {
		return ErrClosed
	}
	for i := range m.partitions {
		m.tick(i)
	}
	return nil
}

// TickOne is Tick for one partition, for stores that are made of a memory.
func (m *Memory) TickOne(_ context.Context, partition int) error {
	if m.closed.Load() {
		return ErrClosed
	}
	m.tick(partition)
	return nil
}

func (m *Memory) tick(partition int) {
	p := &m.partitions[partition]
	p.mu.Lock()
	f := p.state.Tick(time.Now())
	m.unlock(p, f)
}

// Read implements [Store].
func (m *Memory) Read(_ context.Context, q rollcall.Query) (rollcall.Answer, error) {
	if m.closed.Load() {
		return rollcall.Answer{}, ErrClosed
	}
	p := m.partition(q.Room)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Read(time.Now(), &q), nil
}
