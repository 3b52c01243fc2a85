//go:build unix

package departures

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gobwas/ws"
)

// pollEvery is the usual time between two reads of the polling reader.
const pollEvery = 40 * time.Millisecond

// again is the pause of a viewer before it opens another stream.
const again = 50 * time.Millisecond

// pause waits, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watchSSE is an observer with beats on an event stream.
func (v *viewer) watchSSE(ctx context.Context, base, room string) {
	last := ""
	for ctx.Err() == nil {
		v.oneSSE(ctx, base, room, &last)
		pause(ctx, again)
	}
}

func (v *viewer) oneSSE(ctx context.Context, base, room string, last *string) {
	s, err := dialSSE(base, roomPath(room)+"/stream?observe=1&beat=1&user=sse-viewer", *last)
	if err != nil {
		return
	}
	defer s.conn.Close()
	defer context.AfterFunc(ctx, func() { s.conn.Close() })()
	var ready ready
	for {
		e, err := s.next()
		if err != nil {
			return
		}
		at := time.Now()
		if e.ID != "" {
			*last = e.ID
		}
		switch e.Name {
		case "ready":
			json.Unmarshal(e.Data, &ready)
		case "beat":
			ready.answer(ctx, polls, base, e.Data)
		default:
			v.take(e, at)
			v.settleLater(ctx, e)
		}
	}
}

// watchWS is an observer on a WebSocket.
func (v *viewer) watchWS(ctx context.Context, base, room string) {
	var ready ready
	for ctx.Err() == nil {
		v.oneWS(ctx, base, room, &ready)
		pause(ctx, again)
	}
}

func (v *viewer) oneWS(ctx context.Context, base, room string, ready *ready) {
	s, err := dialWS(base, query("user", "ws-viewer", "resume", ready.Resume))
	if err != nil {
		return
	}
	defer s.conn.Close()
	defer context.AfterFunc(ctx, func() { s.conn.Close() })()
	for {
		f, events, err := s.next()
		if err != nil {
			return
		}
		at := time.Now()
		switch f.Header.OpCode {
		case ws.OpPing:
			s.pong(f.Payload)
		case ws.OpClose:
			s.close(ws.StatusNormalClosure)
			return
		}
		for _, e := range events {
			if e.Name == "ready" {
				json.Unmarshal(e.Data, ready)
				s.send(v.joinMessage(room))
				continue
			}
			v.take(e, at)
			v.settleLater(ctx, e)
		}
	}
}

// joinMessage says what the viewer holds.
func (v *viewer) joinMessage(room string) map[string]any {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := map[string]any{"type": "join", "room": room, "observe": true}
	if v.version != 0 {
		m["since"] = map[string]any{"epoch": v.epoch, "version": v.version}
	}
	return m
}

// settleLater ends the settling that a snapshot told of.
func (v *viewer) settleLater(ctx context.Context, e event) {
	if e.Name != "snapshot" {
		return
	}
	var n notice
	if json.Unmarshal(e.Data, &n) == nil && n.SettlingMs > 0 {
		nth := len(v.settled())
		go func() {
			if pause(ctx, time.Duration(n.SettlingMs)*time.Millisecond) {
				v.settle(nth)
			}
		}()
	}
}

// poll reads the roster again and again.
func (v *viewer) poll(ctx context.Context, base, room string, every time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		members, count, settling, err := roster(ctx, base, room)
		v.waited(time.Since(began), err)
		if err == nil {
			ms, _ := strconv.Atoi(settling)
			v.mu.Lock()
			if count != len(members) {
				v.faultLocked("read %d members with count %d", len(members), count)
			}
			v.replaceLocked(members, time.Duration(ms)*time.Millisecond, time.Now())
			v.mu.Unlock()
			v.tell()
		}
		pause(ctx, every)
	}
}

// ready is the first event of a stream, or the answer to a POST of a lease.
type ready struct {
	Connection string
	Resume     string
}

// answer answers a beat.
func (r *ready) answer(ctx context.Context, c *http.Client, base string, data []byte) error {
	var b struct{ N json.RawMessage }
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	return r.post(ctx, c, base, "/beat", `{"n":`+string(b.N)+`}`)
}

// post makes a call of the connection.
func (r *ready) post(ctx context.Context, c *http.Client, base, call, body string) error {
	return do(ctx, c, "POST", base+"/v1/connections/"+r.Connection+call, r.Resume, body, nil)
}

// do makes a request proved by a resume secret.
func do(ctx context.Context, c *http.Client, method, url, resume, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if resume != "" {
		req.Header.Set("Rollcall-Resume", resume)
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return &refusal{res.StatusCode}
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// refusal is a status that is no success.
type refusal struct{ status int }

func (r *refusal) Error() string { return http.StatusText(r.status) }
