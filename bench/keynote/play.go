package keynote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"rollcall/bench/load"
	"rollcall/bench/process"
)

// span is a phase: when it was, and what the programs used in it.
type span struct {
	name     string
	from, to time.Time
	nodes    time.Duration // CPU time of all nodes
	redis    time.Duration // and of the store
	waited   time.Duration // of the threads of the nodes, for a core
	resident int           // bytes of all nodes, at most
	writes   float64       // of all nodes, as they count them
}

func (s *span) length() time.Duration { return s.to.Sub(s.from) }

// play is a keynote that runs. Owned by Run, but for the sampler's.
type play struct {
	Options
	ctx    context.Context
	flags  []string
	secret []byte
	nodes  []*process.Node
	redis  *process.Redis // nil with one node
	crowd  *crowd
	before time.Duration // load.RoundTrip, before
	meter  *meter

	spans     []*span
	beside    int       // members who were in when the node was killed
	cut       int       // of them, on that node
	killed    time.Time // when
	returned  time.Time // when the last one was back
	returnErr error     // not all came back
}

// Run plays the keynote. It takes as long as its phases and a lease, and ends
// all that it has started; the error is ctx's if that ends it.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.fill()
	ctx, cancel := context.WithTimeoutCause(ctx, o.most(), errors.New("the keynote took too long"))
	defer cancel()
	p := &play{Options: o, ctx: ctx, secret: []byte(random())}
	p.flags = []string{
		"--jwt-secret", string(p.secret), "--secret", random(), "--lease", o.Lease.String(),
		"--max-accept", "100000", "--max-connections", "110000", // the load is what it is
	}
	defer p.close()
	p.before = load.RoundTrip()
	if err := p.start(); err != nil {
		return nil, err
	}
	steps := []func() error{p.fillRoom, p.exchange, p.kill, p.race, p.watch}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%w%s", err, p.crowd.faults.told())
		}
	}
	return p.report(), nil
}

func random() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// start starts the programs.
func (p *play) start() (err error) {
	core, other := -1, -1
	if p.Pin {
		core, other = 0, 1
	}
	if p.Nodes > 1 || p.Store != "" {
		if p.redis, err = process.StartRedis(p.ctx, other, p.Store); err != nil {
			return err
		}
		p.flags = append(p.flags, "--store", p.redis.URL)
	}
	var addrs []string
	for i := range p.Nodes {
		n, err := process.StartNode(p.ctx, fmt.Sprintf("node %d", i+1), core, "127.0.0.1:0", p.flags...)
		if err != nil {
			return err
		}
		p.nodes = append(p.nodes, n)
		addrs = append(addrs, n.Addr)
	}
	p.crowd = newCrowd(p.ctx, &p.Options, p.secret, addrs)
	p.meter = newMeter(p.crowd, p.nodes, p.redis, p.Tell, p.Members, p.Terminal)
	return nil
}

// close ends everything.
func (p *play) close() {
	if p.meter != nil {
		p.meter.stop()
	}
	if p.crowd != nil {
		p.crowd.stop()
	}
	for _, n := range p.nodes {
		n.Kill()
	}
	if p.redis != nil {
		p.redis.Close()
	}
}

// phase does what a phase consists of, and measures it.
func (p *play) phase(name string, do func() error) error {
	p.crowd.setPhase(name)
	s := &span{name: name, from: time.Now()}
	p.spans = append(p.spans, s)
	before := p.meter.used()
	writes, err := p.writes()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	s.to = time.Now()
	after := p.meter.used()
	s.nodes, s.redis = after.nodes-before.nodes, after.redis-before.redis
	s.waited = max(after.waited-before.waited, 0)
	s.resident = p.meter.residentFrom(s.from)
	now, err := p.writes()
	for n, w := range now {
		s.writes += w - writes[n] // a new node has no before
	}
	return err
}

func (p *play) span(name string) *span {
	for _, s := range p.spans {
		if s.name == name {
			return s
		}
	}
	return &span{name: name}
}

