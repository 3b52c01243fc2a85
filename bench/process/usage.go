package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a program has used.
type Usage struct {
	CPU      time.Duration // since its start
	Waited   time.Duration // of its threads that live, for a core: what the machine's other work took
	Resident int           // bytes, now
	Peak     int           // bytes of Resident at most, since its start
}

// clockTick is the unit of CPU time in /proc: 100 a second on every Linux that Go
// runs on.
const clockTick = 10 * time.Millisecond

// Usage reads what the program has used from /proc: zero where there is none, and
// after its end.
func (p *Process) Usage() (u Usage) {
	dir := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	stat, _ := os.ReadFile(dir + "/stat")
	// The name, in parentheses, may have spaces; user and system time are the
	// 12th and 13th field behind it.
	if i := strings.LastIndexByte(string(stat), ')'); i > 0 {
		if f := strings.Fields(string(stat[i+1:])); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			u.CPU = time.Duration(user+system) * clockTick
		}
	}
	status, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		var kib int
		switch name {
		case "VmRSS":
			fmt.Sscan(value, &kib)
			u.Resident = kib << 10
		case "VmHWM":
			fmt.Sscan(value, &kib)
			u.Peak = kib << 10
		}
	}
	tasks, _ := filepath.Glob(dir + "/task/*/schedstat")
	for _, file := range tasks {
		var ran, waited int64 // ns
		text, _ := os.ReadFile(file)
		fmt.Sscan(string(text), &ran, &waited)
		u.Waited += time.Duration(waited)
	}
	return u
}
