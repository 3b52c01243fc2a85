// Package process is the programs that a bench measures: nodes of Rollcall and a
// Redis, each a process of its own, so that its CPU time and its memory are those
// of it alone. They listen on loopback, write nothing outside a folder that is
// removed, and end with the bench, whatever ends that.
package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startWithin is how long a program may take until it is ready, and stopWithin
// until it has ended.
const (
	startWithin = 20 * time.Second
	stopWithin  = 10 * time.Second
)

// Process is a program that runs. Safe for concurrent use.
type Process struct {
	Name string // static
	core int    // static
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	tail []string // Guarded by mu. The last lines that it printed.
}

// start starts a program on one core, if that can be had; core below 0 is any.
// ready is called for each line that it prints, until it returns true.
func start(ctx context.Context, name string, core int, ready func(line string) bool, program string, args ...string) (*Process, error) {
	if taskset, err := exec.LookPath("taskset"); err == nil && core >= 0 && runtime.NumCPU() > 1 {
		args = append([]string{"-c", strconv.Itoa(core), program}, args...)
		program = taskset
	}
	p := &Process{Name: name, core: core, cmd: exec.Command(program, args...), done: make(chan struct{})}
	endWithParent(p.cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	p.cmd.Env = withoutSettings(os.Environ())
	err = p.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	isReady := make(chan struct{})
	go func() {
		p.read(out, ready, isReady)
		p.cmd.Wait()
		close(p.done)
	}()
	timeout := time.NewTimer(startWithin)
	defer timeout.Stop()
	select {
	case <-isReady:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("start %s: it ended: %s", name, p.Tail())
	case <-timeout.C:
		err = fmt.Errorf("start %s: not ready after %v: %s", name, startWithin, p.Tail())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Kill()
	return nil, err
}

// withoutSettings is an environment in which nothing speaks to Rollcall.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, e := range environment {
		if !strings.HasPrefix(e, "ROLLCALL_") {
			kept = append(kept, e)
		}
	}
	return kept
}

func (p *Process) read(out io.ReadCloser, ready func(string) bool, isReady chan<- struct{}) {
	defer out.Close()
	lines := bufio.NewScanner(out)
	for waiting := true; lines.Scan(); {
		p.mu.Lock()
		if p.tail = append(p.tail, lines.Text()); len(p.tail) > 8 {
			p.tail = p.tail[1:]
		}
		p.mu.Unlock()
		if waiting && ready(lines.Text()) {
			waiting = false
			close(isReady)
		}
	}
}

// Core is the core that the program runs on; below 0 is any.
func (p *Process) Core() int { return p.core }

// Tail is the last lines that the program printed.
func (p *Process) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "; ")
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the program as a crash does, and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Stop ends the program as a service manager does, and waits for its end.
func (p *Process) Stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.Kill()
	}
}
