//go:build faults && linux

package proxies

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"rollcall/test/harness"
)

// told is an event as a client got it.
type told struct {
	name string
	data []byte
	at   time.Time
}

// client is a stream through a proxy, over either transport. It answers beats and
// never comes back by itself.
type client struct {
	t      testing.TB
	p      *proxy
	token  string
	http   *http.Client
	cancel context.CancelFunc
	res    *http.Response  // server-sent events
	ws     *websocket.Conn // WebSocket
	reader sync.WaitGroup

	mu     sync.Mutex
	events []told // Guarded by mu.
	err    error  // Guarded by mu. Why it ended; nil while it has not.
	ready  struct{ Connection, Resume string }
}

func (p *proxy) transport(t testing.TB, protocols ...string) *http.Transport {
	c, err := theCertificate()
	if err != nil {
		t.Fatal(err)
	}
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: c.pool, NextProtos: protocols}, ForceAttemptHTTP2: len(protocols) == 0,
	}
}

// open opens a stream through the proxy and waits for the room.
func (p *proxy) open(t testing.TB, over harness.Transport, room, token string, observe bool) *client {
	t.Helper()
	c := &client{t: t, p: p, token: token}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	if over == harness.SSE {
		c.openSSE(ctx, room, observe)
	} else {
		c.openWS(ctx, room, observe)
	}
	t.Cleanup(c.close)
	c.await(10*time.Second, "shown the room", func(e told) bool { return e.name == "snapshot" })
	return c
}

func (c *client) openSSE(ctx context.Context, room string, observe bool) {
	c.t.Helper()
	c.http = &http.Client{Transport: c.p.transport(c.t)}
	query := url.Values{"beat": {"1"}}
	if observe {
		query.Set("observe", "1")
	}
	r, _ := http.NewRequestWithContext(ctx, "GET", c.p.url+harness.RoomPath(room, "/stream?"+query.Encode()), nil)
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Accept-Encoding", "gzip") // must be of no effect
	res, err := c.http.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", c.p.name, err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Encoding") != "" {
		c.t.Fatalf("%s: %s %v", c.p.name, res.Status, res.Header)
	}
	c.res = res
	c.reader.Go(func() {
		in := bufio.NewReader(res.Body)
		var e told
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				c.ended(err)
				return
			}
			line = strings.TrimRight(line, "\n")
			if field, value, _ := strings.Cut(line, ": "); field == "event" {
				e.name = value
			} else if field == "data" {
				e.data = []byte(value)
			} else if line == "" && e.data != nil {
				c.hear(e)
				e = told{}
			}
		}
	})
}

func (c *client) openWS(ctx context.Context, room string, observe bool) {
	c.t.Helper()
	c.http = &http.Client{Transport: c.p.transport(c.t, "http/1.1")}
	conn, _, err := websocket.Dial(ctx, c.p.url+"/v1/ws", &websocket.DialOptions{
		HTTPClient: c.http, Subprotocols: []string{"rollcall.v1", "bearer." + c.token},
	})
	if err != nil {
		c.t.Fatalf("%s: %v", c.p.name, err)
	}
	conn.SetReadLimit(1 << 20)
	c.ws = conn
	if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"join","room":%q,"observe":%v}`, room, observe)); err != nil {
		c.t.Fatal(err)
	}
	c.reader.Go(func() {
		for {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				c.ended(err)
				return
			}
			list := []json.RawMessage{raw}
			if raw[0] == '[' {
				list = nil
				json.Unmarshal(raw, &list)
			}
			for _, one := range list {
				var m struct{ Type string }
				json.Unmarshal(one, &m)
				c.hear(told{name: m.Type, data: one})
			}
		}
	})
}

func (c *client) hear(e told) {
	e.at = time.Now()
	c.mu.Lock()
	if e.name == "ready" {
		json.Unmarshal(e.data, &c.ready)
	}
	c.events = append(c.events, e)
	ready := c.ready
	c.mu.Unlock()
	if e.name == "beat" && c.res != nil {
		r, _ := http.NewRequest("POST", c.p.url+"/v1/connections/"+ready.Connection+"/beat", bytes.NewReader(e.data))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Rollcall-Resume", ready.Resume)
		if res, err := c.http.Do(r); err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
}

func (c *client) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// over is why the stream has ended; nil if it has not.
func (c *client) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// find is the first event that fits.
func (c *client) find(fits func(told) bool) (told, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if fits(e) {
			return e, true
		}
	}
	return told{}, false
}

func (c *client) await(within time.Duration, what string, fits func(told) bool) told {
	c.t.Helper()
	var e told
	harness.Eventually(c.t, within, c.p.name+": "+what, func() (ok bool) {
		if e, ok = c.find(fits); !ok && c.over() != nil {
			c.t.Fatalf("%s: %s: the stream ended: %v", c.p.name, what, c.over())
		}
		return ok
	})
	return e
}

// close ends the stream as people do.
func (c *client) close() {
	if c.ws != nil {
		c.ws.Close(websocket.StatusNormalClosure, "")
	}
	c.cancel()
	if c.res != nil {
		c.res.Body.Close()
	}
	c.reader.Wait()
	c.http.CloseIdleConnections()
}

// names reports whether an event tells of a user in a list of it.
func names(list, user string) func(told) bool {
	return func(e told) bool {
		var all map[string]json.RawMessage
		var members []struct{ User string }
		if e.name != "diff" || json.Unmarshal(e.data, &all) != nil || json.Unmarshal(all[list], &members) != nil {
			return false
		}
		for _, m := range members {
			if m.User == user {
				return true
			}
		}
		return false
	}
}
