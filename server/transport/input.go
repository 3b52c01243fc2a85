package transport

import (
	"net"
	"sync"
)

// buffer is what bytes are read into while there are any.
type buffer [4096]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// waitBuffer is what a connection without a descriptor (TLS) holds while it
// waits: it cannot know that there is something to read without reading it.
// Small beside what TLS itself keeps.
const waitBuffer = 512

// input is where the one reader of a stream gets its bytes from: one of the two.
type input struct {
	raw  *rawReader
	conn net.Conn
	buf  []byte
}

func (s *socket) input() input {
	if s.raw != nil {
		return input{raw: newRawReader(s.raw)}
	}
	return input{conn: s.conn, buf: make([]byte, waitBuffer)}
}

// read waits for bytes; they are good until the next call and may be changed.
func (in *input) read() ([]byte, error) {
	if in.raw != nil {
		return in.raw.read()
	}
	n, err := in.conn.Read(in.buf)
	if n > 0 {
		return in.buf[:n], nil // an error comes again with the next call
	}
	return nil, err
}

// release gives the buffer back; the reader is done.
func (in *input) release() {
	if in.raw != nil {
		in.raw.release()
	}
}