// writes is how many writes to streams each node has made that still runs.
func (p *play) writes() (map[*process.Node]float64, error) {
	all := make(map[*process.Node]float64)
	for _, n := range p.nodes {
		if n.Ended() {
			continue
		}
		m, err := n.Metrics(p.ctx)
		if err != nil {
			return nil, err
		}
		all[n] = m["rollcall_writes_total"]
	}
	return all, nil
}

func (p *play) rest(d time.Duration) error {
	if !sleep(p.ctx, d) {
		return context.Cause(p.ctx)
	}
	return nil
}

// fillRoom lets everybody come.
func (p *play) fillRoom() error {
	err := p.phase("fill", func() error {
		if err := p.crowd.fill(p.Members, p.Over); err != nil {
			return err
		}
		return p.crowd.await(joinWithin)
	})
	if err != nil {
		return err
	}
	p.profile("heap", "fill.heap.prof")
	return p.phase("full", func() error { return p.rest(p.settles()) })
}

// exchange lets members go and others come.
func (p *play) exchange() error {
	if p.Churn > 0 {
		if p.Profiles != "" {
			go p.profile(fmt.Sprintf("profile?seconds=%d", int(min(p.Hold.Seconds(), 20))), "churn.cpu.prof")
		}
		err := p.phase("churn", func() error { return p.crowd.churn(p.Churn*float64(p.Members), p.Hold) })
		if err != nil {
			return err
		}
		if err := p.crowd.await(joinWithin); err != nil {
			return err
		}
	}
	return p.phase("calm", func() error { return p.rest(p.settles()) })
}

// kill kills the first node. A single one is started again; of several, its
// members go to the others.
func (p *play) kill() error {
	first := p.nodes[0]
	p.beside = len(p.crowd.members)
	lost := make(map[*member]closer)
	for _, m := range p.crowd.members {
		if stream := m.streamTo(first.Addr); stream != nil {
			lost[m] = stream
		}
	}
	p.cut = len(lost)
	return p.phase("return", func() error {
		if p.Nodes > 1 {
			p.crowd.seats[0].up.Store(false)
		}
		p.killed = time.Now()
		p.crowd.killed.Store(p.killed.UnixNano())
		p.meter.bury(first)
		first.Kill()
		if p.Nodes == 1 {
			again, err := process.StartNode(p.ctx, "node 1", first.Core(), first.Addr, p.flags...)
			if err != nil {
				return err
			}
			p.nodes[0] = again
			p.meter.replace(p.nodes)
		}
		p.returnErr = p.awaitReturn(lost)
		p.returned = time.Now()
		return nil
	})
}

// awaitReturn waits until all who lost their stream are back.
func (p *play) awaitReturn(lost map[*member]closer) error {
	for deadline := time.Now().Add(returnWithin); ; {
		for m, stream := range lost {
			if m.inside.Load() && !m.has(stream) {
				delete(lost, m)
			}
		}
		if len(lost) == 0 && p.crowd.inside() == p.beside {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d members did not come back within %v", max(len(lost), p.beside-p.crowd.inside()), p.cut, returnWithin)
		}
		if !sleep(p.crowd.ctx, 20*time.Millisecond) {
			return context.Cause(p.crowd.ctx)
		}
	}
}

// race lets members come and go on the nodes that are left: however many of them
// look after a room, each member is told one number a second.
func (p *play) race() error {
	if p.Nodes == 1 || p.Churn <= 0 || p.returnErr != nil {
		return nil
	}
	err := p.phase("race", func() error { return p.crowd.churn(p.Churn*float64(p.Members), min(p.Hold, 10*time.Second)) })
	if err != nil {
		return err
	}
	return p.crowd.await(joinWithin)
}

// watch waits for what a store that has settled, or leases that have run out,
// would show.
func (p *play) watch() error {
	return p.phase("after", func() error { return p.rest(p.Lease + p.settles()) })
}

// profile writes a profile, as well as it can.
func (p *play) profile(what, name string) {
	if p.Profiles != "" {
		if err := p.nodes[0].Profile(p.ctx, what, filepath.Join(p.Profiles, "keynote-"+name)); err != nil {
			p.Tell(err.Error())
		}
	}
}
