//go:build unix

package departures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is a way of going.
type row struct {
	way   string
	run   func(*rig)
	heavy bool // has the machine to itself
}

// rows of the table. Files with build tags add theirs.
var rows = []row{
	{way: "explicit leave", run: explicitLeave},
	{way: "tab closed", run: tabClosed},
	{way: "tab closed, with a beacon", run: tabClosedBeacon},
	{way: "process killed (kill -9)", run: killed},
	{way: "killed between two streams", run: killedInTheGap},
	{way: "process frozen (SIGSTOP)", run: frozen},
	{way: "silent: no pong, no answer, no return, no PUT", run: silent},
	{way: "killed, proxy holds its side open", run: heldByProxy},
	{way: "one tab of two closed", run: oneOfTwo},
	{way: "reload inside the grace", run: reloaded},
	{way: "killed while the server is suspended", run: suspended},
	{way: "server killed and started again", run: restarted},
}

// cell is what was measured for one way and one kind of client.
type cell struct {
	order   int
	way     string
	kind    kind
	told    [3]string // seconds since the fault, by viewer
	life    string    // seconds since the last sign of life, the latest viewer; "" if it is not known
	promise string
	broken  bool
	note    string
}

// table collects the cells. Safe for concurrent use.
type table struct {
	mu    sync.Mutex
	cells []cell
}

func (t *table) add(c cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells = append(t.cells, c)
}

// markdown is the table, in the order of the rows and kinds.
func (t *table) markdown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "| way of going | client | SSE viewer | WebSocket viewer | polling reader | since the last sign of life | promise | kept | note |\n")
	fmt.Fprintf(&b, "|---|---|---|---|---|---|---|---|---|\n")
	for order := range rows {
		for _, c := range t.cells {
			if c.order != order {
				continue
			}
			kept := "yes"
			if c.broken {
				kept = "**no**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
				c.way, c.kind, c.told[0], c.told[1], c.told[2], c.life, c.promise, kept, c.note)
		}
	}
	return b.String()
}

// stage has all rows begin at the same time, on a machine that has come to rest.
type stage struct{ waiting sync.WaitGroup }

// enter returns what a row calls when it is ready, which waits for the others,
// and what it calls in the end.
func (s *stage) enter() (ready, done func()) {
	s.waiting.Add(1)
	once := sync.OnceFunc(s.waiting.Done)
	return func() { once(); s.waiting.Wait() }, once
}

// within is the most that a row takes.
const within = 45 * time.Second

func TestDepartureTable(t *testing.T) {
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	table := new(table)
	together := new(stage)
	var light, heavy []*rig
	for i, r := range rows {
		rig := &rig{row: r, order: i, table: table}
		if r.heavy {
			rig.ready, rig.done = new(stage).enter()
			heavy = append(heavy, rig)
		} else {
			rig.ready, rig.done = together.enter()
			light = append(light, rig)
		}
	}
	var running sync.WaitGroup
	for _, r := range light {
		running.Go(func() {
			defer r.done() // also if -run leaves it out
			t.Run(r.way, r.main)
		})
	}
	running.Wait()
	for _, r := range heavy {
		t.Run(r.way, r.main)
	}
	text := table.markdown()
	t.Logf("lease %v, beats %v, grace %v; seconds from the fault until the viewer was told\n%s", lease, beat, grace, text)
	if dir := os.Getenv("ROLLCALL_REPORT_DIR"); dir != "" {
		writeReport(t, dir, text)
	}
}

func writeReport(t *testing.T, dir, text string) {
	head := fmt.Sprintf("# Departures\n\nHow long it takes until every viewer is told that somebody has gone: seconds from the fault. "+
		"Lease %v, beats %v, close grace %v; the usual lease is ten times as long. Written by `test/departures`.\n\n", lease, beat, grace)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "departures.md"), []byte(head+text), 0o644); err != nil {
		t.Fatal(err)
	}
}
