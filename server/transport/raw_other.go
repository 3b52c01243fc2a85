//go:build !unix

package transport

import (
	"net"
	"syscall"
)

// Without descriptors that can be tried, every stream is read and written by
// waiting, as those under TLS are.
func rawConn(net.Conn) syscall.RawConn { return nil }

func tryWrite(syscall.RawConn, []byte) (int, error) { return 0, nil }

func writable(net.Conn) bool { return true }

type rawReader struct{}

func newRawReader(syscall.RawConn) *rawReader { return nil }

func (*rawReader) read() ([]byte, error) { panic("transport: no raw connection to read from") }

func (r *rawReader) poll() ([]byte, error) { return r.read() }

func (*rawReader) full() bool { return false }

func (*rawReader) release() {}
