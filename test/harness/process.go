package harness

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// builds tells that the program was asked for.
var builds atomic.Bool

// program builds the program, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rollcall-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "rollcall")
	out, err := exec.Command("go", "build", "-o", path, "rollcall/cmd/rollcall").CombinedOutput()
	if err != nil {
		os.RemoveAll(dir)
		return "", &buildError{err, string(out)}
	}
	return path, nil
})

type buildError struct {
	err error
	out string
}

func (e *buildError) Error() string { return "build the program: " + e.err.Error() + "\n" + e.out }

// RemoveProgram removes the program, if it was built, and ends the shared Redis, if
// there is one. For TestMain.
func RemoveProgram() {
	removeRedis()
	if builds.Load() {
		if path, err := program(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
	}
}

// process is a server of its own.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has been waited for
	err    error         // static once exited is closed

	mu   sync.Mutex
	said []string // Guarded by mu. Lines on stderr.
}

func (s *Server) startProcess() {
	s.t.Helper()
	builds.Store(true)
	path, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	listen := s.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	args := []string{
		"serve", "--listen", listen, "--admin-listen", "127.0.0.1:0",
		"--lease", s.Lease.String(), "--beat", s.Beat.String(), "--close-grace", s.Grace.String(),
		"--secret", Secret, "--api-key", "test=" + APIKey,
	}
	if s.Tokens {
		args = append(args, "--jwt-secret", Secret)
	} else {
		args = append(args, "--guests")
	}
	if s.Config.store != "" {
		args = append(args, "--store", s.Config.store)
	}
	for _, o := range s.Origins {
		args = append(args, "--allowed-origin", o)
	}
	p := &process{cmd: exec.Command(path, append(args, s.Args...)...), exited: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	launch := (*exec.Cmd).Start
	if s.Launch != nil {
		launch = s.Launch
	}
	if err := launch(p.cmd); err != nil {
		s.t.Fatal(err)
	}
	listening := make(chan struct{})
	go p.listen(stderr, s, listening)
	select {
	case <-listening:
	case <-p.exited:
		s.t.Fatalf("the server ended: %v\n%s", p.err, p.stderr())
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		s.t.Fatalf("the server does not listen\n%s", p.stderr())
	}
	s.proc = p
}

// listen reads what the process says until it ends.
func (p *process) listen(r io.Reader, s *Server, listening chan<- struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		p.said = append(p.said, line)
		p.mu.Unlock()
		if url, ok := strings.CutPrefix(line, "rollcall: admin on "); ok {
			s.Admin = url
		}
		if url, ok := strings.CutPrefix(line, "rollcall: listening on "); ok && listening != nil {
			s.URL = url
			close(listening)
			listening = nil
		}
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// stop ends the process for good, whatever state it is in.
func (p *process) stop(t testing.TB) {
	p.cmd.Process.Signal(syscall.SIGCONT)
	p.cmd.Process.Kill()
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		t.Errorf("process %d does not end", p.cmd.Process.Pid)
	}
}

// PID is the process of the server.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

// Said is what the server's process has said on stderr.
func (s *Server) Said() string { return s.proc.stderr() }

// Signal sends a signal to the server's process, or to both of a pair: SIGSTOP and
// SIGCONT, SIGTERM, SIGKILL.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	if s.far != nil {
		s.far.Signal(sig)
	}
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v: %v", sig, err)
	}
}

// Exited waits for the server's process to end, and returns its exit code and
// what it said on stderr.
func (s *Server) Exited(within time.Duration) (code int, stderr string) {
	s.t.Helper()
	select {
	case <-s.proc.exited:
	case <-time.After(within):
		s.t.Fatalf("the server is still running after %v", within)
	}
	return s.proc.cmd.ProcessState.ExitCode(), s.proc.stderr()
}
