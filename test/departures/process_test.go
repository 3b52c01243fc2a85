//go:build unix

package departures

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roleEnv makes the test binary one of the other processes of a row.
const roleEnv = "ROLLCALL_DEPARTURES_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
	case "client":
		os.Exit(clientMain())
	case "proxy":
		os.Exit(proxyMain())
	case "hold":
		io.Copy(io.Discard, os.Stdin) // holds its network namespace
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "unknown role", role)
		os.Exit(2)
	}
	code := m.Run()
	if dir := programDir; dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// programDir is where the program was built; "" if it was not.
var programDir string

// program builds the program, once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rollcall-departures-")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "rollcall")
	if out, err := exec.Command("go", "build", "-o", path, "rollcall/cmd/rollcall").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// child is a process that a row has started.
type child struct {
	news
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{} // closed when it has been waited for

	mu   sync.Mutex
	said []string // Guarded by mu. The last lines on stderr.
}

// launch is how a child is started.
type launch struct {
	role  string   // of this binary; "" for another program
	under []string // a command that runs the command that follows it
	args  []string // of another program, with its name first
	env   []string
	attr  *syscall.SysProcAttr
	out   func(line string) // called with each line on stdout
	err   func(line string) // called with each line on stderr
}

// start starts a child; it is ended with the test.
func start(t testing.TB, l launch) (*child, error) {
	if l.role != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		l.args = []string{self}
		l.env = append(l.env, roleEnv+"="+l.role)
	}
	args := slices.Concat(l.under, l.args)
	c := &child{cmd: exec.Command(args[0], args[1:]...), exited: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), l.env...)
	if c.cmd.SysProcAttr = l.attr; l.attr == nil {
		c.cmd.SysProcAttr = diesWithUs(syscall.SIGKILL)
	}
	// Pipes of our own: Wait would close those of exec before the last line is read.
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outEnd.Close()
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return nil, err
	}
	defer errEnd.Close()
	c.cmd.Stdout, c.cmd.Stderr = outEnd, errEnd
	c.stdin, err = c.cmd.StdinPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go c.read(stdout, l.out)
	go c.read(stderr, func(line string) {
		c.note(line)
		if l.err != nil {
			l.err(line)
		}
	})
	go func() {
		c.cmd.Wait()
		close(c.exited)
		c.tell()
	}()
	t.Cleanup(func() { c.stop(t) })
	return c, nil
}

func (c *child) read(r *os.File, take func(string)) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if take != nil {
			take(lines.Text())
		}
		c.tell()
	}
}

func (c *child) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, line)
	if len(c.said) > 50 {
		c.said = c.said[1:]
	}
}

func (c *child) stderr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.said, "\n")
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) signal(sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %v to %d: %w", sig, c.pid(), err)
	}
	return nil
}

func (c *child) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// stop ends the process for good, whatever state it is in.
func (c *child) stop(t testing.TB) {
	c.stdin.Close()
	if !c.gone() {
		c.cmd.Process.Kill() // ends a stopped one too
	}
	select {
	case <-c.exited:
	case <-time.After(10 * time.Second):
		t.Errorf("process %d does not end", c.pid())
	}
}
