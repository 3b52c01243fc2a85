package transport

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// loopback is a socket of the server and the connection of its client.
func loopback(b *testing.B) (*WebSocket, net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	c := &WebSocket{max: testMax}
	c.init(conn)
	b.Cleanup(func() { c.Close(); client.Close() })
	return c, client
}

// BenchmarkTryWrite is what a stream costs a tick: beside the same write through
// net.Conn, which is what it should not exceed.
func BenchmarkTryWrite(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"150B", 150}, {"2KiB", 2048}} {
		event := make([]byte, size.n)
		// The client takes the bytes in the same goroutine, so that the kernel
		// always has room and no wake-up of another is measured.
		take := func(b *testing.B, client net.Conn, buf []byte) {
			if _, err := io.ReadFull(client, buf); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(size.name, func(b *testing.B) {
			c, client := loopback(b)
			buf := make([]byte, len(event))
			b.ReportAllocs()
			for b.Loop() {
				if n, err := c.TryWrite(event); n != len(event) || err != nil {
					b.Fatal(n, err)
				}
				b.StopTimer()
				take(b, client, buf)
				b.StartTimer()
			}
		})
		b.Run(size.name+"/net.Conn", func(b *testing.B) {
			c, client := loopback(b)
			buf := make([]byte, len(event))
			for b.Loop() {
				if _, err := c.conn.Write(event); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				take(b, client, buf)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkFrames is what the frames of a segment cost, without the kernel: a
// message on the stack of the reader or of a worker (aside), eight messages at
// once, and a pong.
func BenchmarkFrames(b *testing.B) {
	message := text(`{"type":"signal","room":"doc:42","kind":"cursor","data":{"x":100,"y":200}}`)
	pong := frame(fin|opPong, "12345678")
	eight := ""
	for range 8 {
		eight += message
	}
	for _, c := range []struct {
		name, sent string
		aside      bool
	}{{"message", message, false}, {"message/aside", message, true}, {"8 messages/aside", eight, true}, {"pong", pong, true}} {
		b.Run(c.name, func(b *testing.B) {
			ws := &WebSocket{max: testMax}
			if c.aside {
				ws, _ = loopback(b)
			}
			h := countHandler{new(atomic.Int64), new(atomic.Int64)}
			buf := make([]byte, len(c.sent))
			var end End
			b.ReportAllocs()
			for b.Loop() {
				copy(buf, c.sent)
				if !ws.control(buf, h) {
					if ws.feed(buf, h, &end); end.Kind != 0 {
						b.Fatal(end)
					}
				}
			}
		})
	}
}

// BenchmarkRoundTrip is a message that comes in over loopback and is answered:
// the whole way through the kernel, the poller and both goroutines.
func BenchmarkRoundTrip(b *testing.B) {
	c, client := loopback(b)
	done := make(chan End, 1)
	go func() { done <- c.Read(echo{c}) }()
	sent := []byte(text(`{"type":"ping"}`))
	answer := make([]byte, len(serverFrame(opText, `{"type":"ping"}`)))
	client.SetDeadline(time.Now().Add(time.Minute))
	for b.Loop() {
		if _, err := client.Write(sent); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, answer); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
	<-done
}
