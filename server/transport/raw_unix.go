//go:build unix

package transport

import (
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawConn is the file descriptor below conn, nil if there is none. Only the very
// types of package net are asked: a wrapper that happens to expose the
// descriptor of what it wraps (to count bytes, to rewrite them) would be
// bypassed.
func rawConn(conn net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil
	}
	return raw
}

// writeOp is one TryWrite. Pooled with its callback, since a closure made for
// each call would be garbage for each stream on each tick.
type writeOp struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

var writeOps = sync.Pool{New: func() any {
	o := new(writeOp)
	o.try = o.write
	return o
}}

func (o *writeOp) write(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), o.p)
		switch err {
		case nil:
			o.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			o.err = err
		}
		return true // never wait, whatever came out
	}
}

func tryWrite(raw syscall.RawConn, p []byte) (int, error) {
	o := writeOps.Get().(*writeOp)
	o.p = p
	err := raw.Write(o.try)
	if err == nil {
		err = o.err
	}
	n := o.n
	o.p, o.n, o.err = nil, 0, nil
	writeOps.Put(o)
	return n, err
}

// rawReader reads from a descriptor without holding a buffer while it waits.
type rawReader struct {
	raw  syscall.RawConn
	buf  *buffer // nil while waiting
	n    int
	err  error
	try  func(fd uintptr) bool
	once bool // it does not wait
}

func newRawReader(raw syscall.RawConn) *rawReader {
	r := &rawReader{raw: raw}
	r.try = r.readNow
	return r
}

func (r *rawReader) readNow(fd uintptr) bool {
	if r.buf == nil {
		r.buf = buffers.Get().(*buffer)
	}
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf[:])
		switch r.err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			r.release()
			return r.once
		}
		return true
	}
}

// read waits for bytes; they are good until the next call. A full stop is io.EOF.
//
// A short read does not spare the read that finds nothing: if the end of the
// connection came along with the last bytes, the poller will not report it again.
func (r *rawReader) read() ([]byte, error) {
	if err := r.raw.Read(r.try); err != nil {
		r.release()
		return nil, err
	}
	if r.once && r.err == syscall.EAGAIN {
		return nil, nil
	}
	if r.err != nil {
		r.release()
		return nil, r.err
	}
	if r.n == 0 {
		r.release()
		return nil, io.EOF
	}
	return r.buf[:r.n], nil
}

// poll is read without waiting: nothing if there is nothing.
func (r *rawReader) poll() ([]byte, error) {
	r.once = true
	p, err := r.read()
	r.once = false
	return p, err
}

// full reports whether there may be more than was read last.
func (r *rawReader) full() bool { return r.n == len(buffer{}) }

func (r *rawReader) release() {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf = nil
	}
}

// writable reports whether a small write would not wait.
func writable(conn net.Conn) bool {
	raw := rawConn(conn)
	if raw == nil {
		return true
	}
	ok := true
	raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		ok = err != nil || n == 1
	})
	return ok
}
