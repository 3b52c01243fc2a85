//go:build faults && linux

package proxies

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

const guide = "../../docs/guides/proxies.md"

// recipe is the text of the guide for a program.
func recipe(t testing.TB, language string) string {
	t.Helper()
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```"+language+" recipe\n(.*?)\n```").FindAllSubmatch(raw, -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d recipes in %s, want 1", guide, len(found), language)
	}
	return string(found[0][1])
}

// exactly replaces what must be there, in pairs of old and new.
func exactly(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the recipe has no %q:\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// certificate is one for localhost that signs itself.
type certificate struct {
	cert, key, both string // files
	pool            *x509.CertPool
}

var theCertificate = sync.OnceValues(func() (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rollcall-proxies-")
	if err != nil {
		return nil, err
	}
	c := &certificate{filepath.Join(dir, "app.pem"), filepath.Join(dir, "app.key"), filepath.Join(dir, "both.pem"), x509.NewCertPool()}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	c.pool.AppendCertsFromPEM(certText)
	for file, text := range map[string][]byte{c.cert: certText, c.key: keyText, c.both: append(bytes.Clone(certText), keyText...)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
})

// proxy is a running program before a server.
type proxy struct {
	name string
	url  string // https://localhost:PORT, or http://
	// limit is how long the recipe, as changed, waits in silence; 0 is for ever.
	limit time.Duration
}

// setup says how to run a program with its recipe. silence takes the place of its
// limits for silence of 60 s.
type setup func(t testing.TB, s *harness.Server, silence string) *proxy

var programs = map[string]setup{"nginx": nginx, "caddy": caddy, "haproxy": haproxy}

const silence = 3 * time.Second

func nginx(t testing.TB, s *harness.Server, silence string) *proxy {
	c, port := certificateAndPort(t)
	site := exactly(t, recipe(t, "nginx"),
		"server 127.0.0.1:8080;", "server "+s.Host()+";",
		"listen 443 ssl", "listen 127.0.0.1:"+port+" ssl",
		"app.example.com", "localhost", "/etc/ssl/app.pem", c.cert, "/etc/ssl/app.key", c.key,
		"60s", silence)
	return startNginx(t, site, "https://localhost:"+port, port)
}

// startNginx runs nginx with some settings of its http block.
func startNginx(t testing.TB, site, url, port string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollcall-nginx-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conf := strings.ReplaceAll(`
daemon off;
user root;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
`, "DIR", dir) + site + "\n}\n"
	file := write(t, dir, "nginx.conf", conf)
	run(t, port, nil, "nginx", "-p", dir, "-c", file, "-e", "stderr")
	return &proxy{name: "nginx", url: url, limit: silence}
}

func caddy(t testing.TB, s *harness.Server, _ string) *proxy { return startCaddy(t, s, "") }

// startCaddy runs Caddy with more settings of the site than the recipe has.
func startCaddy(t testing.TB, s *harness.Server, more string) *proxy {
	t.Helper()
	c, port := certificateAndPort(t)
	dir := t.TempDir()
	site := exactly(t, recipe(t, "caddyfile"),
		"127.0.0.1:8080", s.Host(),
		"app.example.com {", fmt.Sprintf("https://localhost:%s {\n\tbind 127.0.0.1\n\ttls %s %s\n\t%s", port, c.cert, c.key, more))
	file := write(t, dir, "Caddyfile", "{\n\tadmin off\n\tauto_https disable_redirects\n}\n\n"+site+"\n")
	run(t, port, []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	return &proxy{name: "caddy", url: "https://localhost:" + port}
}

func haproxy(t testing.TB, s *harness.Server, silence string) *proxy {
	c, port := certificateAndPort(t)
	_, admin, err := net.SplitHostPort(strings.TrimPrefix(s.Admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	conf := exactly(t, recipe(t, "haproxy"),
		"127.0.0.1:8080", s.Host(), "bind :443", "bind 127.0.0.1:"+port, "/etc/haproxy/app.pem", c.both,
		"port 9090", "port "+admin, "60s", silence, "maxconn 20000", "maxconn 200")
	file := write(t, t.TempDir(), "haproxy.cfg", "global\n  maxconn 400\n\n"+conf+"\n")
	run(t, port, nil, "haproxy", "-db", "-f", file)
	return &proxy{name: "haproxy", url: "https://localhost:" + port, limit: 3 * time.Second}
}

func certificateAndPort(t testing.TB) (*certificate, string) {
	t.Helper()
	c, err := theCertificate()
	if err != nil {
		t.Fatal(err)
	}
	return c, freePort(t)
}

// freePort is one that is free; these programs cannot say which one they got.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run starts a program that listens on the port, and ends it with the test.
func run(t testing.TB, port string, env []string, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path = "/usr/sbin/" + name; os.IsNotExist(statError(path)) {
			t.Fatalf("%s is missing: script/setup installs it", name)
		}
	}
	var said output
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-exited
		}
	})
	harness.Eventually(t, 20*time.Second, name+" listens", func() bool {
		select {
		case <-exited:
			t.Fatalf("%s ended:\n%s", name, said.String())
		default:
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func statError(path string) error {
	_, err := os.Stat(path)
	return err
}

// output collects what a program says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // Guarded by mu.
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
