//go:build interop && unix

package transport

// These tests need other programs than Go: run them with -tags interop. They are
// never skipped: a program that is missing is a failure that says what to do.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const interopDir = "testdata/interop"

// program finds one of names on the PATH.
func program(t *testing.T, hint string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("%s not found\nhint: %s", names[0], hint)
	panic("unreachable")
}

// ends is how the streams ended, by their case; safe for concurrent use.
type ends struct {
	mu sync.Mutex
	m  map[string]string
}

func (e *ends) set(name string, end End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if end.Kind == Violation {
		end.Reason = ""
	}
	if end.Kind == Cut {
		end.Err = nil
	}
	e.m[name] = end.String()
}

// check waits for exactly these ends.
func (e *ends) check(t *testing.T, want map[string]string) {
	t.Helper()
	count := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.m) }
	eventually(t, func() bool { return count() >= len(want) })
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := cmp.Diff(want, e.m); d != "" {
		t.Errorf("ends (-want +got)\n%s", d)
	}
}

// The npm package "ws" is what most servers and tests in JavaScript speak with.
func TestNodeClient(t *testing.T) {
	node := program(t, "install Node.js 20 or newer (https://nodejs.org)", "node")
	if _, err := os.Stat(filepath.Join(interopDir, "node_modules", "ws")); err != nil {
		npm := program(t, "install npm, which comes with Node.js", "npm")
		install := exec.Command(npm, "ci", "--no-audit", "--no-fund")
		install.Dir = interopDir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci in %s: %v\n%s\nhint: it needs a package registry once", interopDir, err, out)
		}
	}
	e := ends{m: map[string]string{}}
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("case")
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		go func() { e.set(name, serveEcho(c)) }()
	})
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(interopDir, "client.mjs"), strings.Replace(srv.URL, "http", "ws", 1))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line struct {
			Name string
			Got  json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		got[line.Name] = string(line.Got)
	}
	want := map[string]string{
		"agreed":         `["rollcall.v1","","1000 "]`,
		"noProtocol":     `["","1000 "]`, // a close frame without a code is answered by 1000
		"echo":           `[true,true,true,true,true,true,"4000 "]`,
		"fragments":      `["pong between","one two three","4999 "]`,
		"binary":         `["1003 binary message: only text is spoken here"]`,
		"badText":        `["1007 text is not UTF-8"]`,
		"tooBig":         `["1009 message too big"]`,
		"closedByServer": `["4503 draining"]`,
		"terminated":     `["1006 "]`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("client (-want +got)\n%s", d)
	}
	e.check(t, map[string]string{
		"agreed": `closed 1000 ""`, "noProtocol": `closed 1005 ""`, "echo": `closed 4000 "goodbye"`, "fragments": `closed 4999 ""`,
		"binary": `violation 1003 ""`, "badText": `violation 1007 ""`, "tooBig": `violation 1009 ""`,
		"closedByServer": "local", "terminated": "cut",
	})
}

// A browser, over HTTP/1.1 and over TLS, where its EventSource is on HTTP/2.
func TestBrowser(t *testing.T) {
	chromium := program(t, "install Chromium or Chrome", "chromium", "chromium-browser", "google-chrome")
	for name, change := range map[string]func(*httptest.Server){
		"http":  func(*httptest.Server) {},
		"https": func(srv *httptest.Server) { srv.EnableHTTP2 = true },
	} {
		t.Run(name, func(t *testing.T) {
			e := ends{m: map[string]string{}}
			report := make(chan string, 1)
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, interopDir+"/page.html") })
			mux.HandleFunc("/tab", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, interopDir+"/tab.html") })
			mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				report <- string(b)
			})
			mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
				name := "WebSocket " + r.URL.Query().Get("case")
				c, err := AcceptWebSocket(w, r, WebSocketOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				go func() { e.set(name, serveEcho(c)) }()
			})
			mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
				name := "EventSource " + r.URL.Query().Get("case")
				second := r.Header.Get("Last-Event-ID") != ""
				s, err := AcceptSSE(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				serve := func() {
					if strings.HasSuffix(name, " page") && !second {
						s.Write([]byte("retry: 50\n\nevent: greeting\ndata: hello\nid: 7\n\n"), time.Second)
						s.Close()
						name += ", first"
					} else {
						s.Write([]byte(": hb\n\nevent: again\ndata: "+r.Header.Get("Last-Event-ID")+"\n\n"), time.Second)
					}
					e.set(name, s.Wait())
					s.Close()
				}
				if s.Detached() {
					go serve()
				} else {
					serve()
				}
			})
			srv := startServer(t, mux.ServeHTTP, change)
			browse(t, chromium, srv.URL, func() {
				var got any
				if err := json.Unmarshal([]byte(getLong(t, report)), &got); err != nil {
					t.Fatal(err)
				}
				want := map[string]any{
					"protocol": "rollcall.v1", "extensions": "", "echo": []any{true, true, true, true},
					"closedByServer": []any{4503.0, "draining", true}, "closedByClient": []any{4000.0, true}, "violation": []any{1003.0},
					"greeting": []any{"hello", "7"}, "again": "7",
				}
				if d := cmp.Diff(any(want), got); d != "" {
					t.Errorf("browser (-want +got)\n%s", d)
				}
				e.check(t, map[string]string{
					"WebSocket page": "local", "WebSocket own": `closed 4000 "goodbye"`, "WebSocket bad": `violation 1003 ""`,
					"EventSource page, first": "local", "EventSource page": "closed",
					// What a person does who closes a tab.
					"WebSocket tab": `closed 1001 ""`, "EventSource tab": "closed",
				})
			})
		})
	}
}

func getLong(t *testing.T, c <-chan string) string {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(60 * time.Second): // a browser starts slowly
		t.Fatal("the page did not report")
		panic("unreachable")
	}
}

// browse shows url to a headless browser while do runs.
func browse(t *testing.T, chromium, url string, do func()) {
	profile, err := os.MkdirTemp("", "rollcall-interop-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
		"--ignore-certificate-errors", "--remote-debugging-port=0", "--user-data-dir="+profile, url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the browser is many processes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		os.RemoveAll(profile)
	}()
	do()
}
