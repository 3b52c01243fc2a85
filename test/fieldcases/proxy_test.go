package fieldcases

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rollcall/test/harness"
)

// nginx starts nginx before a server, with a proxy_pass as people write it, and
// returns its URL.
func nginx(t *testing.T, s *harness.Server) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	dir, err := os.MkdirTemp("", "rollcall-nginx-")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	config := fmt.Sprintf(`
worker_processes 1;
error_log %[1]s/error.log;
pid %[1]s/nginx.pid;
events { worker_connections 128; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[2]s;
		location / { proxy_pass http://%[3]s; proxy_read_timeout 2s; }
		location /v1/ws {
			proxy_pass http://%[3]s;
			proxy_read_timeout 2s;
			proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection upgrade;
		}
	}
}`, dir, addr, s.Host())
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", file, "-e", filepath.Join(dir, "error.log"), "-g", "daemon off; master_process off;")
	if err := cmd.Start(); err != nil {
		t.Fatalf("this test needs nginx: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	harness.Eventually(t, 10*time.Second, "nginx listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
	return "http://" + addr
}

// TestA33ProxiesPassEventsAtOnce: through nginx as it comes, an event arrives when
// it happens, and a stream outlives the proxy's limit for silence.
func TestA33ProxiesPassEventsAtOnce(t *testing.T) {
	harness.Worlds(t, harness.Config{}, func(t *testing.T, s *harness.Server, over harness.Transport) {
		url := nginx(t, s)
		w := s.Open(t, over, harness.Options{Rooms: []string{room}, Observe: true, URL: url})
		at := time.Now()
		o := in("ana")
		o.URL = url
		ana := s.Open(t, over, o)
		w.Until(soon, "ana joins", func() bool { return w.Has(room, "ana") })
		if d := w.Joins(room, "ana")[0].At.Sub(at); d > 2*time.Second {
			t.Errorf("the join came after %v: that was a buffer", d)
		}
		w.Never(2500*time.Millisecond, "a stream ends", func() bool { return !w.Open() || !ana.Open() })
		sawOnly(t, w, "ana", 1, 0)
		ana.Close()
		w.Until(soon, "ana leaves", gone(w, "ana"))
		if over == harness.WS {
			return
		}
		for _, base := range []string{url, s.URL} {
			res, err := http.Head(base + harness.RoomPath(room, "/stream?user=head"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store, no-transform" {
				t.Errorf("HEAD: %d %v", res.StatusCode, res.Header)
			}
			if base == s.URL && res.Header.Get("X-Accel-Buffering") != "no" {
				t.Errorf("HEAD: X-Accel-Buffering is %q", res.Header.Get("X-Accel-Buffering"))
			}
		}
		for _, name := range []string{"Content-Type", "Cache-Control"} {
			if w.Head().Get(name) == "" {
				t.Errorf("GET has no %s", name)
			}
		}
		if n := s.Count(room); n != 0 {
			t.Errorf("count after HEAD: got %d, want 0", n)
		}
	})
}
