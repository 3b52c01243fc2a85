//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"rollcall/test/harness"
)

// crowd is many members that cost little: each is one goroutine, which looks at
// every event and keeps numbers alone. They come back by themselves, as browsers
// do.
type crowd struct {
	addrs []string // host:port of nodes, or of a proxy before them
	size  int      // of every room
	calls *http.Client
	stop  chan struct{} // closed by the end of the test
	wg    sync.WaitGroup
	all   []*guest
}

// guest is one of a crowd.
type guest struct {
	crowd      *crowd
	over       harness.Transport
	plain      bool // SSE: answers no beat
	user, room string

	at int // place in addrs; owned by live

	mu      sync.Mutex
	conn    net.Conn      // Guarded by mu. The newest.
	version int64         // Guarded by mu. -1: nothing is held.
	epoch   string        // Guarded by mu.
	count   int           // Guarded by mu. -1: nothing is held.
	shown   bool          // Guarded by mu. The newest stream has shown the room.
	streams int           // Guarded by mu.
	calm    bool          // Guarded by mu. From now on nobody may come or go.
	faults  []string      // Guarded by mu.
	resume  string        // Guarded by mu.
	id      string        // Guarded by mu. The last id of SSE.
	name    string        // Guarded by mu. Of the connection.
	node    string        // Guarded by mu. Where the newest stream is.
	retry   time.Duration // Guarded by mu.
}

func newCrowd(t *testing.T, size int, addrs ...string) *crowd {
	c := &crowd{addrs: addrs, size: size, stop: make(chan struct{})}
	c.calls = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: soon}
	t.Cleanup(c.end)
	return c
}

// end ends all guests, who leave.
func (c *crowd) end() {
	select {
	case <-c.stop:
		return
	default:
	}
	close(c.stop)
	for _, g := range c.all {
		g.mu.Lock()
		if g.conn != nil {
			g.conn.Close()
		}
		g.mu.Unlock()
		g.post("release", "{}")
	}
	c.wg.Wait()
	c.calls.CloseIdleConnections()
}

// join adds a guest, who stays until the end, at a node first and at the next one
// when that is gone.
func (c *crowd) join(at int, over harness.Transport, plain bool, user, room string) {
	g := &guest{crowd: c, at: at, over: over, plain: plain, user: user, room: room, version: -1, count: -1}
	c.all = append(c.all, g)
	c.wg.Go(g.live)
}

// again is how long to stay away if nobody says.
func again() time.Duration { return 100*time.Millisecond + rand.N(400*time.Millisecond) }

// live opens stream after stream.
func (g *guest) live() {
	for {
		wait, err := g.visit()
		if err != nil {
			g.fault("%v", err)
		}
		select {
		case <-g.crowd.stop:
			return
		case <-time.After(wait): // as the server has asked
		}
	}
}

func (g *guest) fault(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.crowd.stop:
	default:
		g.faults = append(g.faults, fmt.Sprintf(format, args...))
	}
}

// visit is one stream, to its end. It tells how long to stay away.
func (g *guest) visit() (time.Duration, error) {
	addr := g.crowd.addrs[g.at%len(g.crowd.addrs)]
	conn, err := net.DialTimeout("tcp", addr, soon)
	if err != nil && len(g.crowd.addrs) > 1 {
		g.at++
		return again(), nil
	}
	if err != nil {
		return again(), err
	}
	defer conn.Close()
	g.mu.Lock()
	g.conn, g.shown, g.retry, g.node = conn, false, again(), addr
	g.streams++
	path, header := "/v1/rooms/"+url.PathEscape(g.room)+"/stream?user="+g.user, http.Header{}
	switch {
	case g.over == harness.WS:
		path = "/v1/ws?user=" + g.user + "&resume=" + url.QueryEscape(g.resume)
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", "websocket")
		header.Set("Sec-WebSocket-Version", "13")
		header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		header.Set("Sec-WebSocket-Protocol", "rollcall.v1")
	default:
		if !g.plain {
			path += "&beat=1"
		}
		header.Set("Accept", "text/event-stream")
		if g.id != "" {
			header.Set("Last-Event-ID", g.id)
		}
	}
	g.mu.Unlock()
	req, err := http.NewRequest("GET", "http://"+addr+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header = header
	if err := req.Write(conn); err != nil {
		return again(), nil
	}
	in := bufio.NewReaderSize(conn, 4<<10)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return again(), nil // the network's fault
	}
	defer res.Body.Close()
	if want := map[harness.Transport]int{harness.SSE: 200, harness.WS: 101}[g.over]; res.StatusCode != want {
		return time.Second, fmt.Errorf("answered %d", res.StatusCode)
	}
	if g.over == harness.WS {
		g.frames(conn, in)
	} else {
		g.events(res.Body)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.retry, nil
}

// events reads an event stream.
func (g *guest) events(body io.Reader) {
	in := bufio.NewReaderSize(body, 4<<10)
	kind := ""
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		field, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "data":
			g.hear(kind, value)
		case "id":
			g.mu.Lock()
			g.id = string(value)
			g.mu.Unlock()
		case "retry":
			var ms int
			fmt.Sscan(string(value), &ms)
			g.mu.Lock()
			g.retry = time.Duration(ms) * time.Millisecond
			g.mu.Unlock()
		}
	}
}

