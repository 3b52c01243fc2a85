package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// reference reads a whole input the plain way: frame by frame, each from one
// slice, the headers by the library.
func reference(in []byte, limit int) (events []string, end End) {
	var message []byte
	inside := false
	r := bytes.NewReader(in)
	for {
		h, err := ws.ReadHeader(r)
		if err == ws.ErrHeaderLengthMSB {
			return events, broken(1002)
		}
		if err != nil {
			return events, End{}
		}
		control := h.OpCode&8 != 0
		switch {
		case h.Rsv != 0, !h.Masked,
			control && (h.OpCode > 0xa || !h.Fin || h.Length > 125),
			!control && (h.OpCode > 2 || (h.OpCode == 0) != inside):
			return events, broken(1002)
		case h.OpCode == 2:
			return events, broken(1003)
		case !control && h.Length+int64(len(message)) > int64(limit):
			return events, broken(1009)
		}
		p := make([]byte, h.Length)
		if _, err := io.ReadFull(r, p); err != nil {
			return events, End{}
		}
		for i := range p {
			p[i] ^= h.Mask[i%4]
		}
		switch h.OpCode {
		case 9:
			events = append(events, "ping "+string(p))
		case 10:
			events = append(events, "pong "+string(p))
		case 8:
			if len(p) == 0 {
				return events, bye(1005)
			}
			if len(p) == 1 {
				return events, broken(1002)
			}
			code := int(binary.BigEndian.Uint16(p))
			known := "1000 1001 1002 1003 1007 1008 1009 1010 1011 1012 1013 1014"
			if !(code >= 3000 && code <= 4999) && !strings.Contains(known, string([]byte{
				'0' + byte(code/1000%10), '0' + byte(code/100%10), '0' + byte(code/10%10), '0' + byte(code%10)})) || code > 4999 {
				return events, broken(1002)
			}
			if !utf8.Valid(p[2:]) {
				return events, broken(1007)
			}
			return events, End{Closed, code, string(p[2:]), nil}
		default:
			message = append(message, p...)
			inside = !h.Fin
			if h.Fin {
				if !utf8.Valid(message) {
					return events, broken(1007)
				}
				events = append(events, "message "+string(message))
				message = nil
			}
		}
	}
}

// FuzzFrames feeds the reader with bytes cut anywhere, and compares it with the
// reference.
func FuzzFrames(f *testing.F) {
	for _, c := range conformanceTable() {
		if len(c.sent) < 1000 {
			f.Add([]byte(c.sent), uint64(0))
			f.Add([]byte(c.sent), uint64(0x0102030405060708))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, cuts uint64) {
		wantEvents, wantEnd := reference(in, testMax)
		var pieces []string
		rest := string(in)
		for ; cuts != 0 && len(rest) > 0; cuts >>= 8 {
			n := min(int(cuts&0xff), len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		events, end := run(append(pieces, rest)...)
		if d := cmp.Diff(wantEvents, events, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("events (-want +got)\n%s", d)
		}
		if d := cmp.Diff(wantEnd, end, ignoreOurReason); d != "" {
			t.Errorf("end (-want +got)\n%s", d)
		}
	})
}
