package departures

import "syscall"

// diesWithUs has the kernel end a child when the test ends, however that does.
func diesWithUs(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
