//go:build !linux

package harness

import "syscall"

func narrow(_, _ string, _ syscall.RawConn) error { return nil }
