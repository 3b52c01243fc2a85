package harness

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall"
	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

// Secret signs the tokens of tests, and APIKey is the key of their back end.
const (
	Secret = "harness-harness-harness-harness-"
	APIKey = "sk_harness_0123456789abcdefghij"
)

// Config is how a server is set up. The zero value is a server in this process,
// with a store in memory, guests, and times that are a tenth of the usual.
type Config struct {
	// Lease (3 s), Beat (900 ms) and Grace (200 ms; negative is none).
	Lease, Beat, Grace time.Duration
	// Tokens has users come with a JWT ([Server.Token]) or the APIKey. Without
	// it everybody is a guest who may do everything.
	Tokens bool
	// Origins that may call besides the server's own.
	Origins []string
	// Pair runs two nodes on a Redis that they share; see [Worlds].
	Pair bool
	// Process runs the program itself and not the library.
	Process bool
	// Args are more flags of the program.
	Args []string
	// Listen is the address of the program; a free port of 127.0.0.1 if "".
	Listen string
	// Launch starts the program, if that takes more than its Start.
	Launch func(*exec.Cmd) error

	// The rest is for servers in this process alone.

	// Wrap puts something between the server and its store.
	Wrap func(store.Store) store.Store
	// Modes are when rooms tell a number; the defaults if zero.
	Modes rollcall.Modes
	// Limits changes the table of limits.
	Limits func(*rollcall.Limits)
	// TLS serves HTTPS with HTTP/2.
	TLS bool
	// HTTP changes the http.Server before it starts.
	HTTP func(*http.Server)
	// Settling says that the store begins as one that has lost its memory.
	Settling bool

	store string // URL of the store; "": in memory
}

func (c *Config) fill() {
	if c.Lease == 0 {
		c.Lease = 3 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = 900 * time.Millisecond
	}
	if c.Grace == 0 {
		c.Grace = 200 * time.Millisecond
	}
	c.Grace = max(c.Grace, 0)
}

// Gone is how long a user may stay on a roster after the last sign of life, with
// slack for a busy machine: the lease, a pulse, a tick, and a second.
func (c Config) Gone() time.Duration { return c.Lease + 1500*time.Millisecond }

// Server is a running server.
type Server struct {
	Config
	URL   string // http://127.0.0.1:port
	Admin string

	t    testing.TB
	http *http.Client
	tls  *tls.Config // nil without TLS

	inside *inside  // nil for a process
	proc   *process // nil in this process
	nodes  *Nodes   // nil: the only node
	far    *Server  // of a pair: where members are; nil: there is none
	known  *known   // static; who may be named, shared by all nodes

	mu      sync.Mutex
	clients []*Client // Guarded by mu.
	proxies []*Proxy  // Guarded by mu.
	extras  []func()  // Guarded by mu. Further checks at rest.
}

// inside is a server in this process.
type inside struct {
	store  store.Store
	server *server.Server
	api    *httptest.Server
	admin  *httptest.Server
}

// Start starts a server and, when the test ends, checks and stops it.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	return start(t, c, nil)
}

func start(t testing.TB, c Config, nodes *Nodes) *Server {
	t.Helper()
	c.fill()
	s := &Server{Config: c, t: t, nodes: nodes, known: newKnown()}
	if nodes != nil {
		s.known = nodes.known
	}
	if c.Pair {
		s.startPair(c)
	}
	s.open()
	t.Cleanup(s.finish)
	return s
}

// open starts the server itself.
func (s *Server) open() {
	s.t.Helper()
	if s.Process {
		s.startProcess()
	} else {
		s.startInside()
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 16, TLSClientConfig: s.tls, ForceAttemptHTTP2: s.TLS}
	s.http = &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// Timing is the timing of the server.
func (c *Config) Timing() rollcall.Timing {
	return rollcall.Timing{Lease: c.Lease, Beat: c.Beat, CloseGrace: c.Grace, ConnectionUpdates: time.Second}
}

func (s *Server) startInside() {
	s.t.Helper()
	limits := rollcall.DefaultLimits()
	if s.Config.Limits != nil {
		s.Config.Limits(&limits)
	}
	in := &inside{}
	var err error
	if in.store, err = s.newStore(limits); err != nil {
		s.t.Fatal(err)
	}
	if s.Wrap != nil {
		in.store = s.Wrap(in.store)
	}
	authenticator, err := s.authenticator()
	if err != nil {
		s.t.Fatal(err)
	}
	in.server, err = server.New(server.Options{
		Store: in.store, Auth: authenticator, Origins: s.Origins, Timing: s.Timing(), Limits: limits, Modes: s.Modes,
		Secret: []byte(Secret), Logger: silence,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	in.api = httptest.NewUnstartedServer(in.server)
	in.api.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError)
	if s.HTTP != nil {
		s.HTTP(in.api.Config)
	}
	if s.TLS {
		in.api.EnableHTTP2 = true
		in.api.StartTLS()
		s.tls = in.api.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	} else {
		in.api.Start()
	}
	in.admin = httptest.NewServer(in.server.Admin())
	s.inside, s.URL, s.Admin = in, in.api.URL, in.admin.URL
}

// silence is a logger for servers whose tests bring about what they warn of.
var silence = slog.New(slog.NewTextHandler(io.Discard, nil))

func (s *Server) authenticator() (auth.Authenticator, error) {
	keys, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: APIKey})
	if err != nil {
		return nil, err
	}
	if !s.Tokens {
		return auth.Chain(keys, auth.Guests{}), nil
	}
	set, err := auth.NewKeys(auth.SecretKey("", []byte(Secret)))
	if err != nil {
		return nil, err
	}
	tokens, err := auth.NewJWT(auth.JWTOptions{Keys: set})
	return auth.Chain(keys, tokens), err
}

// Claims is what a token says, and Capability what it allows.
type (
	Claims     = auth.Claims
	Capability = auth.Capability
)

// Read is the capability to see who is here.
const Read = auth.Read

// Token mints a token. Without rooms it gives presence everywhere.
func (s *Server) Token(c Claims) string {
	s.t.Helper()
	if c.Rooms == nil && c.Grants == nil {
		c.Rooms = []string{"*"}
	}
	token, err := auth.Mint([]byte(Secret), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// Embedded is the server in this process; nil if it is a process of its own.
func (s *Server) Embedded() *server.Server {
	if s.inside == nil {
		return nil
	}
	return s.inside.server
}

// Host is host:port.
func (s *Server) Host() string { return s.URL[strings.Index(s.URL, "://")+3:] }

// stop ends the server, and the other one of a pair. It is called once.
func (s *Server) stop() {
	if s.far != nil {
		s.far.stop()
	}
	if in := s.inside; in != nil {
		in.server.Close()
		in.api.Close()
		in.admin.Close()
		in.store.Close()
	} else {
		s.proc.stop(s.t)
	}
	s.http.CloseIdleConnections()
}

// Know tells that events may name these users in a room. The clients of this
// package do so by themselves.
func (s *Server) Know(room string, users ...string) { s.known.add(room, users) }

// known is who may be named in which room. Safe for concurrent use.
type known struct {
	mu    sync.Mutex
	users map[[2]string]bool // Guarded by mu.
}

func newKnown() *known { return &known{users: make(map[[2]string]bool)} }

func (k *known) add(room string, users []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range users {
		k.users[[2]string{room, u}] = true
	}
}

func (k *known) has(room, user string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.users[[2]string{room, user}]
}

// AtRest adds a check that is made at the end of the test, once all clients are
// gone and before the server stops.
func (s *Server) AtRest(check func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extras = append(s.extras, check)
}
