//go:build faults && linux && amd64

package cluster

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rollcall/test/harness"
)

// most is how many tests run at a time. Nearly all of their time is waiting, but
// every one has a store and nodes of its own.
const most = "5"

func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		flag.Set("test.parallel", most)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		harness.RemoveProgram()
		os.Exit(code)
	}))
}

const (
	lease = 3 * time.Second
	beat  = 900 * time.Millisecond
	grace = time.Second

	// soon is the most that a test waits for what has to happen at once, on a
	// busy machine.
	soon = 10 * time.Second
	// gone is how long a user may be shown after the last sign of life: D of the
	// field cases.
	gone = lease + 2*time.Second
	// repaired is how long a lost message may go unnoticed, with slack.
	repaired = 3500 * time.Millisecond
)

// room is the room of tests that need one.
const room = "doc/42 ü"

// launch starts a process that ends with this one.
func launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}

// freePort is a port that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// portOf is the port among the arguments of a redis-server.
func portOf(args []string) string { return args[slices.Index(args, "--port")+1] }
