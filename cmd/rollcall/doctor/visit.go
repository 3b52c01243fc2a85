package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// patience is the most time that an answer may take.
const patience = 10 * time.Second

// visit is one examination from outside.
type visit struct {
	o    Options
	base *url.URL
	http *http.Client // with HTTP/2 where the server has it
	user string       // of a guest
	room string
	token

	// What was seen on the way; static once its check is done.
	proto  string        // of the first answer
	let    bool          // the token opens the room
	ahead  time.Duration // of the server's clock
	clock  bool          // ahead is known
	exact  bool          // to better than a second
	upward bool          // WebSockets get through
	any    bool          // every origin may connect
}

func newVisit(o Options) (*visit, error) {
	base, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = ""
	v := &visit{o: o, base: base, user: "rollcall-doctor-" + random(), token: readToken(o.Token), room: o.Room}
	if v.room == "" {
		v.room = v.token.madeUpRoom()
	}
	v.http = &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true,
		ResponseHeaderTimeout: patience, TLSHandshakeTimeout: patience, TLSClientConfig: &tls.Config{},
	}}
	return v, nil
}

func (v *visit) close() { v.http.CloseIdleConnections() }

// examine makes the checks from outside. Those that need another's success are
// left out without it.
func (v *visit) examine(ctx context.Context, found func(Finding)) {
	first := v.checkAnswer(ctx)
	found(first)
	if first.Verdict == Wrong {
		return
	}
	found(v.checkToken())
	found(v.checkHTTP())
	if v.let {
		v.examineStream(ctx, found)
	}
	found(v.checkClock())
	found(v.checkWebSocket(ctx))
	v.examineOrigins(ctx, found)
}

// at is the address of a path below /v1.
func (v *visit) at(query url.Values, path ...string) string {
	var b strings.Builder
	b.WriteString(v.base.String() + "/v1")
	for _, segment := range path {
		b.WriteString("/" + url.PathEscape(segment))
	}
	if query == nil {
		query = url.Values{}
	}
	if v.token.text == "" {
		query.Set("user", v.user)
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// answer is what came back of a call.
type answer struct {
	status int
	proto  string
	header http.Header
	body   []byte
	took   time.Duration
	sent   time.Time
}

// ours reports whether the answer is that of a Rollcall server.
func (a *answer) ours() bool { return a.header.Get("Rollcall-Request-Id") != "" }

// detail is what a refusal says.
func (a *answer) detail() string {
	var p struct{ Detail string }
	_ = json.Unmarshal(a.body, &p) // of something else, perhaps
	if p.Detail == "" {
		return http.StatusText(a.status)
	}
	return p.Detail
}

func (v *visit) request(ctx context.Context, method, address string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if v.token.text != "" {
		r.Header.Set("Authorization", "Bearer "+v.token.text)
	}
	return r, nil
}

func (v *visit) call(ctx context.Context, method, address string, body any, header http.Header) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := v.request(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	a := &answer{sent: time.Now()}
	res, err := v.http.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer res.Body.Close()
	a.took = time.Since(a.sent)
	a.status, a.proto, a.header = res.StatusCode, res.Proto, res.Header
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, 1<<20)); err != nil {
		return nil, withoutURL(err)
	}
	return a, nil
}

// withoutURL takes the address, which is known, out of an error.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (v *visit) checkAnswer(ctx context.Context) Finding {
	const name = "server"
	a, err := v.call(ctx, "GET", v.at(nil, "rooms", v.room), nil, nil)
	if err != nil {
		return wrong(name, unreachable(err), "%s does not answer: %v", v.base.Redacted(), err)
	}
	v.proto = a.proto
	if at, err := http.ParseTime(a.header.Get("Date")); err == nil {
		// Whole seconds, cut off: the middle of the second is the best guess.
		v.ahead, v.clock = at.Add(500*time.Millisecond).Sub(a.sent.Add(a.took/2)), true
	}
	switch {
	case !a.ours() && a.status/100 == 5:
		return wrong(name, "does the proxy know where the server is, and does it run? `rollcall doctor` against the server itself tells", "%d from %s, and not from a Rollcall server", a.status, orSomething(a.header.Get("Server")))
	case !a.ours() && a.status/100 == 3:
		return wrong(name, "name the address that it leads to", "it leads elsewhere: %s", a.header.Get("Location"))
	case !a.ours():
		return wrong(name, "is the URL right, and does the proxy pass /v1/ on, with its path as it is?", "%d from %s, and not from a Rollcall server", a.status, orSomething(a.header.Get("Server")))
	case a.status == http.StatusOK:
		v.let = true
		return ok(name, "answers in %s", short(a.took))
	case a.status == http.StatusUnauthorized && v.token.text == "":
		return ok(name, "answers in %s, and wants a token", short(a.took))
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		v.token.refused = a
		return ok(name, "answers in %s", short(a.took))
	}
	return wrong(name, "what does its log say?", "%d: %s", a.status, a.detail())
}

func orSomething(server string) string {
	if server == "" {
		return "something"
	}
	return server
}

// unreachable is what to do about an error of a connection.
func unreachable(err error) string {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		network   net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "the name is not known here: is it spelled right?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: does the server run, and is the port right?"
	case errors.As(err, &authority):
		return "the certificate is by nobody that this machine trusts; browsers will refuse it too"
	case errors.As(err, &host), errors.As(err, &invalid):
		return "the certificate is not good for this name at this time"
	case errors.As(err, &record):
		return "it speaks no TLS: use http://"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "it speaks no TLS: use http://"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "is a firewall in between?"
	}
	return "is the URL right?"
}

func (v *visit) checkHTTP() Finding {
	const name = "http"
	switch {
	case v.proto == "HTTP/2.0":
		return ok(name, "HTTP/2: as many streams to a browser as it wants")
	case v.base.Scheme == "https":
		return advice(name, "let the proxy speak HTTP/2 (h2) with browsers", "HTTP/1.1: a browser opens six connections to a host, for all its tabs, and a stream of events takes one")
	}
	return advice(name, "serve https with HTTP/2 to browsers; pages in the clear have neither", "%s without TLS: a browser opens six connections to a host, for all its tabs, and a stream of events takes one", v.proto)
}

// Differences of clocks: what tokens bear, and what nobody should have.
const (
	clockDoubt = 5 * time.Second
	clockWrong = 30 * time.Second
)

func (v *visit) checkClock() Finding {
	const name = "clock"
	const do = "set the clocks by NTP: the end of a token is read by the server's"
	if !v.clock {
		return advice(name, "", "the server does not say what time it is")
	}
	much := v.ahead.Abs()
	if !v.exact {
		much = max(much-time.Second, 0)
	}
	way := "ahead of"
	if v.ahead < 0 {
		way = "behind"
	}
	switch {
	case much >= clockWrong:
		return wrong(name, do, "the server's is %s %s ours", short(much), way)
	case much >= clockDoubt:
		return advice(name, do, "the server's is %s %s ours", short(much), way)
	case !v.exact:
		return ok(name, "the server's is ours, to a second or two")
	}
	return ok(name, "the server's is %s %s ours", short(much), way)
}

func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("nothing came within %s", short(patience))
	}
	return err.Error()
}
