package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
)

// hub connects the streams of this node with the store. Changes flow one way:
// client, stream, hub, store; and back: store, feed, rooms, fan-out, streams.
//
// Locks are taken in this order, and none is held while the store is called but
// connection.op: connection.op, connection.mu, room.mu.
type hub struct {
	store  store.Store
	auth   auth.Authenticator
	timing rollcall.Timing
	limits rollcall.Limits
	modes  rollcall.Modes
	rules  rollcall.RoomRules
	log    *slog.Logger
	signer *auth.Signer
	node   string
	// firstStream is what the count of a connection's streams begins with: the
	// time, so that a resume secret from before a restart names no stream of now.
	firstStream uint64
	metrics     *metrics

	clock       hubClock
	rooms       [rollcall.Partitions]roomShard
	connections registry
	fanout      *fanout
	pulse       *pulse
	errands     *errands
	keepers     []*keeper // static: one, or one for each partition
	signals     *signalDesk
	post        *signalPost // nil: no other node hears of signals
	control     *control
	watching    *watching
	events      *eventDesk
	lookout     *lookout
	witness     *witness
	estimates   *estimates
	unseen      bag[*connection] // hidden, and without a stream
	streamless  bag[*connection] // with leases and no stream, until the end of their tokens
	forgot      instant          // Owned by the pulse. When leases without evidence were last forgotten.
	expired     instant          // Owned by the pulse. When tokens were last looked at.
	shared      bool             // static: other nodes share the store
	admission   admission
	memory      atomic.Value // rollcall.Epoch of the store
	epochs      [rollcall.Partitions]atomic.Pointer[rollcall.Epoch]

	ctx    context.Context // ends with the hub
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of the hub and of its streams
	closed atomic.Bool

	spawning sync.RWMutex // held to start a goroutine for a request, and to begin to close
}

type roomShard struct {
	mu    sync.RWMutex
	rooms map[rollcall.RoomID]*room // Guarded by mu.
}

