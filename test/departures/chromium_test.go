//go:build browser && unix

package departures

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// chromium is a running browser, spoken to by the Chrome DevTools protocol.
// Its methods are called by one goroutine.
type chromium struct {
	*child
	conn *websocket.Conn
	id   int
}

// startChromium starts a browser with a fresh profile. CHROMIUM names another
// program than the one in the path.
func startChromium(ctx context.Context, t testing.TB) (*chromium, error) {
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return nil, fmt.Errorf("there is no Chromium\nhint: the rows with the build tag browser need one: apt-get install chromium, or CHROMIUM=/path/to/it")
	}
	profile, err := os.MkdirTemp("", "rollcall-departures-chromium-")
	if err != nil {
		return nil, err
	}
	attr := diesWithUs(syscall.SIGKILL)
	if attr == nil {
		attr = new(syscall.SysProcAttr)
	}
	attr.Setpgid = true
	b := new(chromium)
	// Runs after the browser itself is ended: its other processes, and its profile.
	t.Cleanup(func() {
		if b.child != nil {
			syscall.Kill(-b.pid(), syscall.SIGKILL)
		}
		for range 100 { // they are still writing as they die
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("cannot remove %s", profile)
	})
	var devtools atomic.Pointer[string]
	b.child, err = start(t, launch{
		args: []string{
			path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-breakpad",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
			"--no-proxy-server", "--remote-debugging-port=0", "--user-data-dir=" + profile, "about:blank",
		},
		attr: attr,
		err: func(line string) {
			if url, ok := strings.CutPrefix(line, "DevTools listening on "); ok {
				devtools.Store(&url)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if !b.await(ctx, func() bool { return devtools.Load() != nil || b.gone() }) || devtools.Load() == nil {
		return nil, fmt.Errorf("chromium does not start:\n%s", b.stderr())
	}
	if b.conn, _, err = websocket.Dial(ctx, *devtools.Load(), nil); err != nil {
		return nil, fmt.Errorf("devtools: %w", err)
	}
	b.conn.SetReadLimit(-1)
	t.Cleanup(func() { b.conn.CloseNow() })
	return b, nil
}

// call calls a method of a session; "" is the browser. into may be nil.
func (b *chromium) call(ctx context.Context, session, method string, params map[string]any, into any) error {
	if err := b.send(ctx, session, method, params); err != nil {
		return err
	}
	for {
		_, raw, err := b.conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case m.ID != b.id:
			continue // an event
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case into == nil:
			return nil
		}
		return json.Unmarshal(m.Result, into)
	}
}

func (b *chromium) send(ctx context.Context, session, method string, params map[string]any) error {
	b.id++
	m := map[string]any{"id": b.id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return b.conn.Write(ctx, websocket.MessageText, raw)
}

// open opens a tab.
func (b *chromium) open(ctx context.Context, url string) (target string, err error) {
	var answer struct{ TargetID string }
	err = b.call(ctx, "", "Target.createTarget", map[string]any{"url": url}, &answer)
	return answer.TargetID, err
}

// close closes a tab as its cross does.
func (b *chromium) close(ctx context.Context, target string) error {
	return b.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": target}, nil)
}

// killAll kills the browser with all its processes. If only the first one is
// killed, the one that owns the sockets lives long enough to say goodbye.
func (b *chromium) killAll() error { return syscall.Kill(-b.pid(), syscall.SIGKILL) }

// attach begins a session with a tab.
func (b *chromium) attach(ctx context.Context, target string) (session string, err error) {
	var answer struct{ SessionID string }
	err = b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &answer)
	return answer.SessionID, err
}

// crash ends the process that renders a tab. Nothing answers.
func (b *chromium) crash(ctx context.Context, target string) error {
	session, err := b.attach(ctx, target)
	if err != nil {
		return err
	}
	return b.send(ctx, session, "Page.crash", nil)
}

// number is the value of an expression in a tab.
func (b *chromium) number(ctx context.Context, session, expression string) (float64, error) {
	var answer struct{ Result struct{ Value float64 } }
	err := b.call(ctx, session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	return answer.Result.Value, err
}
