package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rollcall/bench/process"
)

// shared is a run of the scenario redis: one node and a Redis of its own.
type shared struct {
	*Settings
	ctx   context.Context
	r     *Result
	redis *process.Redis
	node  *process.Node
	costs unitCosts
}

// unitCosts are what arithmetic about larger sizes takes, of one size of rooms.
type unitCosts struct {
	room                  int
	empty                 float64 // CPU a second without members, of a core
	join, leave, renewal  float64 // us of the store's main thread
	member                float64 // bytes
	renewals              float64 // a second and member
	commands, publishes   float64 // a second, idle
	joinBytes, leaveBytes float64 // of the network out of the store, for one node
}

// redis measures what members cost a Redis: CPU of its main thread for each join,
// leave and renewal, commands, messages and memory; and says what that comes to
// for more of them.
func redis(ctx context.Context, s *Settings) (*Result, error) {
	// Fewer than a beat would see no renewal of some.
	s.Span = max(s.Span, 10*time.Second)
	r := &Result{title: fmt.Sprintf("Redis: %d members over one node", s.Members)}
	for _, size := range []int{10, 1000} {
		run := &shared{Settings: s, ctx: ctx, r: r, costs: unitCosts{room: size}}
		if err := run.play(); err != nil {
			return nil, fmt.Errorf("rooms of %d: %w", size, err)
		}
		if size == 10 {
			r.note("%s.", run.redis.Version(ctx))
		}
		run.redis.Close()
		run.costs.tell(r)
	}
	return r, nil
}

// level is what the store says of itself at one moment.
type level struct {
	at       time.Time
	info     map[string]float64
	renewals float64 // that the node has sent
}

func (x *shared) level() (l level, err error) {
	if l.info, err = x.redis.Info(x.ctx); err != nil {
		return l, err
	}
	l.at = time.Now()
	m, err := x.node.Metrics(x.ctx)
	l.renewals = m["rollcall_lease_renewals_total"]
	return l, err
}

// cpu is the time of the main thread, in us.
func (l *level) cpu() float64 {
	return 1e6 * (l.info["used_cpu_user_main_thread"] + l.info["used_cpu_sys_main_thread"])
}

// scripts is how many calls of scripts there were.
func (l *level) scripts() float64 { return l.info["evalsha.calls"] + l.info["eval.calls"] }

func (l *level) publishes() float64 { return l.info["publish.calls"] + l.info["spublish.calls"] }

// during measures what happens while do runs.
func (x *shared) during(do func() error) (from, to level, err error) {
	if from, err = x.level(); err != nil {
		return from, to, err
	}
	if err = do(); err != nil {
		return from, to, err
	}
	to, err = x.level()
	return from, to, err
}

func (x *shared) wait(d time.Duration) func() error {
	return func() error {
		select {
		case <-time.After(d):
			return nil
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		}
	}
}

func (x *shared) play() (err error) {
	if x.redis, err = process.StartRedis(x.ctx, 1, x.Store); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			x.redis.Close()
		}
	}()
	x.node, err = process.StartNode(x.ctx, "node", 0, "127.0.0.1:0", "--guests", "--store", x.redis.URL,
		"--max-accept", "100000", "--max-connections", "110000")
	if err != nil {
		return err
	}
	defer x.node.Kill()
	if err := x.wait(3 * time.Second)(); err != nil {
		return err
	}
	from, empty, err := x.during(x.wait(x.Span))
	if err != nil {
		return err
	}
	seconds := empty.at.Sub(from.at).Seconds()
	x.costs.empty = (empty.cpu() - from.cpu()) / seconds / 1e6
	name := func(what string) string { return fmt.Sprintf("rooms of %d: %s", x.costs.room, what) }
	x.r.add(name("CPU a second, nobody there"), "", "%.1f ms", 1000*x.costs.empty)
	x.r.add(name("scripts a second, nobody there"), "", "%.0f", (empty.scripts()-from.scripts())/seconds)

	c := &crowd{addr: x.node.Addr, via: "ws"}
	defer c.stop()
	joins, joined, err := x.during(func() error { return c.fill(x.Members, x.costs.room) })
	if err != nil {
		return err
	}
	idle, idled, err := x.idle()
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if n := int(idled.info["used_memory"]); n == 0 {
		return errors.New("the store does not say how much memory it uses")
	}
	x.steady(idle, idled, empty, name)
	x.costs.join = x.beyond(joins, joined, x.Members)
	x.costs.joinBytes = (joined.info["total_net_output_bytes"] - joins.info["total_net_output_bytes"]) / float64(x.Members)
	x.r.add(name("CPU of a join"), "", "%.0f us", x.costs.join)
	x.r.add(name("messages published of a join"), "", "%.2f", (joined.publishes()-joins.publishes())/float64(x.Members))

	// Half of them leave, each with a word.
	n := x.Members / 2
	leaves, left, err := x.during(func() error { return c.depart(n) })
	if err != nil {
		return err
	}
	x.costs.leave = x.beyond(leaves, left, n)
	x.r.add(name("CPU of a leave"), "", "%.0f us", x.costs.leave)
	return nil
}

