package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/bench/markdown"
)

// Result is what a run found: a table of numbers beside their goals.
type Result struct {
	title         string
	rows          [][3]string // what, measured, goal
	notes         []string
	before, after time.Duration // calibrations
}

func (r *Result) add(what, goal, format string, args ...any) {
	r.rows = append(r.rows, [3]string{what, fmt.Sprintf(format, args...), goal})
}

// number is one row of a run.
type number struct {
	what, goal, format string
	value              float64
}

// addMedians adds the rows of several runs that measured the same.
func (r *Result) addMedians(prefix string, runs [][]number) {
	for i, row := range runs[0] {
		values := make([]float64, len(runs))
		for j, run := range runs {
			values[j] = run[i].value
		}
		slices.Sort(values)
		r.add(prefix+row.what, row.goal, row.format, values[len(values)/2])
	}
}

func (r *Result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Text is the result in markdown, with the command that it is of.
func (r *Result) Text(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n`%s`\n\n", r.title, command)
	rows := [][]string{{"", "measured", "goal"}}
	for _, row := range r.rows {
		rows = append(rows, row[:])
	}
	markdown.Table(&b, rows)
	fmt.Fprintf(&b, "\nCalibration %.0f ms before, %.0f after.", millis(r.before), millis(r.after))
	if max(r.before, r.after) > min(r.before, r.after)*12/10 {
		b.WriteString(" **The machine was not steady: run again.**")
	}
	for _, n := range r.notes {
		b.WriteString(" " + n)
	}
	b.WriteString("\n")
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func kib(bytes, each int) float64    { return float64(bytes) / 1024 / float64(each) }
