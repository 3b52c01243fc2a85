//go:build faults && linux

package departures

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nginx is a running nginx in front of a server.
type nginx struct {
	*child
	url  string // http://127.0.0.1:PORT
	port string
}

// startNginx starts nginx with location as the settings of its only location,
// beside proxy_pass.
func startNginx(ctx context.Context, t testing.TB, s *server, location string) (*nginx, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: the rows with the build tag faults need nginx: apt-get install nginx-light", err)
	}
	dir := t.TempDir()
	// nginx cannot say which port it got.
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	conf := strings.NewReplacer("DIR", dir, "PORT", port, "SERVER", s.port, "LOCATION", location).Replace(nginxConf)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	n := &nginx{url: "http://127.0.0.1:" + port, port: port}
	n.child, err = start(t, launch{
		args: []string{path, "-p", dir, "-c", file, "-e", "stderr"},
		attr: diesWithUs(syscall.SIGTERM), // its workers end with it then
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { n.quit(t) }) // runs before the child is killed
	for {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return n, nil
		}
		if n.gone() || !pause(ctx, 20*time.Millisecond) {
			return nil, fmt.Errorf("nginx does not listen:\n%s", n.stderr())
		}
	}
}

// quit ends nginx with its workers.
func (n *nginx) quit(t testing.TB) {
	if n.gone() {
		return
	}
	n.signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(10 * time.Second):
		t.Error("nginx does not end")
	}
}

// reload has new workers take over; the old ones drop their streams.
func (n *nginx) reload() error { return n.signal(syscall.SIGHUP) }

const nginxConf = `
daemon off;
user root;
worker_processes 2;
worker_shutdown_timeout 200ms;
pid DIR/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
	server {
		listen 0.0.0.0:PORT reuseport;
		location / {
			proxy_pass http://127.0.0.1:SERVER;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection $connection_upgrade;
			LOCATION
		}
	}
}
`
