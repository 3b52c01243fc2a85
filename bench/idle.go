package bench

import (
	"fmt"
	"path/filepath"
	"time"
)

// idle fills rooms and then watches the server do nothing.
func idle(s *Settings) (*Result, error) {
	var options []string
	if s.Profiles != "" && s.Via != "sse" {
		options = []string{"-rate", "1"} // every allocation; too dear where streams come and go
	}
	server, err := startChild(options...)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	// A few come and go first: the pages of the program that they bring into
	// memory are no member's.
	early := &crowd{addr: server.addr, via: s.Via}
	err = early.fill(50, 50)
	early.stop()
	if err != nil {
		return nil, err
	}
	empty, err := server.ask("collect")
	if err != nil {
		return nil, err
	}
	c := &crowd{addr: server.addr, via: s.Via}
	defer c.stop()
	if err := c.fill(s.Members, s.Room); err != nil {
		return nil, err
	}
	// Beats spread over one round before anything is measured.
	time.Sleep(10 * time.Second)
	began, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	if s.Profiles != "" {
		server.tell("heap " + filepath.Join(s.Profiles, "idle-"+s.Via+".begin.prof"))
		server.tell("cpu " + filepath.Join(s.Profiles, "idle-"+s.Via+".cpu.prof"))
	}
	start := time.Now()
	time.Sleep(s.Span)
	grown, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	span := time.Since(start)
	if s.Profiles != "" {
		server.tell("cpu")
		server.tell("heap " + filepath.Join(s.Profiles, "idle-"+s.Via+".heap.prof"))
	}
	// What a collection makes of it: garbage of the arrivals is gone by then.
	idle, err := server.ask("collect")
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	n := s.Members
	if got := int(idle.Counters["rollcall_members"]); got != n {
		return nil, fmt.Errorf("the server counts %d members of %d", got, n)
	}
	goals := map[string][2]string{
		"ws": {"<= 6 KiB", "<= 45 ms"}, "sse": {"<= 6 KiB", "<= 150 ms"}, "sse-beat": {"<= 30 KiB", "<= 120 ms"},
	}[s.Via]
	perSecond := millis(grown.CPU-began.CPU) / span.Seconds()
	r := &Result{title: fmt.Sprintf("Idle: %d members in rooms of %d, %s", n, s.Room, s.Via)}
	r.add("resident memory of a member", goals[0], "%.2f KiB", kib(idle.RSS-empty.RSS, n))
	r.add("heap and stacks in use", "", "%.2f KiB", kib(idle.InUse-empty.InUse, n))
	r.add("of that, live objects", "", "%.2f KiB", kib(idle.Heap-empty.Heap, n))
	r.add("of that, stacks", "", "%.2f KiB", kib(idle.Stack-empty.Stack, n))
	r.add("resident before a collection", "", "%.2f KiB", kib(grown.RSS-empty.RSS, n))
	r.add("CPU a second", scaled(goals[1], n), "%.1f ms", perSecond)
	r.add("CPU a second and 10,000 members", goals[1], "%.1f ms", perSecond*10000/float64(n))
	r.add("renewals a second", "", "%.0f", (grown.Counters["rollcall_lease_renewals_total"]-began.Counters["rollcall_lease_renewals_total"])/span.Seconds())
	r.add("writes a second", "", "%.0f", (grown.Counters["rollcall_writes_total"]-began.Counters["rollcall_writes_total"])/span.Seconds())
	return r, nil
}

// scaled shows a goal that is meant for 10,000 members only where it applies.
func scaled(goal string, n int) string {
	if n == 10000 {
		return goal
	}
	return ""
}
