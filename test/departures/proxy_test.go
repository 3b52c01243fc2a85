//go:build unix

package departures

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// proxyEnv names the host and port that a proxy process is in front of.
const proxyEnv = "ROLLCALL_DEPARTURES_PROXY"

// proxyMain is the process of a proxy that never tells the server that a client
// has gone: it keeps its side open, and goes on reading.
func proxyMain() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("http://" + l.Addr().String())
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go hold(client)
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// hold forwards both directions; the end of the client is forwarded to nobody.
func hold(client net.Conn) {
	defer client.Close()
	upstream, err := net.Dial("tcp", os.Getenv(proxyEnv))
	if err != nil {
		return
	}
	defer upstream.Close()
	go io.Copy(upstream, client)
	if _, err := io.Copy(client, upstream); err != nil {
		io.Copy(io.Discard, upstream)
	}
}

// startProxy starts a proxy in front of a server and returns its URL.
func startProxy(ctx context.Context, t testing.TB, s *server) (string, error) {
	var url atomic.Pointer[string]
	c, err := start(t, launch{
		role: "proxy", env: []string{proxyEnv + "=127.0.0.1:" + s.port},
		out: func(line string) { url.Store(&line) },
	})
	if err != nil {
		return "", err
	}
	if !c.await(ctx, func() bool { return url.Load() != nil || c.gone() }) || url.Load() == nil {
		return "", fmt.Errorf("the proxy does not listen:\n%s", c.stderr())
	}
	return *url.Load(), nil
}
