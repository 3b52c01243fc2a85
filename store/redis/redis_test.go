package redis

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/store"
	"rollcall/store/storetest"
)

// startServer starts a real server on a free port and returns its address.
func startServer(t testing.TB, binary string, args ...string) (addr string, proc *os.Process) {
	t.Helper()
	if binary == "redis-server" {
		binary = cmp.Or(os.Getenv("ROLLCALL_REDIS_SERVER"), binary) // as the tests of whole systems do
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		t.Fatalf("%s is missing: install it, or run script/setup", binary)
	}
	dir := t.TempDir()
	for range 5 {
		port := freePort(t)
		cmd := exec.Command(path, append([]string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--dir", dir, "--logfile", filepath.Join(dir, "log"),
		}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if waitPing(addr) {
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
			})
			return addr, cmd.Process
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Fatalf("%s did not start", binary)
	return "", nil
}

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// waitPing waits until the server answers.
func waitPing(addr string) bool {
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		if c, err := net.Dial("tcp", addr); err == nil {
			fmt.Fprint(c, "PING\r\n")
			line, _ := bufio.NewReader(c).ReadString('\n')
			c.Close()
			if strings.HasPrefix(line, "+PONG") {
				return true
			}
		}
		time.Sleep(10 * time.Millisecond) //house:sleep polls a process that starts
	}
	return false
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestConformance(t *testing.T) {
	addr, _ := startServer(t, "redis-server", "--databases", "128")
	var n atomic.Int64
	storetest.Run(t, storetest.Factory{
		New: func(t testing.TB, o storetest.Options) store.Store {
			s, err := Open(context.Background(), Options{
				URL: fmt.Sprintf("redis://%s/%d", addr, n.Add(1)), Timing: o.Timing, Limits: o.Limits, Modes: o.Modes, Rules: o.Rules, Logger: quiet(), Sweep: -1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}
