package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes one for 127.0.0.1, and names, and returns its files.
func certificate(t *testing.T, names ...string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool = x509.NewCertPool()
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(text)
	}
	return certFile, keyFile, pool
}

// serving starts a node by its flags and returns its address.
func serving(t *testing.T, args ...string) string {
	t.Helper()
	c, err := settle(t, nil, "", append(args, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	l, admin, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	n.start(n.main, l)
	n.start(n.admin, admin)
	return l.Addr().String()
}

func TestEveryVersionOfHTTPIsSpoken(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	clear := serving(t, "serve", "--guests")
	secure := serving(t, "serve", "--guests", "--tls-cert", certFile, "--tls-key", keyFile)
	only := func(set func(*http.Protocols)) *http.Protocols {
		p := new(http.Protocols)
		set(p)
		return p
	}
	http1 := only(func(p *http.Protocols) { p.SetHTTP1(true) })
	http2 := only(func(p *http.Protocols) { p.SetHTTP2(true) })
	h2c := only(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	tests := []struct {
		url       string
		protocols *http.Protocols
		want      string
	}{
		{"http://" + clear, http1, "HTTP/1.1"}, {"http://" + clear, h2c, "HTTP/2.0"},
		{"https://" + secure, http1, "HTTP/1.1"}, {"https://" + secure, http2, "HTTP/2.0"},
	}
	for _, tt := range tests {
		transport := &http.Transport{Protocols: tt.protocols, TLSClientConfig: &tls.Config{RootCAs: pool}}
		response, err := (&http.Client{Transport: transport}).Get(tt.url + "/v1/rooms/r")
		if err != nil {
			t.Errorf("%s %s: %v", tt.url, tt.want, err)
			continue
		}
		response.Body.Close()
		transport.CloseIdleConnections()
		if response.StatusCode != http.StatusOK || response.Proto != tt.want {
			t.Errorf("%s: %s %s, want %s", tt.url, response.Proto, response.Status, tt.want)
		}
	}
}

func TestCertificateThatCannotBeReadIsTold(t *testing.T) {
	c, err := settle(t, nil, "", "serve", "--guests", "--tls-cert", "nowhere", "--tls-key", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newNode(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Errorf("error %v", err)
	}
}

func TestPageComesWithItsHeaders(t *testing.T) {
	get := func(address, path string) *http.Response {
		t.Helper()
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	dev := serving(t, "dev")
	page := get(dev, "/")
	if page.StatusCode != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%s %s", page.Status, page.Header.Get("Content-Type"))
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'self'; connect-src 'self' ws: wss:",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := page.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := get(dev, "/nowhere").StatusCode; got != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", got)
	}
	if got := get(serving(t, "serve", "--guests"), "/").StatusCode; got != http.StatusNotFound {
		t.Errorf("serve has a page: %d", got)
	}
}

func TestLogsAreTextOrJSONAndHaveALevel(t *testing.T) {
	for _, tt := range []struct{ level, format, want string }{
		{"info", "auto", `level=WARN msg=careful n=1`}, {"warn", "text", `level=WARN msg=careful n=1`},
		{"debug", "json", `"level":"WARN","msg":"careful","n":1`}, {"error", "json", ""},
	} {
		var b bytes.Buffer
		newLogger(&b, tt.level, tt.format).Warn("careful", "n", 1)
		if got := b.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s %s: %q, want %q", tt.level, tt.format, got, tt.want)
		}
		if tt.format == "json" && b.Len() > 0 && !json.Valid(b.Bytes()) {
			t.Errorf("not JSON: %s", b.String())
		}
	}
}
