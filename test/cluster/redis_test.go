//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// redis is a redis-server of a test.
type redis struct {
	t      testing.TB
	port   string
	args   []string
	launch func(*exec.Cmd) error
	cmd    *exec.Cmd
	out    *strings.Builder
	exited chan struct{} // closed when it has been waited for
	pass   string        // that it wants; "": none
}

// startRedis starts a redis-server that keeps nothing on disk.
func startRedis(t testing.TB, args ...string) *redis {
	t.Helper()
	return startRedisBy(t, launch, args...)
}

func startRedisBy(t testing.TB, launch func(*exec.Cmd) error, args ...string) *redis {
	t.Helper()
	r := &redis{t: t, port: freePort(t), launch: launch}
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		r.pass = args[i+1]
	}
	r.args = append([]string{
		"--port", r.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
		"--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes",
	}, args...)
	r.start()
	t.Cleanup(r.kill)
	return r
}

// start starts the server, the first time or again.
func (r *redis) start() {
	r.t.Helper()
	r.cmd, r.out, r.exited = exec.Command(harness.RedisServer(), r.args...), &strings.Builder{}, make(chan struct{})
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.launch(r.cmd); err != nil {
		r.t.Fatalf("%v (this test needs redis-server: script/setup)", err)
	}
	cmd, exited := r.cmd, r.exited
	go func() { cmd.Wait(); close(exited) }()
	r.await("PONG", "PING")
}

// await waits until a command is answered so.
func (r *redis) await(want string, args ...string) {
	r.t.Helper()
	harness.Eventually(r.t, soon, fmt.Sprintf("%q answers %q", args, want), func() bool {
		a, err := r.try(args...)
		return err == nil && strings.Contains(a.text, want)
	})
}

func (r *redis) addr() string { return "127.0.0.1:" + r.port }
func (r *redis) url() string  { return "redis://" + r.addr() }

// kill ends the server at once.
func (r *redis) kill() {
	r.cmd.Process.Kill()
	<-r.exited
}

func (r *redis) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// stop stops the server as SIGSTOP does; cont lets it go on.
func (r *redis) stop() { r.signal(syscall.SIGSTOP) }
func (r *redis) cont() { r.signal(syscall.SIGCONT) }

// try runs a command on a connection of its own.
func (r *redis) try(args ...string) (reply, error) {
	conn, err := net.DialTimeout("tcp", r.addr(), time.Second)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(soon))
	in := bufio.NewReader(conn)
	if r.pass != "" {
		if a, err := ask(conn, in, "AUTH", r.pass); err != nil || a.text != "OK" {
			return a, err
		}
	}
	a, err := ask(conn, in, args...)
	if err == nil && (a.kind == '-' || a.kind == '!') {
		err = fmt.Errorf("%s: %s", args[0], a.text)
	}
	return a, err
}

func ask(conn net.Conn, in *bufio.Reader, args ...string) (reply, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return reply{}, err
	}
	a, _, err := readReply(in, nil)
	return a, err
}

// do runs a command that has to work.
func (r *redis) do(args ...string) reply {
	r.t.Helper()
	a, err := r.try(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}