func newHub(o *Options, signer *auth.Signer, m *metrics) *hub {
	h := &hub{
		store: o.Store, auth: o.Auth, timing: o.Timing, limits: o.Limits, modes: o.Modes, rules: o.Rules, log: o.Logger,
		signer: signer, node: o.NodeID, metrics: m,
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for i := range h.rooms {
		h.rooms[i].rooms = make(map[rollcall.RoomID]*room)
	}
	h.connections.byID = make(map[rollcall.ConnectionID]*connection)
	h.clock.start(time.Now(), h.timing.ClockClamp())
	h.firstStream = uint64(time.Now().Unix())
	h.admission.limits = o.Limits
	h.fanout = newFanout(h)
	h.pulse = newPulse(h)
	h.errands = newErrands(h)
	h.keepers = newKeepers(h)
	h.signals = newSignalDesk(h)
	if nodes, ok := o.Store.(store.Signals); ok {
		h.post = newSignalPost(h, nodes)
	}
	h.control = newControl(h)
	h.watching = newWatching(h)
	h.events = newEventDesk(h)
	h.lookout = newLookout(h)
	h.witness = newWitness(h, o.Secret)
	h.auth = revocable{o.Auth, h.control}
	if many, ok := o.Store.(store.Shared); ok {
		h.shared = many.Shared()
	}
	h.estimates = newEstimates(h)
	h.store.Feed(h.onFrame)
	if a, err := h.store.Read(h.ctx, rollcall.Query{Room: "-"}); err == nil {
		h.memory.Store(a.Epoch)
	}
	if r, ok := h.store.(restorer); ok {
		h.adopt(r.Restored())
	}
	h.wg.Go(h.fanout.run)
	h.wg.Go(h.pulse.run)
	h.errands.start()
	for _, k := range h.keepers {
		h.wg.Go(k.run)
	}
	h.wg.Go(h.signals.run)
	if h.post != nil {
		h.wg.Go(h.post.run)
	}
	h.wg.Go(h.control.run)
	h.wg.Go(h.watching.run)
	h.wg.Go(h.lookout.run)
	h.wg.Go(h.witness.run)
	h.wg.Go(h.estimates.run)
	return h
}

// close ends every stream abruptly and waits for all goroutines.
func (h *hub) close() {
	h.spawning.Lock()
	was := h.closed.Swap(true)
	h.spawning.Unlock()
	if was {
		return
	}
	h.connections.each(func(c *connection) {
		c.mu.Lock()
		if c.stream != nil {
			c.stream.conn.Close()
		}
		c.mu.Unlock()
	})
	h.cancel()
	h.wg.Wait()
}

// spawn starts a goroutine for a request, unless the hub is closed, which waits for
// those that there are and takes no more.
func (h *hub) spawn(f func()) bool {
	h.spawning.RLock()
	defer h.spawning.RUnlock()
	if h.closed.Load() {
		return false
	}
	h.wg.Go(f)
	return true
}

// onFrame takes one frame of the feed. It is called with the partition of the
// store locked: it only notes what happened.
func (h *hub) onFrame(f *rollcall.Frame) {
	shard := &h.rooms[f.Partition]
	h.events.frame(f)
	h.witness.frame(f)
	if f.Gap {
		h.gap(f)
	}
	if h.epochs[f.Partition].Load() == nil {
		h.epochs[f.Partition].Store(&f.Epoch)
	}
	h.control.frame(f)
	h.watching.frame(f)
	for i := range f.Changes {
		ch := &f.Changes[i]
		h.metrics.count(ch)
		for j := range ch.Ended {
			h.errands.ended(ch.Room, ch.Ended[j])
		}
		shard.mu.RLock()
		r := shard.rooms[ch.Room]
		shard.mu.RUnlock()
		if r == nil {
			continue
		}
		if len(ch.Ended) > 0 {
			r.endSignals(ch.Ended)
		}
		if ch.Version != ch.Prev && !r.settings.Estimate {
			r.change(ch)
		}
	}
}

// gap goes on after frames were lost: the rooms of the partition are read again.
// Another epoch is a store that has lost its memory, or part of it: every lease is
// brought to its mind.
func (h *hub) gap(f *rollcall.Frame) {
	shard := &h.rooms[f.Partition]
	shard.mu.RLock()
	rooms := make([]*room, 0, len(shard.rooms))
	for _, r := range shard.rooms {
		rooms = append(rooms, r)
	}
	shard.mu.RUnlock()
	for _, r := range rooms {
		r.lose()
	}
	h.metrics.gaps.Inc()
	if old := h.epochs[f.Partition].Swap(&f.Epoch); old == nil || *old != f.Epoch {
		h.log.Warn("store has another memory", "partition", f.Partition)
		h.keeperOf(f.Partition).recall()
	}
}

// epoch of the store's memory.
func (h *hub) epoch() rollcall.Epoch {
	e, _ := h.memory.Load().(rollcall.Epoch)
	return e
}

// registry finds the connections of this node: those with a stream, and those
// with a lease.
type registry struct {
	mu      sync.RWMutex
	byID    map[rollcall.ConnectionID]*connection // Guarded by mu.
	streams [2]atomic.Int64                       // open, by protocol
}

func (g *registry) get(id rollcall.ConnectionID) *connection {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byID[id]
}

// add registers c unless its id is taken, and returns whoever has it.
func (g *registry) add(c *connection) *connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	if other := g.byID[c.id]; other != nil {
		return other
	}
	g.byID[c.id] = c
	return c
}

func (g *registry) remove(c *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID[c.id] == c {
		delete(g.byID, c.id)
	}
	if len(g.byID) == 0 {
		g.byID = make(map[rollcall.ConnectionID]*connection) // an emptied map keeps its memory
	}
}

// each visits the connections that are there now.
func (g *registry) each(visit func(*connection)) {
	g.mu.RLock()
	all := make([]*connection, 0, len(g.byID))
	for _, c := range g.byID {
		all = append(all, c)
	}
	g.mu.RUnlock()
	for _, c := range all {
		visit(c)
	}
}

func (g *registry) open() int {
	return int(g.streams[protocolSSE].Load() + g.streams[protocolWS].Load())
}