// frames reads a WebSocket and does what a browser does there by itself.
func (g *guest) frames(conn net.Conn, in *bufio.Reader) {
	send := func(op byte, payload []byte) {
		b := []byte{0x80 | op, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload)), 0, 0, 0, 0}
		if len(payload) < 126 {
			b = []byte{0x80 | op, 0x80 | byte(len(payload)), 0, 0, 0, 0}
		}
		conn.Write(append(b, payload...)) // a mask of 0 is one
	}
	g.mu.Lock()
	since := ""
	if g.version >= 0 {
		since = fmt.Sprintf(`,"since":{"epoch":%q,"version":%d}`, g.epoch, g.version)
	}
	g.mu.Unlock()
	send(1, fmt.Appendf(nil, `{"type":"join","room":%q%s}`, g.room, since))
	var head [8]byte
	for {
		if _, err := io.ReadFull(in, head[:2]); err != nil {
			return
		}
		op, n := head[0]&15, uint64(head[1])
		switch n {
		case 126:
			io.ReadFull(in, head[:2])
			n = uint64(binary.BigEndian.Uint16(head[:]))
		case 127:
			io.ReadFull(in, head[:])
			n = binary.BigEndian.Uint64(head[:])
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		switch op {
		case 9:
			send(10, payload)
		case 8:
			send(8, payload)
			return
		case 1:
			list := []json.RawMessage{payload}
			if payload[0] == '[' {
				json.Unmarshal(payload, &list)
			}
			for _, m := range list {
				kind, _, _ := bytes.Cut(bytes.TrimPrefix(m, []byte(`{"type":"`)), []byte(`"`))
				g.hear(string(kind), m)
			}
		}
	}
}

// hear takes one event.
func (g *guest) hear(kind string, data []byte) {
	var e struct {
		Epoch       string
		Version     int64
		Prev        int64
		Count       int
		Join, Leave []json.RawMessage
		Members     []struct{}
		N           json.RawMessage
		Connection  string
		Resume      string
		Reason      string
		ReconnectMs *int64
	}
	switch kind {
	case "ready", "snapshot", "mode", "resumed", "diff", "beat", "bye", "ended", "error", "count":
		if err := json.Unmarshal(data, &e); err != nil {
			g.fault("%s %s: %v", kind, data, err)
			return
		}
	default:
		return
	}
	if kind == "beat" && g.over == harness.SSE && !g.plain {
		g.post("beat", fmt.Sprintf(`{"n":%s}`, e.N))
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	fault := func(why string) { g.faults = append(g.faults, fmt.Sprintf("%s: %s %.300s", why, kind, data)) }
	switch kind {
	case "ready":
		g.name, g.resume = e.Connection, e.Resume
	case "snapshot", "mode":
		if len(e.Members) != e.Count {
			fault("lists another number than it says")
		}
		g.epoch, g.version, g.count, g.shown = e.Epoch, e.Version, e.Count, true
	case "resumed":
		if e.Version != g.version || e.Epoch != g.epoch {
			fault("resumes what is not held")
		}
		g.shown = true
	case "diff":
		if e.Prev != g.version {
			fault(fmt.Sprintf("does not follow version %d", g.version))
		}
		if g.calm && len(e.Join)+len(e.Leave) > 0 {
			fault("nobody came or went")
		}
		g.version, g.count, g.shown = e.Version, e.Count, true
	case "bye":
		if e.ReconnectMs == nil {
			fault("sent away")
		} else if g.over == harness.WS {
			g.retry = time.Duration(*e.ReconnectMs) * time.Millisecond
		}
	case "ended", "error", "count":
		fault("not asked for")
	}
	if g.calm && g.shown && g.count != g.crowd.size {
		fault(fmt.Sprintf("counts %d", g.count))
	}
}

// post is a call of the guest's connection.
func (g *guest) post(verb, body string) {
	g.mu.Lock()
	name, resume, node := g.name, g.resume, g.node
	g.mu.Unlock()
	req, err := http.NewRequest("POST", "http://"+node+"/v1/connections/"+name+"/"+verb, bytes.NewReader([]byte(body)))
	if err != nil {
		return
	}
	req.Header.Set("Rollcall-Resume", resume)
	req.Header.Set("Content-Type", "application/json")
	if res, err := g.crowd.calls.Do(req); err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// complete waits until every guest is shown a whole room.
func (c *crowd) complete(t *testing.T, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for _, g := range c.all {
		harness.Eventually(t, time.Until(deadline), g.user+" is shown all of its room", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.shown && g.count == c.size
		})
	}
}

// hush has the guests take note of everybody who comes or goes from now on.
func (c *crowd) hush() {
	for _, g := range c.all {
		g.mu.Lock()
		g.calm, g.streams = true, 0
		g.mu.Unlock()
	}
}

// moved is how many guests have had to come back since hush.
func (c *crowd) moved() (n int) {
	for _, g := range c.all {
		g.mu.Lock()
		if g.streams > 0 {
			n++
		}
		g.mu.Unlock()
	}
	return n
}

// check reports what guests were not to see.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	told := 0
	for _, g := range c.all {
		g.mu.Lock()
		for _, f := range g.faults {
			if told++; told <= 20 {
				t.Errorf("%v of %q, stream %d: %s", g.over, g.user, g.streams, f)
			}
		}
		g.mu.Unlock()
	}
}
