package transport

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes the kernel may hold for a client beyond what is on
// the wire.
//
// The send buffer of a socket grows to megabytes by itself. For presence that is
// a queue of old news in front of the newest state, and memory that a client who
// does not read costs. With this limit a TryWrite is refused early, and what is
// written when the client takes more again is what is true then.
const unsent = 16 << 10

func limitUnsent(conn *net.TCPConn) {
	raw := rawConn(conn)
	if raw == nil {
		return
	}
	raw.Control(func(fd uintptr) {
		// An old kernel refuses; then the send buffer is the only bound.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	})
}

// unacknowledged is how many bytes the kernel has taken that the other end has
// not acknowledged; ok is false if it does not say.
func unacknowledged(raw syscall.RawConn) (n int, ok bool) {
	err := raw.Control(func(fd uintptr) {
		var err error
		n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		ok = err == nil
	})
	return n, ok && err == nil
}

// reportFrom has the kernel report what has come only when it is so many bytes, or
// the end; false if it does not.
func reportFrom(raw syscall.RawConn, bytes int) (ok bool) {
	err := raw.Control(func(fd uintptr) {
		ok = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes) == nil
	})
	return ok && err == nil
}
