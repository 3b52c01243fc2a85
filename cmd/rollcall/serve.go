package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"rollcall/cmd/rollcall/demo"
	"rollcall/server"
	"rollcall/store"
	"rollcall/web"
)

type serveCommand struct {
	settings
}

// Run serves until a signal.
func (c *serveCommand) Run(ctx *kong.Context, con *console) error {
	return c.run(ctx, con, false)
}

type devCommand struct {
	settings
}

// Run serves on this machine until a signal.
func (c *devCommand) Run(ctx *kong.Context, con *console) error {
	return c.run(ctx, con, true)
}

func (s *settings) run(ctx *kong.Context, con *console, dev bool) error {
	log := newLogger(con.err, s.LogLevel, s.LogFormat)
	slog.SetDefault(log)
	checked, err := s.check(ctx, dev)
	if err != nil {
		return err
	}
	if checked.jwks != nil {
		defer checked.jwks.Close()
	}
	return serve(checked, con, log)
}

const (
	maxHeader   = 64 << 10
	headerWait  = 10 * time.Second
	idleWait    = 2 * time.Minute
	drainLinger = 5 * time.Second // past --drain, for the last clients to go
)

// node is a running server. Owned by serve.
type node struct {
	presence *server.Server
	store    store.Store
	main     *http.Server
	admin    *http.Server
	demo     *demo.Handler // nil unless dev
	failed   chan error    // of capacity 2: a listener that stopped by itself
	serving  sync.WaitGroup
}

// serve runs a node until it is told to stop, and then drains it.
func serve(c *checked, con *console, log *slog.Logger) error {
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)

	listener, adminListener, err := listen(c)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer adminListener.Close()
	starting, started := interrupted()
	n, err := newNode(starting, c, log)
	started()
	if err != nil {
		return err
	}
	defer n.close()
	warn(c, log)
	n.start(n.admin, adminListener)
	n.start(n.main, listener)

	con.say("admin on http://%s", adminListener.Addr())
	scheme := "http"
	if c.TLSCert != "" || len(c.TLSAutocert) > 0 {
		scheme = "https"
	}
	if c.dev {
		con.say("open %s://%s in a browser, and there \"Open as another guest\"; two tabs alone are one guest", scheme, listener.Addr())
	}
	con.say("listening on %s://%s", scheme, listener.Addr())

	select {
	case err := <-n.failed:
		return err
	case <-stop:
	}
	if err := n.drain(c.Drain, stop, log); err != nil {
		return err
	}
	return n.save(c)
}

// newNode wires a node together. ctx ends the wait for its store.
func newNode(ctx context.Context, c *checked, log *slog.Logger) (*node, error) {
	n := &node{failed: make(chan error, 2)}
	var err error
	if n.store, c.secret, err = openStore(ctx, c, log); err != nil {
		return nil, err
	}
	o := server.Options{
		Store: n.store, Auth: c.auth, Origins: c.AllowedOrigin, Timing: c.timing, Limits: c.limits, Modes: c.modes, Rules: c.rules,
		NodeID: c.NodeID, Secret: c.secret, Logger: log,
		Registry: newRegistry(c),
	}
	if c.dev {
		n.demo = demo.New()
		mux := http.NewServeMux()
		mux.Handle("/demo/", n.demo)
		mux.Handle("/", http.FileServerFS(web.Static))
		o.Static = pages(mux)
	}
	if n.presence, err = server.New(o); err != nil {
		n.store.Close()
		return nil, err
	}
	var api http.Handler = n.presence
	if n.demo != nil {
		api = n.demo.Serve(api)
	}
	n.main, n.admin = newHTTP(api, log), newHTTP(n.presence.Admin(), log)
	if n.main.TLSConfig, err = tlsConfig(c, log); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// newRegistry has the metrics of the process, to which those of presence come.
func newRegistry(c *checked) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rollcall_max_connections", Help: "Most open streams that this node takes.",
		}, func() float64 { return float64(c.MaxConnections) }))
	return r
}

