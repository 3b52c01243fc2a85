package keynote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"rollcall/bench/process"
)

// sample is what the programs used in one second, and how many were in at its
// end.
type sample struct {
	at       time.Time // its end
	inside   int
	nodes    time.Duration // CPU
	redis    time.Duration
	resident int // bytes of all nodes
	stored   int // bytes of the store
}

// used is CPU time from the beginning on.
type used struct{ nodes, redis, waited time.Duration }

// meter samples the programs every second, and tells of the progress.
type meter struct {
	crowd    *crowd
	redis    *process.Redis // nil: none that can be seen
	tell     func(string)
	members  int
	terminal bool
	end      chan struct{}
	ended    sync.WaitGroup

	mu      sync.Mutex
	nodes   []*process.Node // Guarded by mu.
	buried  used            // Guarded by mu. By the nodes that have ended.
	samples []sample        // Guarded by mu.
}

func newMeter(c *crowd, nodes []*process.Node, redis *process.Redis, tell func(string), members int, terminal bool) *meter {
	m := &meter{crowd: c, redis: redis, tell: tell, members: members, terminal: terminal, end: make(chan struct{})}
	m.nodes = append(m.nodes, nodes...)
	m.ended.Go(m.run)
	return m
}

func (m *meter) stop() {
	close(m.end)
	m.ended.Wait()
	m.tell("")
}

// used is what the programs have used so far.
func (m *meter) used() used {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usedLocked()
}

func (m *meter) usedLocked() (u used) {
	u = m.buried
	for _, n := range m.nodes {
		usage := n.Usage()
		u.nodes += usage.CPU
		u.waited += usage.Waited
	}
	if m.redis != nil {
		u.redis, _ = m.redis.CPU(context.Background())
	}
	return u
}

// bury keeps what a node has used that is about to end.
func (m *meter) bury(node *process.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var alive []*process.Node
	for _, n := range m.nodes {
		if n == node {
			usage := n.Usage()
			m.buried.nodes += usage.CPU
			m.buried.waited += usage.Waited
		} else {
			alive = append(alive, n)
		}
	}
	m.nodes = alive
}

// replace has other nodes sampled from now on.
func (m *meter) replace(nodes []*process.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = append([]*process.Node(nil), nodes...)
}

// residentFrom is the most memory of all nodes together since a moment.
func (m *meter) residentFrom(from time.Time) (most int) {
	m.sample(time.Now(), nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.samples {
		if !s.at.Before(from) {
			most = max(most, s.resident)
		}
	}
	return most
}

// sample takes one; before is what was used at the last, and nil for one that
// has no CPU.
func (m *meter) sample(now time.Time, before *used) used {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usedLocked()
	s := sample{at: now}
	for _, n := range m.nodes {
		s.resident += n.Usage().Resident
	}
	if m.redis != nil && m.redis.Process != nil {
		s.stored = m.redis.Usage().Resident
	}
	if before != nil {
		s.nodes, s.redis = max(u.nodes-before.nodes, 0), max(u.redis-before.redis, 0)
		s.inside = int(m.crowd.present.Load())
		m.samples = append(m.samples, s)
		return u
	}
	m.samples = append(m.samples, sample{at: now, resident: s.resident, nodes: -1})
	return u
}

// seconds are the samples of whole seconds.
func (m *meter) seconds() (all []sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.samples {
		if s.nodes >= 0 {
			all = append(all, s)
		}
	}
	return all
}

func (m *meter) run() {
	last := m.used()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-m.end:
			return
		case now := <-tick.C:
			last = m.sample(now, &last)
		}
		if m.terminal || n%5 == 0 {
			m.tell(m.line())
		}
	}
}

// phaseWords say what happens.
var phaseWords = map[string]string{
	"fill": "they join", "full": "they are in", "churn": "they come and go", "calm": "they stay",
	"return": "a node was killed", "race": "they come and go, with a node less", "after": "all are watched for a lease",
}

// line is the progress: a bar of who is in, and what that costs now.
func (m *meter) line() string {
	all := m.seconds()
	s := all[len(all)-1]
	const width = 24
	full := min(s.inside*width/m.members, width)
	line := fmt.Sprintf("%4.0f s  %s%s  %d of %d in, %s; %d ms a second, %.0f MiB",
		s.at.Sub(m.crowd.series.began).Seconds(), strings.Repeat("█", full), strings.Repeat("░", width-full),
		s.inside, m.members, phaseWords[*m.crowd.phase.Load()], s.nodes.Milliseconds(), mib(s.resident))
	if m.redis != nil {
		line += fmt.Sprintf("; store %d ms", s.redis.Milliseconds())
	}
	return line
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
