//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// process is a child, with all it starts, and what these print.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	done  chan struct{} // closed when it has ended and everything is read
	err   error         // how it ended; valid after done

	mu      sync.Mutex
	printed []string      // Guarded by mu. Whole lines of stdout and stderr.
	more    chan struct{} // Guarded by mu. Closed with the next line, or the end.
}

const stopWait = 3 * time.Second

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	// Whoever it leaves behind with our output must not hold us up.
	cmd.WaitDelay = time.Second
	// A group of its own, so that all of it can be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if p.input, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(reader)
	}()
	go func() {
		p.err = cmd.Wait()
		writer.Close()
		<-read
		close(p.done)
	}()
	return p, nil
}

func (p *process) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.printed = append(p.printed, lines.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// lines is what was printed so far.
func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.printed)
}

// say writes to its input.
func (p *process) say(text string) error {
	_, err := io.WriteString(p.input, text)
	return err
}

// wait waits until what was printed is enough; false if it never is.
func (p *process) wait(most time.Duration, enough func(lines []string) bool) bool {
	deadline := time.After(most)
	for {
		p.mu.Lock()
		lines, more := slices.Clone(p.printed), p.more
		p.mu.Unlock()
		if enough(lines) {
			return true
		}
		select {
		case <-more:
		case <-p.done:
			return enough(p.lines())
		case <-deadline:
			return false
		}
	}
}

// ended waits for the end; an exit code other than 0 is an error.
func (p *process) ended(most time.Duration) error {
	p.input.Close()
	select {
	case <-p.done:
		return p.err
	case <-time.After(most):
		return errors.New("it does not end")
	}
}

// stop ends it and all that it started.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // it may have ended
	p.input.Close()
	select {
	case <-p.done:
	case <-time.After(stopWait):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.done
}
