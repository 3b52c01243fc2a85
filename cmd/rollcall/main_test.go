package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"rollcall": main})
}

// leakless are tests that leave no goroutine behind.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts runs testdata/*.txtar. Besides the usual commands there are
//
//	fails CODE ARG...      runs rollcall, which must exit with the code
//	get URL CODE           asks until the answer has the status code
//	post URL BODY CODE     asks once; the answer goes to the file "answer"
//
// and, for programs that run until they are told to stop:
//
//	start NAME ARG...      runs rollcall in the background
//	until NAME PATTERN     waits for a line of its output; named groups go to the environment
//	signal NAME TERM|INT   sends it a signal
//	exits NAME CODE        waits for its end
func TestScripts(t *testing.T) { runScripts(t, "testdata", nil) }

// runScripts runs the scripts of a folder, which have more commands.
func runScripts(t *testing.T, dir string, more map[string]func(*testscript.TestScript, bool, []string)) {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"fails": fails, "get": get, "post": post, "start": start, "until": until, "signal": signalProgram, "exits": exits,
	}
	maps.Copy(commands, more)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[programsKey{}] = map[string]*program{}
			// A program with the race detector lingers for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			return nil
		},
		Cmds: commands,
	})
}

type programsKey struct{}

// patience is how long a script waits for what must come.
const patience = time.Minute

// program is one that runs in the background.
type program struct {
	cmd    *exec.Cmd
	output output
	exited chan struct{}
}

// output is what a program has written, and how far it was looked at.
type output struct {
	mu      sync.Mutex
	text    []byte        // Guarded by mu.
	seen    int           // Guarded by mu.
	changed chan struct{} // Guarded by mu. Closed at the next write.
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// find looks for a pattern in whole lines that were not looked at yet; changed
// is closed when it is worth looking again.
func (o *output) find(pattern *regexp.Regexp) (found []string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := o.text[o.seen:]
	fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
	if at := pattern.FindSubmatchIndex(fresh); at != nil {
		for i := 0; i < len(at); i += 2 {
			found = append(found, string(fresh[at[i]:at[i+1]]))
		}
		o.seen += at[1] + bytes.IndexByte(fresh[at[1]:], '\n') + 1
		return found, nil
	}
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return nil, o.changed
}

func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: fails CODE ARG...")
	}
	code := "0"
	if err := ts.Exec("rollcall", args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = strconv.Itoa(exit.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exits with %s, want %s", code, args[0])
	}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get URL CODE")
	}
	for last, until := "", time.Now().Add(patience); ; {
		response, err := http.Get(args[0])
		ts.Check(err)
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if last = strconv.Itoa(response.StatusCode); last == args[1] {
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("%s answers %s, want %s", args[0], last, args[1])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: post URL BODY CODE")
	}
	response, err := http.Post(args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), raw, 0o600))
	if got := strconv.Itoa(response.StatusCode); got != args[2] {
		ts.Fatalf("%s answers %s %s, want %s", args[0], got, raw, args[2])
	}
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARG...")
	}
	p := &program{exited: make(chan struct{})}
	path, err := lookPath(ts.Getenv("PATH"))
	ts.Check(err)
	p.cmd = exec.CommandContext(context.Background(), path, args[1:]...)
	p.cmd.Args[0] = "rollcall"
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GORACE", "ROLLCALL_URL", "ROLLCALL_TOKEN", "ROLLCALL_JWT_SECRET", "ROLLCALL_LISTEN", "ROLLCALL_STORE"} {
		if v := ts.Getenv(name); v != "" {
			p.cmd.Env = append(p.cmd.Env, name+"="+v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	ts.Check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the state has it
		close(p.exited)
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // if it is still there
		<-p.exited
	})
	programs(ts)[args[0]] = p
}

// lookPath finds rollcall where scripts find it.
func lookPath(path string) (string, error) {
	for _, dir := range strings.Split(path, string(os.PathListSeparator)) {
		if file := dir + string(os.PathSeparator) + "rollcall"; isFile(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("no rollcall in %s", path)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func programs(ts *testscript.TestScript) map[string]*program {
	return ts.Value(programsKey{}).(map[string]*program)
}

func named(ts *testscript.TestScript, name string) *program {
	p := programs(ts)[name]
	if p == nil {
		ts.Fatalf("no program %s was started", name)
	}
	return p
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until NAME PATTERN")
	}
	p := named(ts, args[0])
	pattern := regexp.MustCompile("(?m)" + args[1])
	timeout := time.After(patience)
	for ended := false; ; {
		found, changed := p.output.find(pattern)
		if found != nil {
			for i, name := range pattern.SubexpNames() {
				if name != "" {
					ts.Setenv(name, found[i])
				}
			}
			return
		}
		if ended {
			ts.Fatalf("%s ended without %q; it said:\n%s", args[0], args[1], &p.output)
		}
		select {
		case <-changed:
		case <-p.exited:
			ended = true
		case <-timeout:
			ts.Fatalf("%s did not say %q; it said:\n%s", args[0], args[1], &p.output)
		}
	}
}

func signalProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME TERM|INT")
	}
	s := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[args[1]]
	ts.Check(named(ts, args[0]).cmd.Process.Signal(s))
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: exits NAME CODE")
	}
	p := named(ts, args[0])
	select {
	case <-p.exited:
	case <-time.After(patience):
		ts.Fatalf("%s does not end; it said:\n%s", args[0], &p.output)
	}
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("%s exits with %s, want %s; it said:\n%s", args[0], got, args[1], &p.output)
	}
}
