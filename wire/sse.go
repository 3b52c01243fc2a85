package wire

import (
	"bytes"
	"time"
)

// AppendSSE appends one server-sent event:
//
//	event: x
//	data: {...}
//
// and an empty line. body is one JSON object; nothing means {}. A line end in it
// can only be white space between tokens, since strings escape theirs, so it is
// written as a space: no body can start a field of its own.
func AppendSSE(b []byte, event Event, body []byte) []byte {
	b = append(b, "event: "...)
	b = append(b, event...)
	b = append(b, "\ndata: "...)
	if len(body) == 0 {
		return append(b, "{}\n\n"...)
	}
	start := len(b)
	b = append(b, body...)
	blank(b[start:], '\n')
	blank(b[start:], '\r')
	return append(b, "\n\n"...)
}

// blank replaces every c by a space.
func blank(b []byte, c byte) {
	for {
		i := bytes.IndexByte(b, c)
		if i < 0 {
			return
		}
		b[i] = ' '
		b = b[i+1:]
	}
}

// AppendSSEID appends the line `id: ...` alone with its empty line: it sets the
// Last-Event-ID of an EventSource without an event. Only printable ASCII is
// written, since a browser sends the id back in a header.
func AppendSSEID(b []byte, id string) []byte {
	b = append(b, "id: "...)
	for i := 0; i < len(id); i++ {
		if id[i] >= 0x20 && id[i] < 0x7f {
			b = append(b, id[i])
		}
	}
	return append(b, "\n\n"...)
}

// AppendRetry appends `retry: n`, the time after which an EventSource reconnects,
// with its empty line.
func AppendRetry(b []byte, after time.Duration) []byte {
	b = append(b, "retry: "...)
	b = appendMillis(b, after)
	return append(b, "\n\n"...)
}

// AppendComment appends `: hb` with its empty line, which every reader ignores.
func AppendComment(b []byte) []byte { return append(b, ": hb\n\n"...) }
