package keynote

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

//go:embed report.html
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// page is what the template is given.
type page struct {
	*Report
	Heading  string
	Facts    []fact
	Charts   []*chart
	Kept     int // checks that are met
	Judged   int
	Promises []Check
	Costs    []Check
}

// fact is a number to begin with.
type fact struct{ Number, Unit, What string }

// HTML is the report as a page that needs nothing else.
func (r *Report) HTML() ([]byte, error) {
	p := page{Report: r, Heading: r.heading(), Facts: r.facts()}
	for _, c := range r.Checks {
		switch {
		case c.Promise:
			p.Promises = append(p.Promises, c)
		default:
			p.Costs = append(p.Costs, c)
		}
		if c.Verdict != "" {
			p.Judged++
		}
		if c.Verdict == met {
			p.Kept++
		}
	}
	p.Charts = []*chart{r.bySize(), r.members(), r.traffic(), r.cpu(), r.memory()}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, p)
	return b.Bytes(), err
}

func (r *Report) phase(name string) *Phase {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	return &Phase{}
}

func (r *Report) facts() []fact {
	fill, churn, back := r.phase("fill"), r.phase("churn"), r.phase("return")
	facts := []fact{
		{fmt.Sprintf("%.1f", fill.NodesCPUMs/1000), "s", "CPU for all to join"},
		{fmt.Sprintf("%.0f", r.phase("full").ResidentMiB), "MiB", "memory with all in"},
	}
	if span := churn.ToS - churn.FromS; span > 0 {
		facts = append(facts, fact{fmt.Sprintf("%.0f", churn.NodesCPUMs/span), "ms/s", "CPU while they come and go"})
	}
	return append(facts, fact{fmt.Sprintf("%.1f", back.ToS-back.FromS), "s", "until all are back"})
}

// timed is a chart over the time, with the phases behind it.
func (r *Report) timed(title, note string) *chart {
	c := &chart{Title: title, Note: note}
	end := 1.0
	if n := len(r.Seconds); n > 0 {
		end = r.Seconds[n-1].S
	}
	c.times(end)
	for i, p := range r.Phases {
		name := map[string]string{"fill": "join", "churn": "churn", "return": "killed", "race": ""}[p.Name]
		if p.Name == "return" {
			c.Marks = append(c.Marks, tick{At: 100 * p.FromS / end})
		}
		c.Bands = append(c.Bands, band{Name: name, From: 100 * p.FromS / end, Width: 100 * (p.ToS - p.FromS) / end, Odd: i%2 == 0 && p.Name != "return"})
	}
	return c
}

func (r *Report) line(name, class string, value func(*Second) float64) line {
	l := line{Name: name, Class: class}
	for i := range r.Seconds {
		if v := value(&r.Seconds[i]); v >= 0 {
			l.X, l.Y = append(l.X, r.Seconds[i].S), append(l.Y, v)
		}
	}
	return l
}

func (l *line) top() (most float64) {
	for _, v := range l.Y {
		most = max(most, v)
	}
	return most
}

func (r *Report) members() *chart {
	c := r.timed("Who is there, and what they are told", "The area is the members who see the room; the line is the number that they are shown.")
	inside := r.line("members in", "a", func(s *Second) float64 { return float64(s.Inside) })
	inside.Area = true
	told := r.line("count shown", "b", func(s *Second) float64 { return float64(s.CountHigh) })
	c.Lines = []line{inside, told}
	c.scale(max(inside.top(), told.top()), "")
	return c
}

func (r *Report) traffic() *chart {
	c := r.timed("Messages to each member, a second", "A peak at the end is the first thing that each is shown on coming back.")
	l := r.line("messages", "a", func(s *Second) float64 { return s.PerMember })
	l.Area = true
	c.Lines = []line{l}
	c.scale(max(l.top(), 2), "")
	c.over(1, "one a second")
	return c
}

func (r *Report) bySize() *chart {
	c := &chart{
		Title: "Traffic by the size of the room",
		Note:  fmt.Sprintf("Messages a second to each member while the room fills. Above %d members a room tells one number a second, however many arrive.", r.threshold),
	}
	c.xLog, c.xMax = true, float64(max(r.size, 20))*1.05
	l := line{Name: "messages", Class: "a", Area: true}
	for _, s := range r.Sizes {
		l.X, l.Y = append(l.X, float64(s.Members)), append(l.Y, s.PerMember)
	}
	c.Lines = []line{l}
	c.scale(max(l.top(), 2), "")
	for v := 10; float64(v) <= c.xMax; v *= 10 {
		c.XTicks = append(c.XTicks, tick{100 * c.x(float64(v)), grouped(v)})
	}
	c.Marks = []tick{{100 * c.x(float64(r.threshold)), fmt.Sprintf("%d members", r.threshold)}}
	return c
}

// costs is a chart of what the nodes use and, if there is one, the store.
func (r *Report) costs(title, note, unit string, ofNodes, ofStore func(*Second) float64) *chart {
	c := r.timed(title, note)
	nodes := r.line("nodes", "a", ofNodes)
	nodes.Area = true
	c.Lines = []line{nodes}
	top := nodes.top()
	if r.Nodes > 1 {
		store := r.line("store", "b", ofStore)
		c.Lines = append(c.Lines, store)
		top = max(top, store.top())
	}
	c.scale(top, unit)
	return c
}

func (r *Report) cpu() *chart {
	return r.costs("CPU, in ms of each second", "Time on a core, of all nodes together; the load is not in it.", " ms",
		func(s *Second) float64 { return s.NodesCPUMs }, func(s *Second) float64 { return s.StoreCPUMs })
}

func (r *Report) memory() *chart {
	return r.costs("Memory, in MiB", "Resident memory of all nodes together.", " MiB",
		func(s *Second) float64 { return s.ResidentMiB }, func(s *Second) float64 { return s.StoreMiB })
}