// newHTTP speaks HTTP/1.1, and HTTP/2 with and without TLS. Writes have no limit
// of time: streams last, and whoever owns one sees to those that do not read.
func newHTTP(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerWait, IdleTimeout: idleWait,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// start serves a listener.
func (n *node) start(s *http.Server, l net.Listener) {
	n.serving.Go(func() {
		var err error
		if s.TLSConfig != nil {
			err = s.ServeTLS(l, "", "")
		} else {
			err = s.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			n.failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	})
}

// drain sends the clients away and waits for them to go. A second signal ends
// the waiting.
func (n *node) drain(over time.Duration, stop <-chan os.Signal, log *slog.Logger) error {
	log.Info("draining", "over", over)
	if n.demo != nil {
		n.demo.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), over+drainLinger)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := n.presence.Drain(ctx, over)
		if err == nil {
			err = n.main.Shutdown(ctx)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("drain: %w", err)
		}
		log.Info("drained")
		return nil
	case <-stop:
		cancel()
		<-done
		return failed("", "interrupted before everybody was told to go elsewhere")
	}
}

// save writes who is here to --state, once nothing changes any more.
func (n *node) save(c *checked) error {
	memory, ok := n.store.(*store.Memory)
	if c.State == "" || !ok {
		return nil
	}
	n.presence.Close()
	return saveState(c.State, c.secret, memory)
}

// close ends what is left, at once.
func (n *node) close() {
	if n.main != nil {
		n.main.Close()
		n.admin.Close()
	}
	if n.demo != nil {
		n.demo.Close()
	}
	n.presence.Close()
	n.store.Close()
	n.serving.Wait()
}

// pages adds what a browser should know about our own pages.
func pages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range pageHeaders {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// pageHeaders is static.
var pageHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-cache",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// listen opens both listeners. That both ports are taken is told at once: who
// starts a second server is not to be told of one after the other.
func listen(c *checked) (main, admin net.Listener, err error) {
	// Whether a client lives is shown by what it says, and who is silent is sent
	// away: the kernel need not ask too, at four calls for each connection.
	o := net.ListenConfig{KeepAlive: -1}
	admin, adminErr := o.Listen(context.Background(), "tcp", c.AdminListen)
	main, mainErr := o.Listen(context.Background(), "tcp", c.Listen)
	if adminErr == nil && mainErr == nil {
		return main, admin, nil
	}
	for _, l := range []net.Listener{main, admin} {
		if l != nil {
			l.Close()
		}
	}
	switch {
	case errors.Is(adminErr, syscall.EADDRINUSE) && errors.Is(mainErr, syscall.EADDRINUSE):
		return nil, nil, failed(fmt.Sprintf("does a rollcall run already? --listen %s --admin-listen %s takes any ports that are free", anyPort(c.Listen), anyPort(c.AdminListen)),
			"--listen %s and --admin-listen %s: something else listens at both", c.Listen, c.AdminListen)
	case mainErr != nil:
		return nil, nil, listenFailure("--listen", c.Listen, mainErr)
	}
	return nil, nil, listenFailure("--admin-listen", c.AdminListen, adminErr)
}

// listenFailure tells why nobody can listen at the address of a flag.
func listenFailure(flag, address string, err error) *failure {
	const here = "127.0.0.1:PORT is for this machine alone, and :PORT for all of its addresses"
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return failed(here, "%s %s: the name of the host is not known here", flag, address)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return failed(fmt.Sprintf("does a rollcall run already? %s %s takes any port that is free", flag, anyPort(address)), "%s %s: something else listens there", flag, address)
	case errors.Is(err, syscall.EACCES):
		return failed(fmt.Sprintf("%s with a port of 1024 or more", flag), "%s %s: not allowed to listen there", flag, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failed(here, "%s %s: this machine has no such address", flag, address)
	}
	return failed("", "%s %s: %w", flag, address, err)
}

// anyPort is an address with whichever port is free.
func anyPort(address string) string {
	host, _, _ := net.SplitHostPort(address) // it was one to listen at
	return net.JoinHostPort(host, "0")
}
