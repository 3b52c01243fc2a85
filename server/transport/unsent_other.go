//go:build !linux

package transport

import "net"

// Elsewhere the send buffer of the system is the only bound.
func limitUnsent(*net.TCPConn) {}
