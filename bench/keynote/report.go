package keynote

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/bench/markdown"
)

// Report is what a keynote found. It marshals to JSON: durations and sizes have
// their unit in the name.
type Report struct {
	Title   string   `json:"title"`
	Nodes   int      `json:"nodes"`
	Machine string   `json:"machine"` // set by the caller, like Command
	Command string   `json:"command"`
	Store   string   `json:"store"`
	When    string   `json:"when"`
	Checks  []Check  `json:"checks"`
	Phases  []Phase  `json:"phases"`
	Seconds []Second `json:"seconds"`
	Sizes   []Size   `json:"sizes"`
	Faults  []string `json:"faults"` // why streams ended, with how often

	threshold int
	size      int
}

// Check is one thing that must hold, or a goal.
type Check struct {
	What     string `json:"what"`
	Measured string `json:"measured"`
	Goal     string `json:"goal"`
	// Verdict is "met", "missed", or "" where the goal is for another size.
	Verdict string `json:"verdict"`
	// Promise is what holds on any machine and at any size; other goals are of
	// cost.
	Promise bool `json:"promise"`
}

// Phase is a part of the keynote.
type Phase struct {
	Name        string  `json:"name"`
	FromS       float64 `json:"fromS"`
	ToS         float64 `json:"toS"`
	NodesCPUMs  float64 `json:"nodesCpuMs"`
	StoreCPUMs  float64 `json:"storeCpuMs"`
	ResidentMiB float64 `json:"residentMiB"`
	Writes      float64 `json:"writes"`
	WaitedMs    float64 `json:"waitedMs"` // of the threads of the nodes, for a core
	Messages    int     `json:"messages"`
}

// WaitedS is WaitedMs in seconds.
func (p Phase) WaitedS() float64 { return p.WaitedMs / 1000 }

// Length is how long it took, in seconds.
func (p Phase) Length() float64 { return p.ToS - p.FromS }

// Second is one second of the series.
type Second struct {
	S           float64 `json:"s"` // its end
	Inside      int     `json:"inside"`
	Entered     int     `json:"entered"`
	Left        int     `json:"left"`
	Returned    int     `json:"returned"`
	Messages    int     `json:"messages"`
	PerMember   float64 `json:"perMember"` // messages
	CountLow    int     `json:"countLow"`  // least that anybody was told; -1: nobody was told any
	CountHigh   int     `json:"countHigh"`
	NodesCPUMs  float64 `json:"nodesCpuMs"`
	StoreCPUMs  float64 `json:"storeCpuMs"`
	ResidentMiB float64 `json:"residentMiB"`
	StoreMiB    float64 `json:"storeMiB"`
}

// Size is how many messages a member was sent at a size of the room, while it
// filled.
type Size struct {
	Members   int     `json:"members"`
	PerMember float64 `json:"perMember"` // a second
}

// threshold is above how many members a room tells a number, by default.
const threshold = 200

// Broken reports whether a promise was not kept.
func (r *Report) Broken() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Promise && c.Verdict == missed })
}

const (
	met    = "met"
	missed = "missed"
)

func (p *play) report() *Report {
	r := &Report{
		When: p.crowd.series.began.UTC().Format("2006-01-02 15:04"), threshold: threshold, size: p.Members, Nodes: p.Nodes,
		Title: fmt.Sprintf("%s members join one room in %s", grouped(p.Members), spoken(p.Over)),
		Store: "memory", Faults: p.crowd.faults.list(),
	}
	if p.redis != nil {
		r.Store = p.redis.Version(p.ctx)
	}
	began := p.crowd.series.began
	for _, s := range p.spans {
		r.Phases = append(r.Phases, Phase{
			Name: s.name, FromS: s.from.Sub(began).Seconds(), ToS: s.to.Sub(began).Seconds(),
			NodesCPUMs: millis(s.nodes), StoreCPUMs: millis(s.redis), ResidentMiB: mib(s.resident),
			Writes: s.writes, WaitedMs: millis(s.waited), Messages: p.crowd.series.sum(s.from, s.to, messagesOf),
		})
	}
	r.seconds(p)
	r.sizes(p)
	p.judge(r)
	return r
}

