package bench

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/bench/load"
)

// stay is how long a guest of the churn stays: several ticks, so that none
// cancels out unseen.
const stay = 200 * time.Millisecond

// guests is how many users of the churn have names.
const guests = 1 << 16

// churner lets guests come to a room and go.
type churner struct {
	*Settings
	addr string
	sent [guests]atomic.Int64 // when guest i asked to join, in Unix ns

	mu   sync.Mutex
	lags []time.Duration // Guarded by mu.
	errs atomic.Int64
	done atomic.Int64 // pairs
	on   atomic.Bool  // lags are taken

	calls chan *load.Calls
	slots chan *standing
}

// standing is a WebSocket that enters and leaves and stays open.
type standing struct {
	i      int
	ws     *load.WS
	inside chan struct{} // capacity 1
}

// passing is how many are there for a moment at any time.
func passing(pairs float64) int { return int(pairs * stay.Seconds()) }

// LeastHeld is the least size that a churn of so many pairs a second can hold a
// room at: its guests, and one who stays.
func LeastHeld(pairs float64) int { return passing(pairs) + 1 }

// churn holds a room at one size while guests come and go.
func churn(s *Settings) (*Result, error) {
	if s.Via == "sse-beat" || s.How == "message" && s.Via != "ws" {
		return nil, fmt.Errorf("no such churn: %s by %s", s.How, s.Via)
	}
	server, err := startChild()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	transient := passing(s.Pairs)
	base := s.Held - transient
	ch := &churner{Settings: s, addr: server.addr, calls: make(chan *load.Calls, 64), slots: make(chan *standing, transient*2)}
	every := max(base/10, 1) // one in ten members takes the time
	c := &crowd{addr: server.addr, via: s.Via, hear: func(i int, kind, body []byte) {
		if i%every == 0 && string(kind) == "diff" {
			ch.look(body)
		}
	}}
	defer c.stop()
	if err := c.fill(base, base); err != nil {
		return nil, err
	}
	if s.How == "message" {
		if err := ch.stand(transient * 2); err != nil {
			return nil, err
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { ch.run(stop) })
	time.Sleep(2 * time.Second)
	ch.on.Store(true)
	if s.Profiles != "" {
		server.tell("cpu " + filepath.Join(s.Profiles, fmt.Sprintf("churn-%s-%d.cpu.prof", s.Via, s.Held)))
	}
	before, err := server.ask("stats")
	start, pairs := time.Now(), ch.done.Load()
	if err == nil {
		time.Sleep(s.Span)
	}
	var after stats
	if err == nil {
		after, err = server.ask("stats")
	}
	span := time.Since(start)
	n := float64(ch.done.Load() - pairs)
	if s.Profiles != "" {
		server.tell("cpu")
		server.tell("heap " + filepath.Join(s.Profiles, fmt.Sprintf("churn-%s-%d.heap.prof", s.Via, s.Held)))
	}
	close(stop)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	if failed := ch.errs.Load(); failed > 0 {
		return nil, fmt.Errorf("%d guests failed", failed)
	}
	floor, err := writeCost(s.Held, churnEvent)
	if err != nil {
		return nil, err
	}
	return ch.report(before, after, n, span, floor), nil
}

func (ch *churner) report(before, after stats, pairs float64, span, floor time.Duration) *Result {
	delta := func(name string) float64 { return (after.Counters[name] - before.Counters[name]) / pairs }
	goal := ""
	if ch.Held == 190 {
		goal = "<= 1 ms"
	}
	r := &Result{title: fmt.Sprintf("Churn: a room held at %d, %s, a %s a pair", ch.Held, ch.Via, ch.How)}
	r.add("pairs a second", ">= 100", "%.0f", pairs/span.Seconds())
	r.add("members at the end", "", "%.0f", after.Counters["rollcall_members"])
	r.add("CPU of a pair", goal, "%.2f ms", millis(after.CPU-before.CPU)/pairs)
	r.add("CPU a second", "", "%.0f ms", millis(after.CPU-before.CPU)/span.Seconds())
	r.add("writes of a pair", "", "%.1f", delta("rollcall_writes_total"))
	r.add("events of rooms of a pair", "", "%.1f", delta("rollcall_deliveries_total"))
	r.add("CPU of a bare write to as many sockets", "", "%.1f us", micros(floor))
	bare := micros(floor) * delta("rollcall_writes_total") / 1000
	r.add("CPU of the writes of a pair, if bare", "", "%.2f ms", bare)
	r.add("CPU of a pair, of that", "", "%.1fx", millis(after.CPU-before.CPU)/pairs/bare)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	slices.Sort(ch.lags)
	if n := len(ch.lags); n > 0 {
		r.add("lag of a join, p50", "", "%.1f ms", millis(ch.lags[n/2]))
		r.add("lag of a join, p99", "< 1 s", "%.1f ms", millis(ch.lags[n*99/100]))
	}
	return r
}

// run starts a guest at each turn.
func (ch *churner) run(stop <-chan struct{}) {
	every := time.Duration(float64(time.Second) / ch.Pairs)
	began := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Until(began.Add(time.Duration(i) * every))): // late turns are made up for
		}
		wg.Go(func() {
			var err error
			switch {
			case ch.How == "message":
				err = ch.visitStanding()
			case ch.Via == "ws":
				err = ch.visitWS(i % guests)
			default:
				err = ch.visitSSE(i % guests)
			}
			if err != nil {
				ch.errs.Add(1)
				return
			}
			ch.done.Add(1)
		})
	}
}

