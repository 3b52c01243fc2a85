package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
)

// Options are the settings of a [Server]. Store and Auth are required; the zero
// value of everything else works.
type Options struct {
	// Store decides and remembers. The server calls Feed on it and does not
	// close it.
	Store store.Store
	// Auth turns what a client shows into an identity.
	Auth auth.Authenticator
	// Origins are the web origins that may call besides the server's own, such
	// as https://app.example.com. One list for CORS, cookies and WebSockets.
	Origins []string
	// Timing, Limits, Modes and Rules must be those of the store; the zero values
	// mean the defaults. Rules are exceptions to Modes, and say more of rooms.
	Timing rollcall.Timing
	Limits rollcall.Limits
	Modes  rollcall.Modes
	Rules  rollcall.RoomRules
	// NodeID names this node; random if empty.
	NodeID string
	// Secret signs the resume secrets of connections; all nodes have the same,
	// best of 16 random bytes or more. Random if empty, and then a restart makes
	// clients start afresh.
	Secret []byte
	// Logger; slog.Default if nil.
	Logger *slog.Logger
	// Registry takes the metrics; a new one if nil.
	Registry *prometheus.Registry
	// Static serves what is not the API, such as the demo page; 404 if nil.
	Static http.Handler
}

func (o *Options) fill() error {
	if o.Store == nil {
		return errors.New("server: Options.Store is required")
	}
	if o.Auth == nil {
		return errors.New("server: Options.Auth is required")
	}
	if o.Timing == (rollcall.Timing{}) {
		o.Timing = rollcall.DefaultTiming()
	}
	if o.Limits == (rollcall.Limits{}) {
		o.Limits = rollcall.DefaultLimits()
	}
	if o.Modes == (rollcall.Modes{}) {
		o.Modes = rollcall.DefaultModes()
	}
	if o.NodeID == "" {
		var b [4]byte
		rand.Read(b[:])
		o.NodeID = hex.EncodeToString(b[:])
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return nil
}

// The pace of the server. What depends on the lease scales with it, so that
// short leases keep the same proportions.
const (
	tickEvery    = 50 * time.Millisecond  // between two fan-outs of a room
	tickLarge    = 250 * time.Millisecond // of the largest rooms
	slowAfter    = 10 * time.Second       // a stream that takes nothing is ended
	authWithin   = 5 * time.Second        // for the first message of a WebSocket without a token
	tokenLinger  = 5 * time.Second        // after exp, before the stream ends
	ownMax       = 256 << 10              // bytes of answers that a client may leave unread
	closeLinger  = 2 * time.Second        // for a client to answer a close frame
	beatsPending = 4                      // beats of a stream that may still be answered
)

// pulseEvery is how often a node looks at what is due: 250 ms with a lease of
// 30 s.
func pulseEvery(lease time.Duration) time.Duration {
	return min(max(lease/120, 5*time.Millisecond), 250*time.Millisecond)
}
