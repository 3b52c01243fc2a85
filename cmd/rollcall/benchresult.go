package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// progress tells how far a bench is, on a terminal in one line that is drawn
// over; "" ends it.
func (c *console) progress(terminal bool) func(string) {
	drawn := false
	return func(line string) {
		switch {
		case !terminal && line != "":
			c.say("%s", line)
		case terminal && line != "":
			fmt.Fprintf(c.err, "\r\033[K%s", line)
			drawn = true
		case drawn:
			fmt.Fprintln(c.err)
			drawn = false
		}
	}
}

// appendResult writes a result to the end of a file, which begins with the
// machine.
func appendResult(file, text string) error {
	_, err := os.Stat(file)
	f, openErr := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if openErr != nil {
		return openErr
	}
	defer f.Close()
	if os.IsNotExist(err) {
		fmt.Fprintf(f, "# %s\n\n%s\n", time.Now().UTC().Format(time.DateOnly), machine())
	}
	_, err = f.WriteString(text)
	return err
}

// machine names what the numbers of a bench depend on.
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
	// The kernel without what its builder added.
	out, _ := exec.Command("uname", "-sr").Output()
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(out)), "-")
	return fmt.Sprintf("Commit %s. %d cores, %s, %s/%s, %s.", commit, runtime.NumCPU(), kernel, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// benchArgs leaves out the flags that say where results go.
func benchArgs(args []string) (kept []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case args[i] == name && !joined:
		case name == "out" || name == "profiles" || name == "html" || name == "json":
			if !joined {
				i++
			}
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}
