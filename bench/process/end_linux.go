package process

import (
	"os/exec"
	"syscall"
)

// endWithParent has a program killed when the bench ends without doing so, and
// keeps a Ctrl-C from it: that is for the bench, which ends it in its own time.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