// seconds joins the samples with the slots between them.
func (r *Report) seconds(p *play) {
	series := p.crowd.series
	from := series.began
	for _, s := range p.meter.seconds() {
		sec := Second{
			S: s.at.Sub(series.began).Seconds(), Inside: s.inside, CountLow: -1, CountHigh: -1,
			NodesCPUMs: millis(s.nodes), StoreCPUMs: millis(s.redis), ResidentMiB: mib(s.resident), StoreMiB: mib(s.stored),
		}
		for i := series.index(from); i < series.index(s.at); i++ {
			slot := &series.slots[i]
			sec.Entered += int(slot.entered.Load())
			sec.Left += int(slot.left.Load())
			sec.Returned += int(slot.returned.Load())
			sec.Messages += int(slot.messages.Load())
			if low := int(slot.low.Load()) - 1; low >= 0 {
				if sec.CountLow < 0 || low < sec.CountLow {
					sec.CountLow = low
				}
				sec.CountHigh = max(sec.CountHigh, int(slot.high.Load()))
			}
		}
		if s.inside > 0 {
			sec.PerMember = float64(sec.Messages) / float64(s.inside)
		}
		from = s.at
		r.Seconds = append(r.Seconds, sec)
	}
}

// sizes takes the traffic by the size of the room: in grains while it is small,
// and in seconds above.
func (r *Report) sizes(p *play) {
	series, fill := p.crowd.series, p.span("fill")
	inside, messages, slots, sum := 0, 0, 0, 0
	for i := series.index(fill.from); i < series.index(fill.to); i++ {
		inside += int(series.slots[i].entered.Load())
		messages += int(series.slots[i].messages.Load() - series.slots[i].entered.Load()) // without each one's first
		slots++
		sum += inside
		if inside > 0 && (inside < threshold || slots == slotsPerSecond) {
			mean := float64(sum) / float64(slots)
			if mean > 0 {
				rate := float64(messages) / mean / (float64(slots) / float64(slotsPerSecond))
				r.Sizes = append(r.Sizes, Size{Members: int(mean + 0.5), PerMember: max(rate, 0)})
			}
			messages, slots, sum = 0, 0, 0
		}
	}
}

// Text is the summary for people, in markdown.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n", r.heading())
	if r.Command != "" {
		fmt.Fprintf(&b, "`%s`\n\n", r.Command)
	}
	rows := [][]string{{"", "measured", "goal", ""}}
	for _, c := range r.Checks {
		rows = append(rows, []string{c.What, c.Measured, c.Goal, c.Verdict})
	}
	markdown.Table(&b, rows)
	b.WriteByte('\n')
	rows = [][]string{{"phase", "seconds", "CPU of nodes", "CPU of store", "memory of nodes", "messages", "writes", "waited for a core"}}
	for _, s := range r.Phases {
		rows = append(rows, []string{
			s.Name, fmt.Sprintf("%.1f", s.ToS-s.FromS), fmt.Sprintf("%.2f s", s.NodesCPUMs/1000), fmt.Sprintf("%.2f s", s.StoreCPUMs/1000),
			fmt.Sprintf("%.0f MiB", s.ResidentMiB), grouped(s.Messages), grouped(int(s.Writes)), fmt.Sprintf("%.1f s", s.WaitedMs/1000),
		})
	}
	markdown.Table(&b, rows)
	if len(r.Faults) > 0 {
		fmt.Fprintf(&b, "\nStreams ended: %s.\n", strings.Join(r.Faults, "; "))
	}
	return b.String()
}

func (r *Report) heading() string {
	if r.Nodes == 1 {
		return fmt.Sprintf("Keynote: %s, one node, %s", r.Title, r.Store)
	}
	return fmt.Sprintf("Keynote: %s, %d nodes, %s", r.Title, r.Nodes, r.Store)
}

// spoken is a duration as people say it.
func spoken(d time.Duration) string {
	if d == time.Minute {
		return "a minute"
	}
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%g seconds", d.Seconds())
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// list is the faults, the most frequent first.
func (f *faults) list() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var kinds []string
	for kind := range f.kinds {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int { return f.kinds[b] - f.kinds[a] })
	for _, kind := range kinds {
		all = append(all, fmt.Sprintf("%d: %s", f.kinds[kind], kind))
	}
	return all
}
