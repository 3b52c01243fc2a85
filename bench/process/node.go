package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Node is one node of Rollcall, started as people start it.
type Node struct {
	*Process
	Addr  string // HOST:PORT for clients
	admin string // URL
}

// StartNode starts `rollcall serve` on loopback, by this very program, with more
// flags. listen is HOST:PORT; port 0 is any that is free.
func StartNode(ctx context.Context, name string, core int, listen string, flags ...string) (*Node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &Node{}
	ready := func(line string) bool {
		if _, url, ok := strings.Cut(line, "rollcall: admin on "); ok {
			n.admin = url
		}
		_, addr, ok := strings.Cut(line, "rollcall: listening on http://")
		if ok {
			n.Addr = addr
		}
		return ok
	}
	args := append([]string{"serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--log-level", "warn"}, flags...)
	if n.Process, err = start(ctx, name, core, ready, self, args...); err != nil {
		return nil, err
	}
	return n, nil
}

// admins asks nodes over connections that do not stay.
var admins = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Metrics reads the counters and gauges of the node, those with several labels
// added up.
func (n *Node) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := n.ask(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	values := make(map[string]float64)
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "#" {
			continue
		}
		if i := strings.IndexByte(lines.Text(), '}'); i > 0 {
			name, _, _ = strings.Cut(name, "{")
			value = strings.TrimSpace(lines.Text()[i+1:])
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] += v
		}
	}
	return values, lines.Err()
}

// Profile writes a profile of the node to a file: "heap", or "profile?seconds=5"
// of its CPU.
func (n *Node) Profile(ctx context.Context, what, file string) error {
	body, err := n.ask(ctx, "/debug/pprof/"+what)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

func (n *Node) ask(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", n.admin+path, nil)
	if err != nil {
		return nil, err
	}
	a, err := admins.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", n.Name, err)
	}
	if a.StatusCode != http.StatusOK {
		a.Body.Close()
		return nil, fmt.Errorf("ask %s for %s: %s", n.Name, path, a.Status)
	}
	return a.Body, nil
}
