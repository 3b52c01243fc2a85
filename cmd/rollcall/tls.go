package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/acme/autocert"
)

// tlsConfig is how to serve https by the settings; nil: http.
func tlsConfig(c *checked, log *slog.Logger) (*tls.Config, error) {
	if len(c.TLSAutocert) > 0 {
		dir, err := autocertDir(c.TLSCache)
		if err != nil {
			return nil, err
		}
		manager := &autocert.Manager{
			Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir), HostPolicy: autocert.HostWhitelist(c.TLSAutocert...),
		}
		config := manager.TLSConfig()
		config.MinVersion = tls.VersionTLS12
		return config, nil
	}
	if c.TLSCert == "" {
		return nil, nil
	}
	f := &certificateFile{cert: c.TLSCert, key: c.TLSKey, log: log}
	if err := f.read(); err != nil {
		return nil, wrong("", "--tls-cert: %w", err)
	}
	return &tls.Config{GetCertificate: f.get, MinVersion: tls.VersionTLS12}, nil
}

func autocertDir(dir string) (string, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", wrong("--tls-cache DIR, where certificates survive a restart", "--tls-autocert: %w", err)
		}
		dir = filepath.Join(cache, "rollcall", "certificates")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", wrong("", "--tls-cache: %w", err)
	}
	return dir, nil
}

// certificateLook is the least time between two looks at the files.
const certificateLook = 10 * time.Second

// certificateFile is a certificate that is read again when its files change, as
// whoever renews it expects. Safe for concurrent use.
type certificateFile struct {
	cert, key string // static
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate // Guarded by mu. What it points to is static.
	changed [2]time.Time     // Guarded by mu. The times of the files that were read.
	looked  time.Time        // Guarded by mu.
}

// get implements [tls.Config.GetCertificate]. While the files cannot be read, the
// last certificate serves.
func (f *certificateFile) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) >= certificateLook && f.times() != f.changed {
		if err := f.readLocked(); err != nil {
			f.log.Error("read the certificate again", "error", err)
		} else {
			f.log.Info("the certificate was read again")
		}
	}
	return f.current, nil
}

func (f *certificateFile) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readLocked()
}

func (f *certificateFile) readLocked() error {
	f.looked = time.Now()
	changed := f.times()
	certificate, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return err // perhaps one of the two is not written yet
	}
	f.current, f.changed = &certificate, changed
	return nil
}

// times are when the files changed; zero where that cannot be told.
func (f *certificateFile) times() (at [2]time.Time) {
	for i, name := range [...]string{f.cert, f.key} {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}
