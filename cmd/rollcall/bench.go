package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"rollcall/bench/keynote"
)

// benchCommand is the scenarios that load a server on this machine.
type benchCommand struct {
	Keynote keynoteCommand `cmd:"" help:"A crowd joins one room, people come and go, and then the node is killed and all come back."`
	Idle    idleCommand    `cmd:"" help:"Members who are present and silent: memory of each, CPU a second."`
	Churn   churnCommand   `cmd:"" help:"Joins and leaves in a room held at one size: CPU of a pair, lag of a join."`
	Cursors cursorsCommand `cmd:"" help:"Everybody in a room moves a cursor: CPU of a delivery, age at the viewer."`
	Renew   renewCommand   `cmd:"" help:"Renewals of leases: in the store alone, and from ping to store."`
	Redis   redisCommand   `cmd:"" help:"What members cost a Redis: CPU of a join, a leave, a renewal; memory; arithmetic for more."`
	Child   childCommand   `cmd:"" hidden:""`
}

// Help is shown below the usage.
func (benchCommand) Help() string {
	return `It starts its servers itself, on loopback, and ends them. Nothing of yours is touched.

Example: rollcall bench keynote --members 2000 --over 10s --html report.html`
}

type keynoteCommand struct {
	Members   int           `default:"10000" least:"1" most:"100000" help:"How many join."`
	Over      time.Duration `default:"60s" least:"1s" most:"1h" help:"In what time."`
	Churn     string        `default:"2%" placeholder:"2%" help:"How many go each second, and as many come; 0 for none."`
	Hold      time.Duration `default:"30s" least:"1s" most:"1h" help:"How long they come and go."`
	Nodes     int           `default:"1" least:"1" most:"16" help:"One node in memory, or several on one Redis, of which the first is killed."`
	Store     string        `placeholder:"URL" help:"redis://HOST:PORT to share, which should be empty; a redis-server is started if it is not given."`
	Transport string        `enum:"ws,sse" default:"ws" help:"ws, or sse: plain EventSources."`
	Lease     time.Duration `default:"30s" least:"1s" most:"1h" help:"How long a connection is here after its last sign of life."`
	Pin       bool          `default:"true" negatable:"" help:"Give the nodes a core of their own (with taskset)."`
	HTML      string        `name:"html" placeholder:"FILE" help:"Write a report with charts."`
	JSON      string        `name:"json" placeholder:"FILE" help:"Write all numbers; - is standard output, in place of the summary."`
	Out       string        `placeholder:"FILE" help:"Append the summary, as markdown."`
	Profiles  string        `placeholder:"DIR" help:"Write pprof profiles of the first node."`
}

// Help is shown below the usage.
func (keynoteCommand) Help() string {
	return `With the defaults it takes about two and a half minutes, and 10,100 open files. CPU is time on
a core and not wall time. It exits with 1 if a promise was broken (somebody was dropped, a leave was
shown of somebody who came back, more than one count a second), and with 0 if only a cost exceeds
its goal, since that depends on the machine: how long its nodes waited for a core is told with it.

Examples:

  rollcall bench keynote --html keynote.html

  rollcall bench keynote --members 2000 --over 10s --hold 10s --nodes 5`
}

// Run plays the keynote.
func (k *keynoteCommand) Run(con *console) error {
	churn, err := parseShare(k.Churn)
	if err != nil {
		return err
	}
	if k.Nodes > k.Members {
		return wrong("fewer --nodes", "--nodes %d are more than --members %d", k.Nodes, k.Members)
	}
	if err := checkBenchStore(k.Store); err != nil {
		return err
	}
	if limit := openFiles(); limit != 0 && limit < uint64(k.Members+200) {
		return failed(fmt.Sprintf("`ulimit -n %d`, or fewer --members", k.Members+200), "%d members need as many open files, and %d are allowed", k.Members, limit)
	}
	for _, file := range []string{k.HTML, k.JSON} {
		if file != "" && file != "-" { // before the minutes, not after them
			f, err := os.Create(file)
			if err != nil {
				return wrong("", "%w", err)
			}
			f.Close()
		}
	}
	ctx, cancel := interrupted()
	defer cancel()
	onTerminal := terminal(con.err)
	r, err := keynote.Run(ctx, keynote.Options{
		Members: k.Members, Over: k.Over, Churn: churn, Hold: k.Hold, Nodes: k.Nodes, Transport: k.Transport,
		Store: k.Store, Lease: k.Lease, Pin: k.Pin, Profiles: k.Profiles, Terminal: onTerminal, Tell: con.progress(onTerminal),
	})
	switch {
	case ctx.Err() != nil:
		return failed("", "interrupted")
	case err != nil:
		return err
	}
	r.Command, r.Machine = "rollcall "+strings.Join(benchArgs(os.Args[1:]), " "), machine()
	if err := k.write(r, con); err != nil {
		return err
	}
	if r.Broken() {
		return failed("", "a promise was not kept")
	}
	return nil
}

// write writes what was asked for.
func (k *keynoteCommand) write(r *keynote.Report, con *console) error {
	if k.JSON != "-" {
		fmt.Fprintln(con.out, r.Text())
	}
	if k.HTML != "" {
		page, err := r.HTML()
		if err == nil {
			err = os.WriteFile(k.HTML, page, 0o644)
		}
		if err != nil {
			return err
		}
		con.say("wrote %s", k.HTML)
	}
	if k.Out != "" {
		if err := appendResult(k.Out, r.Text()); err != nil {
			return err
		}
	}
	switch k.JSON {
	case "":
		return nil
	case "-":
		return con.print(r)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(k.JSON, append(raw, '\n'), 0o644)
}

// checkBenchStore finds what cannot be a store to measure with; "" starts one.
func checkBenchStore(address string) error {
	if address == "" {
		return nil
	}
	return checkShared(address)
}

// parseShare reads "2%" or "0.02"; 0 is none, which is below 0.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	var share float64
	if _, err := fmt.Sscanf(number+"\n", "%g\n", &share); err != nil {
		return 0, wrong("--churn 2% is the default", "--churn %q is not a part such as 2%%", text)
	}
	if percent {
		share /= 100
	}
	if !(share >= 0 && share <= 1) { // nor NaN
		return 0, wrong("--churn 2% is the default", "--churn %s is not between 0%% and 100%%", text)
	}
	if share == 0 {
		return -1, nil
	}
	return share, nil
}
