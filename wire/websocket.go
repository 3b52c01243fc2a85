package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// First bytes of frames that are whole: FIN and the opcode.
const (
	frameText  = 0x81
	frameClose = 0x88
	framePing  = 0x89
	framePong  = 0x8a
)

// maxControl is the largest payload of a control frame (RFC 6455, 5.5).
const maxControl = 125

// AppendWS appends one whole text frame, as a server sends it (unmasked), that
// holds the body with its type first: {"type":"x",...}. body is one JSON object;
// nothing means {}.
func AppendWS(b []byte, event Event, body []byte) []byte {
	const open, next = `{"type":"`, `",`
	bare := len(body) <= 2 // {} or nothing
	n := len(open) + len(event) + len(`"}`)
	if !bare {
		n = len(open) + len(event) + len(next) + len(body) - 1
	}
	b = appendFrameHeader(b, frameText, n)
	b = append(b, open...)
	b = append(b, event...)
	if bare {
		return append(b, `"}`...)
	}
	b = append(b, next...)
	return append(b, body[1:]...)
}

// AppendWSPing appends a ping. What is over 125 bytes of payload is cut.
func AppendWSPing(b, payload []byte) []byte { return appendControl(b, framePing, payload) }

// AppendWSPong appends a pong. What is over 125 bytes of payload is cut.
func AppendWSPong(b, payload []byte) []byte { return appendControl(b, framePong, payload) }

// AppendWSClose appends a close frame. The reason is cut to the 123 bytes that a
// frame can hold, at the end of a character; one that is not UTF-8 is left out.
func AppendWSClose(b []byte, code CloseCode, reason string) []byte {
	const most = maxControl - 2
	if len(reason) > most {
		end := most
		for end > 0 && !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = reason[:end]
	}
	if !utf8.ValidString(reason) {
		reason = ""
	}
	b = append(b, frameClose, byte(2+len(reason)))
	b = binary.BigEndian.AppendUint16(b, uint16(code))
	return append(b, reason...)
}

func appendControl(b []byte, first byte, payload []byte) []byte {
	payload = payload[:min(len(payload), maxControl)]
	b = append(b, first, byte(len(payload)))
	return append(b, payload...)
}

func appendFrameHeader(b []byte, first byte, n int) []byte {
	switch {
	case n <= 125:
		return append(b, first, byte(n))
	case n <= 0xffff:
		return append(b, first, 126, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
}
