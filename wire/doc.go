// Package wire is the protocol's JSON, and the only place that knows it: what a
// server writes, what it reads from clients, and the other direction of both for
// the Go client. The text of the protocol is spec/PROTOCOL.md; the vectors next
// to it are run by this package and by the JavaScript client.
//
// Writing: the Append functions append to a slice that the caller owns and
// allocate nothing beyond it. A body (AppendDiff, AppendReady, ...) is one JSON
// object on one line without its type; a frame ([AppendSSE], [AppendWS]) holds a
// body, and the same body serves both transports, so a room's change is encoded
// once for all its viewers. Strings are escaped so that no id and no value can
// end a line, and a byte that is not UTF-8 is never written.
//
// Reading: everything from outside goes through one strict scanner. It accepts
// less than encoding/json: no lone surrogates, no duplicate keys, no number that
// a float64 cannot hold, no more than [rollcall.MaxDepth] levels. Names of fields
// match exactly. Unknown fields are ignored; a known field of a wrong type is a
// [rollcall.Error] that names it. Nothing that is returned aliases the input.
//
// All functions are safe for concurrent use; values are not.
package wire
