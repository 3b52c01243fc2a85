package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/bench/process"
)

// shared is a run of the scenario redis in rooms of one size: the store alone, and
// then one node with members.
type shared struct {
	*Settings
	ctx   context.Context
	r     *Result
	redis *process.Redis
	room  int
	costs unitCosts
}

// unitCosts are what the arithmetic about larger sizes takes. CPU is of the main
// thread of the store, in us.
type unitCosts struct {
	join, leave, renewal float64 // each, without the index of users
	index                float64 // of a member and second, with it
	fixed                float64 // a second, whoever is there
	member, indexed      float64 // bytes, without and with the index
}

// redisCosts measures what members cost a Redis: CPU of its main thread for each join,
// leave and renewal, commands, messages and memory; and says what that comes to
// for more of them.
func redisCosts(ctx context.Context, s *Settings) (*Result, error) {
	r := &Result{title: fmt.Sprintf("Redis: %d members over one node", s.Members)}
	for _, room := range []int{10, 1000} {
		x := &shared{Settings: s, ctx: ctx, r: r, room: room}
		if err := x.play(); err != nil {
			return nil, fmt.Errorf("rooms of %d: %w", room, err)
		}
		x.tell()
	}
	if s.Store == "" {
		if err := blocked(ctx, s, r); err != nil {
			return nil, err
		}
	}
	r.note("CPU is that of the main thread of the store; renewals are in batches of what a second or the limit of a call allows.")
	return r, nil
}

func (x *shared) add(what, goal, format string, args ...any) {
	x.r.add(fmt.Sprintf("rooms of %d: %s", x.room, what), goal, format, args...)
}

// level is what the store says of itself at one moment.
type level struct {
	at   time.Time
	info map[string]float64
}

func (x *shared) level() (l level, err error) {
	l.info, err = x.redis.Info(x.ctx)
	l.at = time.Now()
	return l, err
}

// during measures what happens while do runs: the difference of every number, and
// the time that it took.
func (x *shared) during(do func() error) (d delta, err error) {
	from, err := x.level()
	if err != nil {
		return d, err
	}
	if err = do(); err != nil {
		return d, err
	}
	to, err := x.level()
	return delta{from.info, to.info, to.at.Sub(from.at).Seconds()}, err
}

// delta is what has happened in a time.
type delta struct {
	from, to map[string]float64
	seconds  float64
}

func (d *delta) of(names ...string) (sum float64) {
	for _, name := range names {
		sum += d.to[name] - d.from[name]
	}
	return sum
}

// cpu is the time of the main thread, in us.
func (d *delta) cpu() float64 {
	return 1e6 * d.of("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
}

func (d *delta) scripts() float64   { return d.of("evalsha.calls", "eval.calls") }
func (d *delta) publishes() float64 { return d.of("publish.calls", "spublish.calls") }

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

func (x *shared) play() error {
	for _, part := range []func() error{x.alone, x.withNode} {
		var err error
		if x.redis, err = process.StartRedis(x.ctx, 1, x.Store); err != nil {
			return err
		}
		err = part()
		if x.room == 10 && err == nil && len(x.r.notes) == 0 {
			x.r.note("%s.", x.redis.Version(x.ctx))
		}
		x.redis.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Times of the part with a node: until all that the joins have brought about is
// over, and three beats, in which each member's place in the index is repeated once.
const (
	redisSettles = 35 * time.Second
	threeBeats   = 27 * time.Second
)

// withNode measures a node with members who do nothing but be there.
func (x *shared) withNode() error {
	node, err := process.StartNode(x.ctx, "node", 0, "127.0.0.1:0", "--guests", "--store", x.redis.URL,
		"--max-accept", "100000", "--max-connections", "110000")
	if err != nil {
		return err
	}
	defer node.Kill()
	if err := x.wait(redisSettles)(); err != nil { // a store that has just begun settles, and is swept meanwhile
		return err
	}
	empty, err := x.during(x.wait(x.Span))
	if err != nil {
		return err
	}
	c := &crowd{addr: node.Addr, via: "ws"}
	defer c.stop()
	joins, err := x.during(func() error { return c.fill(x.Members, x.room) })
	if err != nil {
		return err
	}
	if err := x.wait(redisSettles)(); err != nil {
		return err
	}
	before, err := node.Metrics(x.ctx)
	if err != nil {
		return err
	}
	idle, err := x.during(x.wait(max(x.Span, threeBeats)))
	if err != nil {
		return err
	}
	after, err := node.Metrics(x.ctx)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if idle.to["used_memory"] == 0 {
		return errors.New("the store does not say how much memory it uses")
	}
	n := float64(x.Members)
	renewals := after["rollcall_lease_renewals_total"] - before["rollcall_lease_renewals_total"]
	x.costs.indexed = (idle.to["used_memory"] - empty.to["used_memory"]) / n
	x.costs.fixed = empty.cpu() / empty.seconds
	// What is neither there without members nor renewals is the index, and sweeps
	// of partitions that do not rest.
	x.costs.index = max(idle.cpu()/idle.seconds-x.costs.fixed-x.costs.renewal*renewals/idle.seconds, 0) / n
	x.add("one node, nobody there: CPU a second", "", "%.1f ms, %.0f scripts", empty.cpu()/empty.seconds/1000, empty.scripts()/empty.seconds)
	x.add("one node, all there: CPU a second", "", "%.1f ms", idle.cpu()/idle.seconds/1000)
	x.add("one node, all there: renewals a second", "", "%.0f", renewals/idle.seconds)
	x.add("one node, all there: scripts a second", "", "%.0f, of %.0f us each", idle.scripts()/idle.seconds, idle.of("evalsha.usec")/max(idle.scripts(), 1))
	x.add("one node, all there: commands a second, in scripts too", "", "%.0f", idle.of("total_commands_processed")/idle.seconds)
	x.add("one node, all there: messages published a second", "", "%.1f", idle.publishes()/idle.seconds)
	x.add("one node, all there: bytes out of the store a second", "", "%.0f", idle.of("total_net_output_bytes")/idle.seconds)
	x.add("one node: CPU of a join, with the index and what watching its room takes", "", "%.0f us", max(joins.cpu()-x.costs.fixed*joins.seconds, 0)/n)
	x.add("one node: messages published of a join", "", "%.2f", joins.publishes()/n)
	x.add("memory of a member, with the index of users", "", "%.0f B", x.costs.indexed)
	return nil
}

// beat is the time between two renewals of a lease, in seconds.
const beat = 9.0

// tell does the arithmetic for larger sizes: a renewal every beat, and one in a
// thousand who comes and one who goes each second. It is an upper bound: of what
// counts as the index much is calls, whose number hardly grows with the members.
func (x *shared) tell() {
	c := &x.costs
	for _, n := range []float64{1e5, 1e6, 1e7} {
		renewals := n / beat * c.renewal / 1e6
		index := n * c.index / 1e6
		changes := n / 1000 * (c.join + c.leave) / 1e6
		x.add(fmt.Sprintf("%.1f million online, at most, by arithmetic", n/1e6), "", "%.2f cores: %.2f renewals, %.2f index, %.2f joins and leaves; %.1f GiB",
			c.fixed/1e6+renewals+index+changes, renewals, index, changes, n*c.indexed/(1<<30))
	}
}
