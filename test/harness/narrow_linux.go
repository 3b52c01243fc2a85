package harness

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// narrow makes a socket take as little as possible ahead of its reader, so that
// what a slow link has not carried waits at the sender, as it does on a wire.
func narrow(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, 512)
	})
}
