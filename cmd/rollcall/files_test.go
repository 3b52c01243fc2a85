//go:build unix

package main

import (
	"syscall"
	"testing"
)

func TestOpenFilesAreRaisedToTheHardLimit(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The runtime may stay one below it.
	if soft := openFiles(); soft < uint64(limit.Max)-1 {
		t.Errorf("the soft limit is %d, and the hard one %d", soft, limit.Max)
	}
}
