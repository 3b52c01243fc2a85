package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

// result is what a run found: a table of numbers beside their goals.
type result struct {
	title         string
	rows          [][3]string // what, measured, goal
	notes         []string
	before, after time.Duration // calibrations
}

func (r *result) add(what, goal, format string, args ...any) {
	r.rows = append(r.rows, [3]string{what, fmt.Sprintf(format, args...), goal})
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// table is the result in markdown.
func (r *result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n`bench %s`\n\n", r.title, strings.Join(shown(os.Args[1:]), " "))
	rows := append([][3]string{{"", "measured", "goal"}}, r.rows...)
	var widths [3]int
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
		if n == 0 {
			fmt.Fprintf(&b, "|%s|%s|%s|\n", strings.Repeat("-", widths[0]+2),
				strings.Repeat("-", widths[1]+1)+":", strings.Repeat("-", widths[2]+1)+":")
		}
	}
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

// shown leaves out the flags that say where results go.
func shown(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		if name := strings.TrimLeft(args[i], "-"); args[i] != name && (name == "out" || name == "profiles") {
			i++
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}

// append writes the result to the end of a file, which begins with the machine.
func (r *result) append(file string) error {
	_, err := os.Stat(file)
	f, openErr := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if openErr != nil {
		return openErr
	}
	defer f.Close()
	if os.IsNotExist(err) {
		fmt.Fprintf(f, "# %s\n\n%s\n", time.Now().UTC().Format(time.DateOnly), machine())
	}
	_, err = f.WriteString(r.table())
	return err
}

// machine names what the numbers depend on.
func machine() string {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok { // of the build: the tree may have moved on
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value[:min(len(s.Value), 7)]
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " with changes"
			}
		}
	}
	return fmt.Sprintf("Commit %s. %d cores, %s, %s/%s, %s.", commit, runtime.NumCPU(),
		kernel(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func kib(bytes, each int) float64    { return float64(bytes) / 1024 / float64(each) }

// kernel is the name and the version of the kernel, without what its builder added.
func kernel() string {
	out, _ := exec.Command("uname", "-sr").Output()
	name, _, _ := strings.Cut(strings.TrimSpace(string(out)), "-")
	return name
}
