package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	firstCert, firstKey, _ := certificate(t)
	nextCert, nextKey, _ := certificate(t)
	copyTo := func(to, from string, at time.Time) {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(to, at, at); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &certificateFile{cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key"), log: slog.New(slog.DiscardHandler)}
		if f.read() == nil {
			t.Error("files that are not there were read")
		}
		copyTo(f.cert, firstCert, time.Now())
		copyTo(f.key, firstKey, time.Now())
		if err := f.read(); err != nil {
			t.Fatal(err)
		}
		first, _ := f.get(nil)
		// Between the two writes of whoever renews it, the old one serves.
		time.Sleep(time.Minute)
		copyTo(f.cert, nextCert, time.Now())
		if got, _ := f.get(nil); got != first {
			t.Error("half a change is served")
		}
		copyTo(f.key, nextKey, time.Now())
		time.Sleep(certificateLook)
		next, _ := f.get(nil)
		if next == first || next == nil {
			t.Error("the new certificate is not served")
		}
		time.Sleep(time.Hour)
		if got, _ := f.get(nil); got != next {
			t.Error("it is read again although it has not changed")
		}
	})
}

// A certificate that was obtained before serves from the cache, and other names
// are refused without asking anybody.
func TestAutomaticCertificatesAreForTheirHostsAlone(t *testing.T) {
	cert, key, _ := certificate(t, "presence.example.com")
	dir := t.TempDir()
	var both []byte
	for _, file := range []string{key, cert} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, raw...)
	}
	if err := os.WriteFile(filepath.Join(dir, "presence.example.com"), both, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := settle(t, nil, "", "serve", "--guests", "--tls-autocert", "presence.example.com", "--tls-cache", dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := tlsConfig(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	hello := func(name string) error {
		_, err := config.GetCertificate(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256}})
		return err
	}
	if err := hello("presence.example.com"); err != nil {
		t.Error(err)
	}
	if err := hello("evil.example.com"); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("another host: %v", err)
	}
	for _, args := range [][]string{
		{"--tls-autocert", "127.0.0.1"}, {"--tls-autocert", "localhost"}, {"--tls-autocert", "https://a.example"},
		{"--tls-cache", dir}, {"--tls-autocert", "a.example", "--tls-cert", cert, "--tls-key", key},
	} {
		if _, err := settle(t, nil, "", append([]string{"serve", "--guests"}, args...)...); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
