package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// settings are the flags of dev and serve.
type settings struct {
	Config configFile `placeholder:"FILE" help:"YAML file of these flags: a key each, without the dashes before it."`

	Listen      string   `default:"127.0.0.1:8080" help:"Where clients connect. Port 0 is any that is free."`
	AdminListen string   `default:"127.0.0.1:9090" help:"Where /livez, /readyz and /metrics are. Not for the public."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM, to serve https."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" help:"Private key of --tls-cert, PEM."`
	TLSAutocert []string `name:"tls-autocert" placeholder:"HOST" help:"Serve https with certificates of Let's Encrypt for these host names. Repeatable. It needs --listen :443, or that port passed on to it."`
	TLSCache    string   `name:"tls-cache" placeholder:"DIR" help:"Where certificates of --tls-autocert are kept. In the user's cache directory if not given."`

	Store      string        `default:"memory" help:"Where presence is kept: memory, or redis://HOST:PORT for many nodes (rediss:// with TLS, several hosts with commas between them for a cluster, redis+sentinel://H1:P1,H2:P2/MASTER)."`
	StoreWait  time.Duration `default:"10s" least:"0s" most:"24h" help:"How long to wait at the start for a store that is not there yet."`
	State      string        `placeholder:"FILE" help:"With --store memory: where a stop saves who is here, for the next start to go on from."`
	NodeID     string        `name:"node-id" placeholder:"NAME" help:"Name of this node. Random if not given."`
	Secret     string        `placeholder:"TEXT" help:"Signs what connections resume by; the same on every node. Random if not given, and then a restart makes clients start afresh."`
	SecretFile string        `placeholder:"FILE" help:"File of --secret."`

	Guests        bool     `negatable:"" help:"Let everybody in as whoever they say they are."`
	JWTSecret     string   `name:"jwt-secret" placeholder:"TEXT" help:"Verifies the tokens of the application: HS256, HS384, HS512. Best of 32 random bytes or more."`
	JWTSecretFile string   `name:"jwt-secret-file" placeholder:"FILE" help:"File of --jwt-secret."`
	JWTKeys       string   `name:"jwt-keys" placeholder:"FILE" help:"Public keys that verify the tokens of the application (RS256, ES256, EdDSA): a JWK Set, or PEM."`
	JWKSURL       string   `name:"jwks-url" placeholder:"URL" help:"Where such keys are fetched, as an identity provider publishes them: a JWK Set."`
	AuthURL       string   `name:"auth-url" placeholder:"URL" help:"Asked who a client is, with the cookies and the Authorization of its request."`
	APIKey        []string `name:"api-key" placeholder:"NAME=sk_..." help:"Key of a back end. Repeatable."`
	APIKeyFile    string   `name:"api-key-file" placeholder:"FILE" help:"File of --api-key, a line each."`
	AllowedOrigin []string `placeholder:"ORIGIN" help:"Web origin that may connect besides our own, such as https://app.example.com. Repeatable."`

	Lease       time.Duration `default:"30s" least:"200ms" most:"24h" help:"How long a connection is here after its last sign of life."`
	Beat        time.Duration `placeholder:"9s" least:"20ms" most:"24h" help:"Time between two signs of life; three tenths of --lease if not given. Three should fit into a lease."`
	CloseGrace  time.Duration `default:"1s" least:"0s" most:"24h" help:"How long a closed tab may take to come back before it is gone."`
	CountsAbove int           `default:"200" least:"1" most:"1000000000" help:"Rooms with more members tell a number and name nobody."`
	CountsBelow int           `default:"150" least:"1" most:"1000000000" help:"Such rooms with fewer members name everybody again."`
	CountEvery  time.Duration `default:"1s" least:"50ms" most:"1h" help:"Least time between two numbers of such a room."`
	Room        []string      `placeholder:"PATTERN:SETTING=VALUE" help:"What is different in some rooms, such as 'live:*:counts-above=500'. Settings: counts-above, counts-below, count-every; signals (all, scope or none) in rooms that tell a number; estimate, for rooms that name nobody at all, such as 'stadium:*:estimate'. A pattern is an id, or the beginning of ids and a star. Repeatable; the most specific one counts."`
	Drain       time.Duration `placeholder:"15s" least:"0s" most:"1h" help:"Time over which clients are sent away at the end; dev sends them at once if not given."`

	UserIndex bool `default:"true" negatable:"" help:"Know where users are over all rooms, and when they were last seen."`

	MaxConnections int `default:"20000" least:"1" most:"10000000" help:"Most connections of this node."`
	MaxAccept      int `default:"1000" least:"1" most:"10000000" help:"Most new connections a second."`

	MaxContacts int `default:"200" least:"0" most:"1000" help:"Most contacts of a connection; 0 lets nobody ask."`

	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"debug, info, warn or error."`
	LogFormat string `enum:"auto,text,json" default:"auto" help:"auto, text or json; auto is colored on a terminal and text elsewhere."`
}

// checked is what settings come to.
type checked struct {
	settings
	dev     bool
	secret  []byte // nil: random
	auth    auth.Authenticator
	jwks    *auth.JWKS // nil without --jwks-url
	timing  rollcall.Timing
	limits  rollcall.Limits
	modes   rollcall.Modes
	rules   rollcall.RoomRules
	weakKey []auth.APIKey
	doubts  []string // what is allowed and not wise
}

// check finds what is wrong with the settings before anything is started.
func (s *settings) check(ctx *kong.Context, dev bool) (*checked, error) {
	c := &checked{settings: *s, dev: dev}
	if !dev && sourceOf(ctx, "drain") == fromDefault {
		c.Drain = 15 * time.Second
	}
	for _, step := range []func() error{c.checkListen, c.checkStore, c.checkTiming, c.checkLimits, c.checkTLS,
		func() error { return c.checkSecret(ctx) },
		func() error { return c.checkAuth(ctx) },
		c.checkOrigins,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *checked) checkListen() error {
	for _, l := range []struct {
		flag    string
		address *string
	}{{"--listen", &c.Listen}, {"--admin-listen", &c.AdminListen}} {
		host, port, err := checkListen(l.flag, *l.address)
		if err != nil {
			return err
		}
		if !c.dev {
			continue
		}
		if host == "" {
			host = "127.0.0.1"
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return wrong("`rollcall serve` listens anywhere, with --jwt-secret or --guests", "dev lets everybody in as whoever they say they are, so it listens on this machine only, and not on %s %s", l.flag, *l.address)
		}
		*l.address = net.JoinHostPort(host, port)
	}
	return nil
}

func (c *checked) checkStore() error {
	if c.Store == "memory" {
		return nil
	}
	if err := checkShared(c.Store); err != nil {
		return err
	}
	if c.dev {
		c.doubts = append(c.doubts, "the text, the crowd and the cable of the demo page are of this server alone, and --store is not: on the page of another server only people and cursors are shared")
	}
	if c.State != "" {
		return wrong("leave --state out: the store keeps who is here", "--state is for --store memory")
	}
	return nil
}

// beatSpread is by how much the time between two beats may exceed the middle.
const beatSpread = 19.0 / 18

func (c *checked) checkTiming() error {
	if c.Beat == 0 {
		c.Beat = c.Lease * 3 / 10
	}
	third := time.Duration(float64(c.Lease) / 3 / beatSpread).Truncate(10 * time.Millisecond)
	switch {
	case float64(c.Beat)*beatSpread >= float64(c.Lease):
		return wrong(fmt.Sprintf("--beat %v or less, or a longer --lease", third), "--beat %v is too long for --lease %v: nobody could prove to be alive in time", c.Beat, c.Lease)
	case float64(c.Beat)*beatSpread*3 > float64(c.Lease):
		c.doubts = append(c.doubts, fmt.Sprintf("fewer than three beats fit into a lease: one lost beat may show somebody leaving; --beat %v or less is better", third))
	}
	if c.CloseGrace > c.Lease {
		return wrong("1s is the default", "--close-grace %v is longer than --lease %v", c.CloseGrace, c.Lease)
	}
	c.timing = rollcall.DefaultTiming()
	c.timing.Lease, c.timing.Beat, c.timing.CloseGrace = c.Lease, c.Beat, c.CloseGrace
	return nil
}

func (c *checked) checkLimits() error {
	if c.CountsBelow > c.CountsAbove {
		return wrong("give both: 150 and 200 are the defaults", "--counts-below %d is more than --counts-above %d", c.CountsBelow, c.CountsAbove)
	}
	c.modes = rollcall.Modes{Above: c.CountsAbove, Below: c.CountsBelow, Every: c.CountEvery}
	var err error
	if c.rules, err = rollcall.ParseRoomRules(c.Room, rollcall.RoomSettings{Modes: c.modes}); err != nil {
		return wrong("write it as --room 'live:*:counts-above=500'", "--room: %w", err)
	}
	c.limits = rollcall.DefaultLimits()
	c.limits.Connections, c.limits.AcceptsPerSecond = c.MaxConnections, float64(c.MaxAccept)
	c.limits.Contacts = c.MaxContacts
	return nil
}

func (c *checked) checkTLS() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return wrong("give both, or neither to serve http", "--tls-cert and --tls-key belong together")
	case c.TLSCert != "" && len(c.TLSAutocert) > 0:
		return wrong("leave one of them out", "--tls-cert and --tls-autocert both say where the certificate comes from")
	case c.TLSCache != "" && len(c.TLSAutocert) == 0:
		return wrong("--tls-autocert HOST, too", "--tls-cache is for --tls-autocert")
	}
	for _, host := range c.TLSAutocert {
		if net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.ContainsAny(host, "/:*") {
			return wrong("--tls-autocert presence.example.com", "--tls-autocert %q is not a host name that the world knows", host)
		}
	}
	return nil
}

func (c *checked) checkSecret(ctx *kong.Context) error {
	text, err := secret(ctx, "secret", c.Secret, c.SecretFile)
	if err != nil || text == "" {
		return err
	}
	if len(text) < auth.MinSignerSecret {
		c.doubts = append(c.doubts, "--secret is short and may be guessed; `openssl rand -base64 32` makes a good one")
	}
	c.secret = []byte(text)
	return nil
}

// checkAuth makes the chain of those who know a client.
func (c *checked) checkAuth(ctx *kong.Context) error {
	if c.dev {
		if sourceOf(ctx, "guests") != fromDefault && !c.Guests {
			return wrong("`rollcall serve` is the server without guests", "dev always lets guests in")
		}
		c.Guests = true
	}
	var chain []auth.Authenticator
	keys, err := c.apiKeys()
	if err != nil {
		return err
	}
	chain = append(chain, keys)
	sources, err := c.keySources(ctx)
	if err != nil {
		return err
	}
	checkInfo := func(info json.RawMessage) (json.RawMessage, error) { return wire.DecodeInfo(info, c.limits.Info) }
	if len(sources) > 0 {
		tokens, err := auth.NewJWT(auth.JWTOptions{Keys: sources, MaxInfo: c.limits.Info, CheckInfo: checkInfo})
		if err != nil {
			return err
		}
		chain = append(chain, tokens)
	}
	if c.AuthURL != "" {
		application, err := auth.NewApplication(auth.ApplicationOptions{URL: c.AuthURL, MaxInfo: c.limits.Info, CheckInfo: checkInfo})
		if err != nil {
			return wrong("write it as https://app.example.com/presence/auth", "--auth-url: %w", err)
		}
		chain = append(chain, application)
	}
	switch {
	case c.Guests:
		chain = append(chain, auth.Guests{})
	case len(sources) == 0 && c.AuthURL == "":
		return wrong("--jwt-secret-file FILE, --jwt-keys FILE or --jwks-url URL for your application's tokens, --auth-url URL to ask it, or --guests for everybody; `rollcall dev` is for trying", "serve needs to know who may come in")
	}
	c.auth = auth.Chain(chain...)
	return nil
}

// keySources are the keys that verify tokens: a secret, a file, a URL.
func (c *checked) keySources(ctx *kong.Context) (auth.KeySources, error) {
	var sources auth.KeySources
	text, err := secret(ctx, "jwt-secret", c.JWTSecret, c.JWTSecretFile)
	if err != nil {
		return nil, err
	}
	if text != "" {
		key := auth.SecretKey("", []byte(text))
		if key.Weak() {
			c.doubts = append(c.doubts, "--jwt-secret is short and may be guessed; `openssl rand -base64 32` makes a good one")
		}
		known, err := auth.NewKeys(key)
		if err != nil {
			return nil, wrong("`openssl rand -base64 32` makes a good one", "--jwt-secret: %w", err)
		}
		sources = append(sources, known)
	}
	if c.JWTKeys != "" {
		raw, err := os.ReadFile(c.JWTKeys)
		if err != nil {
			return nil, wrong("", "--jwt-keys: %w", err)
		}
		keys, err := auth.ParseKeySet(raw)
		if err != nil {
			return nil, wrong("a JWK Set, or what `openssl pkey -pubout` writes", "--jwt-keys: %s: %w", c.JWTKeys, err)
		}
		known, err := auth.NewKeys(keys...)
		if err != nil {
			return nil, wrong("", "--jwt-keys: %s: %w", c.JWTKeys, err)
		}
		sources = append(sources, known)
	}
	if c.JWKSURL != "" {
		if c.jwks, err = auth.NewJWKS(auth.JWKSOptions{URL: c.JWKSURL}); err != nil {
			return nil, wrong("write it as https://login.example.com/.well-known/jwks.json", "--jwks-url: %w", err)
		}
		sources = append(sources, c.jwks)
	}
	return sources, nil
}

// apiKeys reads the keys of both flags: names must not repeat, so they add up.
func (c *checked) apiKeys() (*auth.APIKeys, error) {
	lines := c.APIKey
	if c.APIKeyFile != "" {
		raw, err := os.ReadFile(c.APIKeyFile)
		if err != nil {
			return nil, wrong("", "--api-key-file: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
	}
	var keys []auth.APIKey
	for _, line := range lines {
		key, err := auth.ParseAPIKey(line)
		if err != nil {
			return nil, wrong("--api-key billing=sk_..., with a random text after sk_", "--api-key: %w", err)
		}
		if key.Weak() {
			c.weakKey = append(c.weakKey, key)
		}
		keys = append(keys, key)
	}
	known, err := auth.NewAPIKeys(keys...)
	if err != nil {
		return nil, wrong("", "--api-key: %w", err)
	}
	return known, nil
}

func (c *checked) checkOrigins() error {
	if _, err := auth.NewOrigins(c.AllowedOrigin); err != nil {
		return wrong("write it as browsers do: https://app.example.com", "--allowed-origin: %w", err)
	}
	return nil
}
