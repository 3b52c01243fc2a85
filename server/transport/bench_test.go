package transport

import (
	"fmt"
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
	for _, size := range []int{150, 2048} {
		c, client := loopback(b)
		event, buf := make([]byte, size), make([]byte, size)
		for _, way := range []struct {
			name  string
			write func([]byte) (int, error)
		}{{"TryWrite", c.TryWrite}, {"net.Conn", c.conn.Write}} {
			b.Run(fmt.Sprintf("%dB/%s", size, way.name), func(b *testing.B) {
				b.ReportAllocs()
				var writing time.Duration
				for b.Loop() {
					start := time.Now()
					n, err := way.write(event)
					writing += time.Since(start)
					if n != size || err != nil {
						b.Fatal(n, err)
					}
					// The client takes the bytes in the same goroutine: the
					// kernel has room, and nobody is woken.
					if _, err := io.ReadFull(client, buf); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(writing.Nanoseconds())/float64(b.N), "ns/write")
			})
		}
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
