// Bench loads a server over loopback and says what that cost it.
//
//	go run ./bench [flags] idle|churn|renew|cursors
//
// The server runs as a child process of its own, so that its memory and its CPU
// time are those of the server alone. CPU is time on a core and never wall time:
// it hardly depends on what else the machine does, and still differs from machine
// to machine. Compare ratios of runs made side by side.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// settings are the flags of a run.
type settings struct {
	via      string
	members  int
	room     int
	held     int
	pairs    float64
	how      string
	span     time.Duration
	out      string
	profiles string
}

const usage = `usage: bench [flags] SCENARIO

scenarios:
  idle    members who are present and silent: memory of each, CPU a second
  churn   joins and leaves in a room that is held at one size: CPU of a pair, lag of a join
  renew   lease renewals: in the store alone, and from ping to store
  cursors everybody in a room of 10, 50, 100 moves a cursor: CPU of a delivery, age at the viewer

flags:
`

func main() {
	children := map[string]func([]string) error{childCommand: serveChild, floorCommand: serveFloor}
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](os.Args[2:]); err != nil {
			fail(err)
		}
		return
	}
	var s settings
	flag.StringVar(&s.via, "via", "ws", "ws, sse (answers no beats), or sse-beat")
	flag.IntVar(&s.members, "members", 10000, "idle, renew: members")
	flag.IntVar(&s.room, "room", 100, "idle, renew: members of a room")
	flag.IntVar(&s.held, "held", 190, "churn: members that the room is held at")
	flag.Float64Var(&s.pairs, "pairs", 100, "churn: joins a second, and as many leaves")
	flag.StringVar(&s.how, "how", "connection", "churn: what a pair is: a whole connection, or a message on one that stays (WebSocket)")
	flag.DurationVar(&s.span, "for", 10*time.Second, "how long to measure")
	flag.StringVar(&s.out, "out", "", "file to append the result to, as markdown")
	flag.StringVar(&s.profiles, "profiles", "", "directory to write pprof profiles of the server to")
	flag.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	scenarios := map[string]func(*settings) (*result, error){"idle": idle, "churn": churn, "renew": renew, "cursors": cursors}
	run := scenarios[flag.Arg(0)]
	if run == nil || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	before := calibrate()
	r, err := run(&s)
	if err != nil {
		fail(err)
	}
	r.before, r.after = before, calibrate()
	fmt.Print(r.table())
	if s.out != "" {
		if err := r.append(s.out); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench: error:", err)
	os.Exit(1)
}
