//go:build unix && !linux

package departures

import "syscall"

// diesWithUs is nothing here: children are ended by the test alone.
func diesWithUs(syscall.Signal) *syscall.SysProcAttr { return nil }
