package transport

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// The close codes that a Violation carries.
const (
	codeProtocol = 1002 // the frames are wrong
	codeBinary   = 1003 // a binary message: the protocol has only text
	codeUTF8     = 1007 // text that is not UTF-8
	codeTooBig   = 1009 // larger than MaxMessage
)

// codeNone stands for a close frame without a code. It is never on the wire.
const codeNone = 1005

// keepMessage is the largest buffer for a message in pieces that is used again.
const keepMessage = 4096

// parser reads frames from bytes as they come, cut anywhere, and calls a
// handler. It takes every byte it is given and keeps only what is unfinished, so
// that the caller's buffer is free after each feed.
//
// A parser that is clean (between two messages) holds nothing of its connection;
// idle connections have none.
type parser struct {
	max   int            // bytes of a message
	state *atomic.Uint32 // of the connection: no more calls of the handler once it is closed

	head    [ws.MaxHeaderSize]byte // of a frame, unfinished
	headLen int

	h       ws.Header // of the frame whose payload comes now
	payload bool      // whether one does
	pos     int       // bytes of it that came

	fragmented bool   // a message has begun whose last fragment has not
	msg        []byte // of the message, in pieces, unmasked
	control    []byte // of the control frame, in pieces, unmasked
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// newParser returns a clean parser; free takes it back.
func newParser(max int, state *atomic.Uint32) *parser {
	p := parsers.Get().(*parser)
	p.max, p.state = max, state
	return p
}

func (p *parser) free() {
	p.state = nil
	parsers.Put(p)
}

// clean reports whether the parser is between two messages and two frames.
func (p *parser) clean() bool { return p.headLen == 0 && !p.payload && !p.fragmented }

// feed parses b, which it changes, and calls h. The End is zero as long as the
// stream goes on; after another one the parser is spent.
func (p *parser) feed(b []byte, h WebSocketHandler) End {
	for len(b) > 0 {
		if !p.payload {
			n, whole, end := p.header(b)
			if end.Kind != 0 {
				return end
			}
			if !whole {
				return End{}
			}
			b = b[n:]
		}
		n := min(p.h.Length-int64(p.pos), int64(len(b)))
		end := p.take(b[:n], h)
		if end.Kind != 0 || p.state.Load()&(stateClosed|stateClosing) != 0 {
			return end
		}
		b = b[n:]
	}
	return End{}
}

// header takes the header of the next frame from b, or as much of it as there
// is. n is the number of bytes of b that it took.
func (p *parser) header(b []byte) (n int, whole bool, end End) {
	head := b
	if p.headLen > 0 {
		n = copy(p.head[p.headLen:], b)
		head = p.head[:p.headLen+n]
	}
	size := headerSize(head)
	if size > len(head) {
		if p.headLen == 0 {
			n = copy(p.head[:], b)
		}
		p.headLen += n
		return n, false, End{}
	}
	n = size - p.headLen
	p.headLen = 0
	p.h = decodeHeader(head[:size])
	p.payload, p.pos = true, 0
	return n, true, p.check()
}

// headerSize is the length of the header that begins with b: at least 2.
func headerSize(b []byte) int {
	if len(b) < 2 {
		return 2
	}
	size := 2
	switch b[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if b[1]&0x80 != 0 {
		size += 4
	}
	return size
}

// decodeHeader reads a whole header. A length that could have been written
// shorter is taken as it is: the RFC forbids it to the sender, and refusing it
// would protect nobody.
func decodeHeader(b []byte) ws.Header {
	h := ws.Header{
		Fin:    b[0]&0x80 != 0,
		Rsv:    b[0] >> 4 & 7,
		OpCode: ws.OpCode(b[0] & 0x0f),
		Masked: b[1]&0x80 != 0,
		Length: int64(b[1] & 0x7f),
	}
	b = b[2:]
	switch h.Length {
	case 126:
		h.Length = int64(binary.BigEndian.Uint16(b))
		b = b[2:]
	case 127:
		h.Length = int64(binary.BigEndian.Uint64(b)) // negative if the high bit is set
		b = b[8:]
	}
	if h.Masked {
		copy(h.Mask[:], b)
	}
	return h
}

// check refuses a frame by its header, before a byte of its payload is kept.
func (p *parser) check() End {
	if p.h.Length < 0 {
		return violation(codeProtocol, "frame length has its high bit set")
	}
	state := ws.StateServerSide
	if p.fragmented {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(p.h, state); err != nil {
		return violation(codeProtocol, err.Error())
	}
	if p.h.OpCode.IsControl() {
		return End{}
	}
	if p.h.OpCode == ws.OpBinary {
		return violation(codeBinary, "binary message: only text is spoken here")
	}
	if p.h.Length > int64(p.max-len(p.msg)) {
		return violation(codeTooBig, "message too big")
	}
	return End{}
}

// take takes the next piece of the payload, all of it if b is long enough.
func (p *parser) take(b []byte, h WebSocketHandler) End {
	ws.Cipher(b, p.h.Mask, p.pos)
	first := p.pos == 0
	p.pos += len(b)
	last := int64(p.pos) == p.h.Length
	p.payload = !last

	if p.h.OpCode.IsControl() {
		if !first || !last {
			p.control = append(p.control, b...)
			b = p.control
		}
		if !last {
			return End{}
		}
		p.control = p.control[:0]
		return takeControl(p.h.OpCode, b, h)
	}

	whole := last && p.h.Fin
	if !whole || !first || p.fragmented {
		if first && len(b) > 0 {
			// The length that the client claims is trusted for no more than
			// a small allocation.
			p.msg = slices.Grow(p.msg, int(min(p.h.Length, keepMessage)))
		}
		p.msg = append(p.msg, b...)
		b = p.msg
	}
	p.fragmented = !p.h.Fin || p.fragmented && !last
	if !whole {
		return End{}
	}
	if cap(p.msg) > keepMessage {
		p.msg = nil
	}
	p.msg = p.msg[:0]
	if !utf8.Valid(b) {
		return violation(codeUTF8, "text is not UTF-8")
	}
	h.Message(b)
	return End{}
}

func takeControl(op ws.OpCode, b []byte, h WebSocketHandler) End {
	switch op {
	case ws.OpPing:
		h.Ping(b)
		return End{}
	case ws.OpPong:
		h.Pong(b)
		return End{}
	}
	switch {
	case len(b) == 0:
		return End{Kind: Closed, Code: codeNone}
	case len(b) == 1:
		return violation(codeProtocol, "close frame of one byte")
	}
	code := int(binary.BigEndian.Uint16(b))
	switch {
	case !validCloseCode(code):
		return violation(codeProtocol, "close code is not valid")
	case !utf8.Valid(b[2:]):
		return violation(codeUTF8, "close reason is not UTF-8")
	}
	return End{Kind: Closed, Code: code, Reason: string(b[2:])}
}

// validCloseCode reports whether a close frame may carry the code: those of RFC
// 6455 and of the registry made by it (1012 to 1014), without those that only
// stand for the lack of one; libraries' (3xxx) and applications' (4xxx).
func validCloseCode(code int) bool {
	switch {
	case code >= 3000:
		return code < 5000
	case code == 1004, code == 1005, code == 1006:
		return false
	}
	return code >= 1000 && code <= 1014
}

func violation(code int, reason string) End {
	return End{Kind: Violation, Code: code, Reason: reason}
}
