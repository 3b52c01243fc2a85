// Package bench is the scenarios that load a server over loopback and say what
// that cost it, for `rollcall bench`.
//
// The server runs as a child process of its own, so that its memory and its CPU
// time are those of the server alone. CPU is time on a core and never wall time:
// it hardly depends on what else the machine does, and still differs from machine
// to machine. Compare ratios of runs made side by side.
package bench

import (
	"context"
	"fmt"
	"time"
)

// Settings are the flags of a scenario; each uses some.
type Settings struct {
	Via      string        // ws, sse (answers no beats), or sse-beat
	Members  int           // idle, renew, redis
	Room     int           // idle, renew: members of a room
	Held     int           // churn: members that the room is held at
	Pairs    float64       // churn: joins a second, and as many leaves
	How      string        // churn: what a pair is: a "connection", or a "message" on one that stays
	Rooms    []int         // cursors: sizes of the rooms
	Rate     int           // cursors: moves of each, a second
	Runs     int           // cursors: how often each room is measured
	Span     time.Duration // how long is measured
	Profiles string        // folder for pprof profiles of the server; "" for none
	Store    string        // redis: redis:// of an empty store; "" starts one
}

// scenarios are static.
var scenarios = map[string]func(context.Context, *Settings) (*Result, error){
	"idle": inTime(idle), "churn": inTime(churn), "renew": inTime(renew), "cursors": inTime(cursors), "redis": redisCosts,
}

// inTime is a scenario whose waits all have a limit of their own.
func inTime(run func(*Settings) (*Result, error)) func(context.Context, *Settings) (*Result, error) {
	return func(_ context.Context, s *Settings) (*Result, error) { return run(s) }
}

// Run runs a scenario. The processes that it starts have ended when it returns.
func Run(ctx context.Context, scenario string, s Settings) (*Result, error) {
	run := scenarios[scenario]
	if run == nil {
		return nil, fmt.Errorf("there is no scenario %q", scenario)
	}
	before := calibrate()
	r, err := run(ctx, &s)
	if err != nil {
		return nil, err
	}
	r.before, r.after = before, calibrate()
	return r, nil
}

// Child is what a child process of a scenario does: `rollcall bench child NAME`.
func Child(args []string) error {
	children := map[string]func([]string) error{childCommand: serveChild, floorCommand: serveFloor}
	if len(args) == 0 || children[args[0]] == nil {
		return fmt.Errorf("there is no child %q", args)
	}
	return children[args[0]](args[1:])
}
