//go:build faults && linux && amd64

package cluster

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// wall is the wall clock of a process, which can be set at any time. Programs
// that link no C library cannot be told another time by one that is loaded before
// it. But everybody asks the kernel's vDSO: while the process has yet to take its
// first step, the functions there are replaced by ones that add an offset. The
// monotonic clock stays what it is.
type wall struct {
	mu     sync.Mutex
	offset time.Duration // Guarded by mu. What it is set to, also of a process to come.
	mem    *os.File      // Guarded by mu. Memory of the process; nil before it starts.
	at     []int64       // Guarded by mu. Where the offsets are.
}

// set sets the clock to the true time and d.
func (w *wall) set(d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset = d
	for _, at := range w.at {
		if _, err := w.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(d/time.Second))), at); err != nil {
			return fmt.Errorf("set the clock: %w", err)
		}
	}
	return nil
}

// launch starts a process under the clock.
func (w *wall) launch(cmd *exec.Cmd) error {
	runtime.LockOSThread() // that traces
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("process %d did not stop: %v", pid, err)
	}
	err := w.patch(pid)
	if detach := syscall.PtraceDetach(pid); err == nil {
		err = detach
	}
	if err != nil {
		cmd.Process.Kill()
		return err
	}
	return w.set(w.offset)
}

// patch replaces the functions of the vDSO that tell the wall clock.
func (w *wall) patch(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			fmt.Sscanf(line, "%x-%x", &from, &to)
		}
	}
	if from == 0 {
		return fmt.Errorf("process %d has no vDSO", pid)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mem, w.at = mem, nil
	for _, s := range symbols {
		code, load := shifted[s.Name], 0
		if code == nil {
			continue
		}
		// The offset follows the code, and is loaded relative to the end of
		// the load, which ends with four bytes to fill in.
		begin := from + int64(s.Value)
		offset := (begin + int64(len(code)) + 7) &^ 7
		load = bytes.Index(code, []byte{0x48, 0x8b, 0x0d}) + 7
		code = bytes.Clone(code)
		binary.LittleEndian.PutUint32(code[load-4:], uint32(offset-begin-int64(load)))
		if _, err := mem.WriteAt(code, begin); err != nil {
			return err
		}
		w.at = append(w.at, offset)
	}
	if len(w.at) != len(shifted) {
		return fmt.Errorf("the vDSO has %d of %d functions", len(w.at), len(shifted))
	}
	return nil
}

// shifted are functions that ask the kernel and add an offset to the seconds.
var shifted = map[string][]byte{
	"__vdso_clock_gettime": {
		0xb8, 228, 0, 0, 0, // mov eax, clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME
		0x75, 0x0a, // jne to ret
		0x48, 0x8b, 0x0d, 0, 0, 0, 0, // mov rcx, [offset]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	},
	"__vdso_gettimeofday": {
		0xb8, 96, 0, 0, 0, // mov eax, gettimeofday
		0x0f, 0x05, // syscall
		0x48, 0x8b, 0x0d, 0, 0, 0, 0, // mov rcx, [offset]
		0x48, 0x01, 0x0f, // add [rdi], rcx
		0xc3, // ret
	},
}