// idle measures a time in which everybody is there and nothing happens.
func (x *shared) idle() (from, to level, err error) {
	// A beat of everybody, so that renewals are spread as they will be.
	if err := x.wait(10 * time.Second)(); err != nil {
		return from, to, err
	}
	return x.during(x.wait(x.Span))
}

// steady says what members cost who are there and do nothing.
func (x *shared) steady(from, to, empty level, name func(string) string) {
	c := &x.costs
	seconds := to.at.Sub(from.at).Seconds()
	renewals := to.renewals - from.renewals
	c.renewals = renewals / seconds / float64(x.Members)
	cpu := (to.cpu() - from.cpu()) / seconds / 1e6
	c.renewal = max((cpu-c.empty)*seconds*1e6/renewals, 0)
	c.member = (to.info["used_memory"] - empty.info["used_memory"]) / float64(x.Members)
	c.commands = (to.scripts() - from.scripts()) / seconds
	c.publishes = (to.publishes() - from.publishes()) / seconds
	x.r.add(name("memory of a member"), "<= 400 B", "%.0f B", c.member)
	x.r.add(name("CPU a second, all there"), "", "%.1f ms", 1000*cpu)
	x.r.add(name("renewals a second"), "", "%.0f", renewals/seconds)
	x.r.add(name("CPU of a renewal, in batches"), "<= 2 us", "%.1f us", c.renewal)
	x.r.add(name("scripts a second, all there"), "", "%.0f", c.commands)
	x.r.add(name("commands a second, those of scripts too"), "", "%.0f", (to.info["total_commands_processed"]-from.info["total_commands_processed"])/seconds)
	x.r.add(name("messages published a second, all there"), "", "%.1f", c.publishes)
	x.r.add(name("bytes out of the store a second, all there"), "", "%.0f", (to.info["total_net_output_bytes"]-from.info["total_net_output_bytes"])/seconds)
}

// beyond is the CPU of each of n things, in us: without what nobody's presence
// costs, and without the renewals that went on meanwhile.
func (x *shared) beyond(from, to level, n int) float64 {
	seconds := to.at.Sub(from.at).Seconds()
	others := x.costs.empty*seconds*1e6 + (to.renewals-from.renewals)*x.costs.renewal
	return math.Max(to.cpu()-from.cpu()-others, 0) / float64(n)
}

// tell does the arithmetic for larger sizes: members at a beat of 9 s, of whom one
// in a thousand comes and one goes each second.
func (c *unitCosts) tell(r *Result) {
	for _, n := range []float64{100_000, 1_000_000, 10_000_000} {
		renewals := n * c.renewals * c.renewal / 1e6
		changes := n / 1000 * (c.join + c.leave) / 1e6
		r.add(fmt.Sprintf("rooms of %d: %.0f thousand online, by arithmetic", c.room, n/1000), "",
			"%.2f cores (%.2f of renewals, %.2f of joins and leaves), %.2f GiB", c.empty+renewals+changes, renewals, changes, n*c.member/(1<<30))
	}
}
