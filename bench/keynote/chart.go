package keynote

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// chart is a picture of lines. It is drawn as an SVG that stretches with the
// page, and labels beside it that do not, so that it can be read on a telephone.
type chart struct {
	Title, Note string
	Lines       []line
	Bands       []band
	XTicks      []tick
	YTicks      []tick
	Goal        *tick // a line across
	Marks       []tick

	xMax, yMax float64
	xLog       bool
}

type line struct {
	Name, Class string // Class is "a" or "b"
	Area        bool   // filled down to the axis
	X, Y        []float64
}

// band is a phase, behind the lines; From and Width in percent.
type band struct {
	Name        string
	From, Width float64
	Odd         bool
}

// tick is a label at a percentage of an axis, from its origin.
type tick struct {
	At   float64
	Text string
}

// chartWidth and chartHeight are of the coordinates inside of the SVG.
const chartWidth, chartHeight = 1000, 300

func (c *chart) x(v float64) float64 {
	if c.xLog {
		return math.Log10(max(v, 10)/10) / math.Log10(c.xMax/10) // from 10 on
	}
	return v / c.xMax
}

// scale finds the end of the vertical axis and its labels: 1, 2 or 5 times a
// power of ten apart.
func (c *chart) scale(top float64, unit string) {
	top = max(top*1.04, 1e-9)
	step := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, by := range []float64{1, 2, 5, 10} {
		if top/(step*by) <= 4.5 {
			step *= by
			break
		}
	}
	c.yMax = math.Ceil(top/step) * step
	for v := 0.0; v <= c.yMax+step/2; v += step {
		text := grouped(int(v + 0.5))
		if step < 1 {
			text = fmt.Sprintf("%.1f", v)
		}
		if v+step > c.yMax+step/2 {
			text += unit
		}
		c.YTicks = append(c.YTicks, tick{100 * v / c.yMax, text})
	}
}

// times labels a horizontal axis of seconds.
func (c *chart) times(end float64) {
	c.xMax = end
	step := 5.0
	for _, s := range []float64{5, 10, 15, 30, 60, 120, 300, 600} {
		if step = s; end/s <= 6 {
			break
		}
	}
	for v := 0.0; v < end; v += step {
		c.XTicks = append(c.XTicks, tick{100 * v / end, fmt.Sprintf("%.0f s", v)})
	}
}

// SVG is the drawing.
func (c *chart) SVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true">`, chartWidth, chartHeight)
	for _, s := range c.Bands {
		if s.Odd {
			fmt.Fprintf(&b, `<rect class="band" x="%.1f" y="0" width="%.1f" height="%d"/>`, s.From*chartWidth/100, s.Width*chartWidth/100, chartHeight)
		}
	}
	for _, t := range c.YTicks {
		y := chartHeight - t.At*chartHeight/100
		fmt.Fprintf(&b, `<path class="grid" d="M0 %.1fH%d"/>`, y, chartWidth)
	}
	for _, l := range c.Lines {
		path := c.path(&l)
		if l.Area && path != "" {
			fmt.Fprintf(&b, `<path class="area %s" d="%sL%.1f %dL%.1f %dZ"/>`, l.Class, path,
				c.x(l.X[len(l.X)-1])*chartWidth, chartHeight, c.x(l.X[0])*chartWidth, chartHeight)
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, l.Class, path)
	}
	if c.Goal != nil {
		y := chartHeight - c.Goal.At*chartHeight/100
		fmt.Fprintf(&b, `<path class="goal" d="M0 %.1fH%d"/>`, y, chartWidth)
	}
	for _, m := range c.Marks {
		fmt.Fprintf(&b, `<path class="mark" d="M%.1f 0V%d"/>`, m.At*chartWidth/100, chartHeight)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // numbers and our own words only
}

func (c *chart) path(l *line) string {
	var b strings.Builder
	for i := range l.X {
		verb := 'L'
		if i == 0 {
			verb = 'M'
		}
		y := min(max(l.Y[i]/c.yMax, 0), 1)
		fmt.Fprintf(&b, "%c%.1f %.1f", verb, c.x(l.X[i])*chartWidth, chartHeight-y*chartHeight)
	}
	return b.String()
}

// over sets a goal at a value.
func (c *chart) over(value float64, text string) {
	if value <= c.yMax {
		c.Goal = &tick{100 * value / c.yMax, text}
	}
}
