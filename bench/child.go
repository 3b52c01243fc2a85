package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"rollcall"
	"rollcall/bench/load"
	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

// childCommand is the first argument of the process that is the server.
const childCommand = "child-server"

// stats is what the server says of itself.
type stats struct {
	CPU      time.Duration      // of the process, since its start
	RSS      int                // bytes
	Heap     int                // bytes of live objects; after a collection only
	InUse    int                // bytes of the spans of the heap and of stacks
	Stack    int                // bytes of stacks
	Counters map[string]float64 // of /metrics
}

// serveChild is the server process. It takes one command a line: "stats" and
// "collect" (stats after a collection), "heap FILE", "cpu FILE", "cpu", and ends
// with its input.
func serveChild(args []string) error {
	timing := rollcall.DefaultTiming()
	f := flag.NewFlagSet(childCommand, flag.ExitOnError)
	f.DurationVar(&timing.Lease, "lease", timing.Lease, "")
	f.DurationVar(&timing.Beat, "beat", timing.Beat, "")
	f.IntVar(&runtime.MemProfileRate, "rate", runtime.MemProfileRate, "")
	f.Parse(args)
	limits := rollcall.DefaultLimits()
	limits.AcceptsPerSecond = 100_000 // the load is what it is
	st := store.NewMemory(store.MemoryOptions{Timing: timing, Limits: limits, Settled: true})
	defer st.Close()
	s, err := server.New(server.Options{
		Store: st, Auth: auth.Guests{}, Timing: timing, Limits: limits,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	c := net.ListenConfig{KeepAlive: -1} // as rollcall serve
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go h.Serve(l)
	defer h.Close()
	out := json.NewEncoder(os.Stdout)
	out.Encode(l.Addr().String())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, file, _ := strings.Cut(lines.Text(), " ")
		switch {
		case verb == "stats":
			err = out.Encode(read(s, false))
		case verb == "collect":
			err = out.Encode(read(s, true))
		case verb == "heap":
			runtime.GC()
			err = writeProfile(file, func(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) })
		case verb == "cpu" && file != "":
			var w *os.File
			if w, err = os.Create(file); err == nil {
				err = pprof.StartCPUProfile(w)
			}
		case verb == "cpu":
			pprof.StopCPUProfile()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeProfile(file string, write func(io.Writer) error) error {
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer w.Close()
	return write(w)
}

func read(s *server.Server, collect bool) stats {
	if collect {
		for range 3 { // stacks shrink by half with each
			runtime.GC()
		}
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	st := stats{
		CPU: load.CPUTime(), RSS: rss(), Heap: int(m.HeapAlloc), Stack: int(m.StackInuse),
		InUse: int(m.HeapInuse + m.StackInuse), Counters: make(map[string]float64),
	}
	families, _ := s.Gatherer().Gather()
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if c := one.GetCounter(); c != nil {
				st.Counters[f.GetName()] += c.GetValue()
			}
			if g := one.GetGauge(); g != nil {
				st.Counters[f.GetName()] += g.GetValue()
			}
		}
	}
	return st
}

// rss is the resident memory of this process.
func rss() int {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib int
			fmt.Sscan(rest, &kib)
			return kib << 10
		}
	}
	return 0
}

// child is the parent's side of the server process. Not safe for concurrent use.
type child struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
}

// startChild starts a server. The caller stops it.
func startChild(args ...string) (*child, error) { return startChildAs(childCommand, args...) }

func startChildAs(command string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, append([]string{"bench", "child", command}, args...)...)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.out.Decode(&c.addr); err != nil {
		c.stop()
		return nil, fmt.Errorf("start server: %w", err)
	}
	return c, nil
}

func (c *child) stop() {
	c.in.Close()
	done := make(chan struct{})
	go func() { c.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		c.cmd.Process.Kill()
		<-done
	}
}

// ask sends "stats" or "collect".
func (c *child) ask(verb string) (stats, error) {
	var s stats
	if _, err := fmt.Fprintln(c.in, verb); err != nil {
		return s, err
	}
	if err := c.out.Decode(&s); err != nil {
		return s, fmt.Errorf("ask server: %w", err)
	}
	return s, nil
}

func (c *child) tell(command string) { fmt.Fprintln(c.in, command) }
