// Package transport is the sockets of the server: WebSocket and SSE streams that
// cost next to nothing while they are silent. It knows no rooms and no messages;
// it moves bytes.
//
// Writing: the caller assembles the bytes of a stream (complete SSE text, or
// complete unmasked WebSocket frames) and hands them over with [Conn].TryWrite,
// which never waits, or [Conn].Write, which waits as long as the client takes
// something. There is no write buffer and no queue here: what the kernel does
// not take stays with the caller, who can replace it by something newer.
//
// Reading: [WebSocket.Read] and [SSE.Wait] are the one reader of a stream for its
// whole life. On a plain TCP connection they hold no buffer while they wait, and
// run on the smallest stack: run them in a fresh goroutine after the HTTP handler
// has returned, so that everything net/http keeps for a request is freed.
//
// How a stream ended is evidence about a person, so [End] tells apart what the
// client said (closed), what just happened (cut), and what we did (local).
//
// Liveness is not decided here. TCP keepalive is off: the kernel of a frozen
// machine, or a proxy, answers keepalive probes for hours, so an answer proves
// nothing that a beat of the hub would not prove better.
package transport
