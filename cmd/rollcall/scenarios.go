package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"rollcall/bench"
)

// measuring is the flags of every scenario but the keynote.
type measuring struct {
	For      time.Duration `default:"10s" least:"1s" most:"1h" help:"How long to measure."`
	Out      string        `placeholder:"FILE" help:"Append the result, as markdown."`
	Profiles string        `placeholder:"DIR" help:"Write pprof profiles of the server."`
}

// run runs a scenario.
func (m *measuring) run(con *console, scenario string, s bench.Settings) error {
	s.Span, s.Profiles = m.For, m.Profiles
	if limit := openFiles(); limit != 0 && limit < uint64(s.Members+200) {
		return failed(fmt.Sprintf("`ulimit -n %d`, or fewer --members", s.Members+200), "%d members need as many open files, and %d are allowed", s.Members, limit)
	}
	ctx, cancel := interrupted()
	defer cancel()
	r, err := bench.Run(ctx, scenario, s)
	if err != nil {
		return err
	}
	text := r.Text("rollcall " + strings.Join(benchArgs(os.Args[1:]), " "))
	if m.Out != "" {
		if err := appendResult(m.Out, text); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(con.out, text)
	return err
}

type idleCommand struct {
	measuring
	Via     string `enum:"ws,sse,sse-beat" default:"ws" help:"ws, sse (plain EventSources), or sse-beat (clients that answer beats)."`
	Members int    `default:"10000" least:"1" most:"1000000" help:"How many."`
	Room    int    `default:"100" least:"1" most:"1000000" help:"Members of a room."`
}

// Run measures silent members.
func (c *idleCommand) Run(con *console) error {
	return c.run(con, "idle", bench.Settings{Via: c.Via, Members: c.Members, Room: c.Room})
}

type churnCommand struct {
	measuring
	Via   string  `enum:"ws,sse" default:"ws" help:"ws or sse."`
	Held  int     `default:"190" least:"2" most:"100000" help:"Members that the room is held at."`
	Pairs float64 `default:"100" least:"0.1" most:"100000" help:"Joins a second, and as many leaves."`
	How   string  `enum:"connection,message" default:"connection" help:"What a pair is: a whole connection, or a message on a WebSocket that stays."`
}

// Run measures joins and leaves.
func (c *churnCommand) Run(con *console) error {
	if least := bench.LeastHeld(c.Pairs); c.Held < least {
		return wrong("fewer --pairs, or more members that the room is --held at", "--held %d is less than the %d members that --pairs %v takes", c.Held, least, c.Pairs)
	}
	return c.run(con, "churn", bench.Settings{Via: c.Via, Held: c.Held, Pairs: c.Pairs, How: c.How})
}

type cursorsCommand struct {
	measuring
	Rooms []int `default:"10,50,100" least:"2" most:"10000" help:"Members of the rooms, one after the other."`
	Rate  int   `default:"10" least:"1" most:"1000" help:"How often each moves, a second."`
	Runs  int   `default:"1" least:"1" most:"100" help:"How often each room is measured; the medians are told."`
}

// Run measures cursors.
func (c *cursorsCommand) Run(con *console) error {
	if len(c.Rooms) == 0 {
		return wrong("--rooms 10,50,100 is the default", "--rooms has no room")
	}
	return c.run(con, "cursors", bench.Settings{Rooms: c.Rooms, Rate: c.Rate, Runs: c.Runs, Members: slices.Max(c.Rooms)})
}

type renewCommand struct {
	measuring
	Members int `default:"10000" least:"1" most:"1000000" help:"How many."`
	Room    int `default:"100" least:"1" most:"1000000" help:"Members of a room."`
}

// Run measures renewals.
func (c *renewCommand) Run(con *console) error {
	return c.run(con, "renew", bench.Settings{Members: c.Members, Room: c.Room})
}

type redisCommand struct {
	measuring
	Members int    `default:"10000" least:"2" most:"1000000" help:"How many; in rooms of 10, and then of 1,000."`
	Store   string `placeholder:"URL" help:"redis://HOST:PORT of an empty store; a redis-server is started if it is not given."`
}

// Run measures what members cost a Redis.
func (c *redisCommand) Run(con *console) error {
	if err := checkBenchStore(c.Store); err != nil {
		return err
	}
	return c.run(con, "redis", bench.Settings{Members: c.Members, Store: c.Store})
}

// childCommand is a process that a scenario starts.
type childCommand struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

// Run is the child.
func (c *childCommand) Run() error { return bench.Child(c.Args) }
