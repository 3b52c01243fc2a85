//go:build !linux

package transport

import (
	"net"
	"syscall"
)

// Elsewhere the send buffer of the system is the only bound.
func limitUnsent(*net.TCPConn) {}

func unacknowledged(syscall.RawConn) (int, bool) { return 0, false }

func reportFrom(syscall.RawConn, int) bool { return false }
