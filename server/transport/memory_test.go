package transport

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"
)

// crowdVar makes the test binary a crowd of clients: so many connections to an
// address, in a process of its own, that the server's memory is all that is
// measured.
const crowdVar = "ROLLCALL_TRANSPORT_CROWD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(crowdVar); addr != "" {
		if err := crowd(addr, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "crowd:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// crowd does what the lines of in say, and answers each with a line:
//
//	open N SCHEME         N more connections, upgraded, by http or https
//	say HEX               each sends the bytes
//	hear N                each reads N bytes
func crowd(addr string, in io.Reader, out io.Writer) error {
	var conns []net.Conn
	lines := bufio.NewScanner(in)
	buf := make([]byte, 4096)
	for lines.Scan() {
		var n int
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "open":
			var scheme string
			fmt.Sscanf(rest, "%d %s", &n, &scheme)
			for range n {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return err
				}
				if scheme == "https" {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				}
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140\r\n"+
					"Accept-Language: en\r\nOrigin: http://x\r\nCookie: a=%064d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 0)
				r := bufio.NewReaderSize(c, 16)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return err
					}
					if line == "\r\n" {
						break
					}
				}
				conns = append(conns, c)
			}
		case "say":
			var p []byte
			fmt.Sscanf(rest, "%x", &p)
			for _, c := range conns {
				if _, err := c.Write(p); err != nil {
					return err
				}
			}
		case "hear":
			fmt.Sscanf(rest, "%d", &n)
			for _, c := range conns {
				if _, err := io.ReadFull(c, buf[:n]); err != nil {
					return err
				}
			}
		}
		fmt.Fprintln(out, "ok")
	}
	return lines.Err()
}

// startCrowd runs a crowd; tell gives it a line and waits for its answer.
func startCrowd(b *testing.B, addr string) (tell func(format string, args ...any)) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crowdVar+"="+addr)
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	answers := bufio.NewScanner(out)
	return func(format string, args ...any) {
		fmt.Fprintf(in, format+"\n", args...)
		if !answers.Scan() {
			b.Fatal("the crowd is gone")
		}
	}
}

func inUse() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// countHandler counts, and uses some stack for a message as a decoder does.
type countHandler struct{ messages, pongs *atomic.Int64 }

func (h countHandler) Message(p []byte) { deep(20, p); h.messages.Add(1) }
func (h countHandler) Ping([]byte)      {}
func (h countHandler) Pong([]byte)      { h.pongs.Add(1) }
func (h countHandler) Steady() bool     { return false }

//go:noinline
func deep(n int, p []byte) byte {
	var frame [256]byte
	copy(frame[:], p)
	if n == 0 {
		return frame[0]
	}
	return deep(n-1, frame[:]) + frame[n]
}

const crowdSize = 4000

// BenchmarkIdleWebSocket tells the memory of an idle connection: after it was
// accepted, after it has answered a ping, and after it has sent a message.
func BenchmarkIdleWebSocket(b *testing.B)    { idleWebSocket(b, "http", crowdSize) }
func BenchmarkIdleWebSocketTLS(b *testing.B) { idleWebSocket(b, "https", crowdSize/4) }

func idleWebSocket(b *testing.B, scheme string, size int) {
	for range b.N {
		var messages, pongs atomic.Int64
		var mu sync.Mutex
		var conns []*WebSocket
		var readers sync.WaitGroup
		srv, addr := serve(b, scheme, func(w http.ResponseWriter, r *http.Request) {
			c, err := AcceptWebSocket(w, r, WebSocketOptions{})
			if err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			readers.Go(func() { c.Read(countHandler{&messages, &pongs}) })
		})
		tell := startCrowd(b, addr)
		tell("open 10 %s", scheme)
		before := inUse()
		tell("open %d %s", size, scheme)
		report := func(unit string) { b.ReportMetric((inUse()-before)/float64(size), unit) }
		report("B/accepted")

		ping := ws.MustCompileFrame(ws.NewPingFrame([]byte("12345678")))
		for _, c := range conns {
			c.Write(ping, time.Second)
		}
		tell("hear %d", len(ping))
		pong := ws.MustCompileFrame(ws.MaskFrame(ws.NewPongFrame([]byte("12345678"))))
		tell("say %x", pong)
		eventually(b, func() bool { return pongs.Load() == int64(size)+10 })
		report("B/ponged")

		tell("say %x", ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte(`{"type":"join","room":"lobby"}`)))))
		eventually(b, func() bool { return messages.Load() == int64(size)+10 })
		report("B/messaged")
		for _, c := range conns {
			c.Close()
		}
		readers.Wait()
		srv.Close()
	}
}

// BenchmarkIdleSSE tells the memory of an idle SSE stream on HTTP/1.1.
func BenchmarkIdleSSE(b *testing.B) {
	for range b.N {
		var mu sync.Mutex
		var conns []*SSE
		var readers sync.WaitGroup
		srv, addr := serve(b, "http", func(w http.ResponseWriter, r *http.Request) {
			c, err := AcceptSSE(w, r, nil)
			if err == nil {
				err = c.Write(nil, patience) // the head
			}
			if err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			readers.Go(func() { c.Wait() })
		})
		tell := startCrowd(b, addr)
		tell("open 10 http")
		before := inUse()
		tell("open %d http", crowdSize)
		b.ReportMetric((inUse()-before)/crowdSize, "B/accepted")
		event := []byte("event: beat\ndata: {\"n\":1}\n\n")
		for _, c := range conns {
			c.TryWrite(event)
		}
		tell("hear %d", len(event))
		b.ReportMetric((inUse()-before)/crowdSize, "B/beaten")
		for _, c := range conns {
			c.Close()
		}
		readers.Wait()
		srv.Close()
	}
}

// serve runs h on a loopback port.
func serve(tb testing.TB, scheme string, h http.HandlerFunc) (*http.Server, string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := ln.Addr().String()
	if scheme == "https" {
		certs := httptest.NewUnstartedServer(nil) // has a certificate for tests
		certs.StartTLS()
		config := certs.TLS.Clone()
		certs.Close()
		config.NextProtos = []string{"http/1.1"}
		ln = tls.NewListener(ln, config)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	return srv, addr
}

// eventually waits for what another goroutine or process is about to do.
func eventually(tb testing.TB, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			tb.Fatal("it did not happen in 10 s")
		}
		time.Sleep(time.Millisecond)
	}
}