const (
	churnRoom  = "room-0"
	churnEvent = 300 // bytes of an event of a join and a leave, about
)

func guestName(i int) string { return fmt.Sprintf("guest.%d", i) }

func (ch *churner) visitWS(i int) error {
	ws, err := load.DialWS(ch.addr, load.Login{User: guestName(i)}, load.BufferSmall)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		ws.Read(func(kind, body []byte) {})
		close(over)
	}()
	ch.sent[i].Store(time.Now().UnixNano())
	err = ws.Join(churnRoom, "", 0)
	time.Sleep(stay)
	ws.Leave(churnRoom)
	<-over
	return err
}

func (ch *churner) visitSSE(i int) error {
	began := time.Now().UnixNano()
	ch.sent[i].Store(began)
	sse, err := load.DialSSE(ch.addr, churnRoom, "", load.Login{User: guestName(i)}, nil, load.BufferSmall)
	if err != nil {
		return err
	}
	ready := make(chan struct{}, 1)
	over := make(chan struct{})
	go func() {
		sse.Read(false, func(kind, body []byte) {
			if string(kind) == "ready" {
				ready <- struct{}{}
			}
		})
		close(over)
	}()
	defer func() { sse.Close(); <-over }()
	time.Sleep(stay)
	select {
	case <-ready:
	case <-over:
		return fmt.Errorf("no ready")
	}
	call, err := ch.call()
	if err != nil {
		return err
	}
	err = call.Post(sse.Connection, sse.Resume, "release", []byte("{}"))
	if err == nil {
		ch.calls <- call
	}
	return err
}

// call is a socket for calls that nobody uses now.
func (ch *churner) call() (*load.Calls, error) {
	select {
	case k := <-ch.calls:
		return k, nil
	default:
	}
	return load.DialCalls(ch.addr)
}

// stand opens the WebSockets that enter and leave.
func (ch *churner) stand(n int) error {
	for i := range n {
		ws, err := load.DialWS(ch.addr, load.Login{User: guestName(i)}, load.BufferSmall)
		if err != nil {
			return err
		}
		st := &standing{i: i, ws: ws}
		go ws.Read(func(kind, body []byte) {})
		ch.slots <- st
	}
	return nil
}

func (ch *churner) visitStanding() error {
	st := <-ch.slots
	defer func() { ch.slots <- st }()
	ch.sent[st.i].Store(time.Now().UnixNano())
	if err := st.ws.Join(churnRoom, "", 0); err != nil {
		return err
	}
	time.Sleep(stay)
	return st.ws.Send(1, []byte(`{"type":"leave","room":"`+churnRoom+`"}`))
}

// look takes the time of the joins that a diff tells.
func (ch *churner) look(diff []byte) {
	if !ch.on.Load() {
		return
	}
	now := time.Now().UnixNano()
	_, joins, ok := bytes.Cut(diff, []byte(`"join":[`))
	if !ok {
		return
	}
	joins, _, _ = bytes.Cut(joins, []byte(`"leave":[`))
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for {
		_, rest, ok := bytes.Cut(joins, []byte(`"user":"guest.`))
		if !ok {
			return
		}
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		if i, err := strconv.Atoi(string(digits)); err == nil && i < guests {
			ch.lags = append(ch.lags, time.Duration(now-ch.sent[i].Load()))
		}
		joins = rest
	}
}
