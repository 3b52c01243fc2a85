package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"

	"rollcall"
)

// Origins is the one list of web origins that may call: it drives the CORS
// headers and the check of WebSocket handshakes and cookies. Static after
// NewOrigins; safe for concurrent use.
//
// The own origin of the server is always on it. That is one with the host and
// port of the Host header; its scheme is not compared, since a proxy that ends
// TLS leaves us with a request in the clear, whatever the browser sees, and
// headers such as X-Forwarded-Proto are whatever a client wrote unless a proxy
// is known to replace them. (Where the server ends TLS itself, the scheme is
// known and must be https.) Listed origins are compared exactly: scheme, host and
// port. Once a host is listed, only the listed schemes and ports of it count, so
// that listing https://app.test shuts out http://app.test on the same host.
//
// X-Forwarded-Host is not read. Behind a proxy that replaces the Host header,
// list the public origin.
type Origins struct {
	listed map[string]bool
	hosts  map[string]bool // of listed http and https origins, without a default port
	any    bool
	exact  *cors.Cors // for listed origins and the own one, with cookies
	open   *cors.Cors // for the others if any is set, never with cookies
}

// maxPreflightAge is for how many seconds a browser may remember a preflight:
// the most that any does.
const maxPreflightAge = 7200

// NewOrigins takes origins as browsers write them (https://app.test,
// http://localhost:3000, capacitor://localhost; a slash at the end is passed
// over), and `*` for every origin, without cookies.
func NewOrigins(allowed []string) (*Origins, error) {
	o := &Origins{listed: make(map[string]bool), hosts: make(map[string]bool)}
	for _, s := range allowed {
		if s == "*" {
			o.any = true
			continue
		}
		scheme, host, err := parseOrigin(s)
		if err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", s, err)
		}
		o.listed[scheme+"://"+host] = true
		if scheme == "http" || scheme == "https" {
			o.hosts[host] = true
		}
	}
	o.exact = newCORS(true, o.trusted)
	o.open = newCORS(false, func(r *http.Request) bool { origin, ok := originOf(r); return ok && origin != "" })
	return o, nil
}

func newCORS(cookies bool, allowed func(*http.Request) bool) *cors.Cors {
	return cors.New(cors.Options{
		AllowOriginVaryRequestFunc: func(r *http.Request, _ string) (bool, []string) { return allowed(r), nil },
		AllowedMethods:             []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"},
		// Cache-Control and If-None-Match come from polyfills of EventSource and
		// from conditional reads.
		AllowedHeaders:   []string{"Authorization", "Cache-Control", "Content-Type", "If-None-Match", "Last-Event-ID", "Rollcall-Resume"},
		ExposedHeaders:   []string{"ETag", "Retry-After", "Rollcall-Settling"},
		AllowCredentials: cookies,
		MaxAge:           maxPreflightAge,
	})
}

func parseOrigin(s string) (scheme, host string, err error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	switch {
	case err != nil || u.Scheme == "" || u.Host == "":
		return "", "", errors.New("must be a scheme, a host and perhaps a port, such as https://app.test")
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", "", errors.New("must end after the host or the port")
	case strings.Contains(u.Host, "*"):
		return "", "", errors.New("has no wildcards: list each origin, or `*` for all of them, without cookies")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "", errors.New("must be in ASCII (xn--...), as browsers send it")
	}
	scheme = strings.ToLower(u.Scheme)
	return scheme, hostPort(scheme, u.Host), nil
}

// hostPort is a host in lower case without the default port of the scheme, as
// browsers write it in an origin.
func hostPort(scheme, host string) string {
	host = strings.ToLower(host)
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// originOf is the Origin of a request, "" if it has none; ok is false if it is
// one that is never allowed: "null", which every sandboxed page can have, or
// more than one.
func originOf(r *http.Request) (origin string, ok bool) {
	switch v := r.Header["Origin"]; {
	case len(v) == 0:
		return "", true
	case len(v) > 1 || v[0] == "" || v[0] == "null":
		return "", false
	default:
		return v[0], true
	}
}

// trusted reports whether the request has an Origin that is listed or our own.
func (o *Origins) trusted(r *http.Request) bool {
	origin, ok := originOf(r)
	return ok && origin != "" && (o.listed[origin] || o.own(r, origin))
}

func (o *Origins) own(r *http.Request, origin string) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return false // the browser knows the scheme that we cannot see
	}
	if r.TLS != nil && scheme != "https" {
		return false
	}
	host = hostPort(scheme, host)
	return !o.hosts[host] && host == hostPort(scheme, r.Host)
}

// CheckWebSocket decides whether a WebSocket may open. A browser says where the
// page is from, always, and no page can change that; CORS does not protect
// WebSockets. An Origin must be listed or our own, whatever the credentials;
// with `*` any will do if the credentials are not a cookie. Without an Origin it
// is no browser, and may open unless the credentials are a cookie. The error is a
// [*rollcall.Error] with [rollcall.CodeForbidden].
func (o *Origins) CheckWebSocket(r *http.Request, c Credentials) error {
	origin, ok := originOf(r)
	switch {
	case !ok:
		return errNoOrigin
	case origin == "":
		if c.From == Cookie {
			return errNoOrigin
		}
		return nil
	case o.trusted(r), o.any && c.From != Cookie:
		return nil
	}
	return errOrigin(origin)
}

// CheckCookie decides whether a request other than a WebSocket may count on its
// cookie, which a browser sends whoever asks. An Origin must be listed or our
// own; `*` does not help. A browser leaves the Origin out when a page reads from
// its own server, as EventSource does: then it must say same-origin (or none: by
// the user's own hand) in Sec-Fetch-Site, or, if it knows no such header, come
// from an allowed page by its Referer. The error is a [*rollcall.Error] with
// [rollcall.CodeForbidden].
func (o *Origins) CheckCookie(r *http.Request) error {
	origin, ok := originOf(r)
	switch {
	case !ok:
		return errNoOrigin
	case origin != "":
		if o.trusted(r) {
			return nil
		}
		return errOrigin(origin)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return nil
	case "":
		if page, err := url.Parse(r.Referer()); err == nil && page.Host != "" {
			origin := page.Scheme + "://" + hostPort(page.Scheme, page.Host)
			if o.listed[origin] || o.own(r, origin) {
				return nil
			}
		}
	}
	return errNoOrigin
}

// CheckAmbient decides whether a request may count on headers that a browser
// sends by itself, when the application has told by them who it is. It is
// [Origins.CheckCookie], except that a request without any sign of a browser is
// let through: no web page can make one. The error is a [*rollcall.Error] with
// [rollcall.CodeForbidden].
func (o *Origins) CheckAmbient(r *http.Request) error {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && r.Referer() == "" {
		return nil
	}
	return o.CheckCookie(r)
}

var errNoOrigin = rollcall.Errorf(rollcall.CodeForbidden,
	"the request does not say which web origin it is from, or says null: a cookie alone is not enough, send the token in Authorization: Bearer")

func errOrigin(origin string) error {
	const most = 200
	if len(origin) > most {
		origin = origin[:most] + "..."
	}
	return rollcall.Errorf(rollcall.CodeForbidden, "the web origin %q is not allowed here: the server can allow it with --allowed-origin", origin)
}

// Handler adds the CORS headers to everything that next answers, errors too, and
// answers every OPTIONS request itself with 204: none reaches next. What next
// writes past the [http.ResponseWriter] (after a hijack) must begin with the
// headers that w.Header() holds by then. The writer is handed on as it is.
func (o *Origins) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := o.exact
		if o.any && !o.trusted(r) {
			headers = o.open
		}
		if r.Method != http.MethodOptions {
			headers.HandlerFunc(w, r)
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		if r.Header.Get("Access-Control-Request-Method") == "" {
			headers.HandlerFunc(w, r) // not a preflight: the headers of an answer
			w.WriteHeader(http.StatusNoContent)
			return
		}
		headers.HandlerFunc(w, plainPreflight(r)) // writes the 204
	})
}

// plainPreflight is r with the names of the asked headers as a browser writes
// them, in lower case and in order: the CORS library takes no others, and people
// who try a preflight by hand write others.
func plainPreflight(r *http.Request) *http.Request {
	const name = "Access-Control-Request-Headers"
	var names []string
	for _, line := range r.Header[name] {
		for n := range strings.SplitSeq(strings.ToLower(line), ",") {
			if n = strings.TrimSpace(n); n != "" {
				names = append(names, n)
			}
		}
	}
	plain := r.Clone(r.Context())
	plain.Header.Del(name)
	if len(names) > 0 {
		slices.Sort(names)
		plain.Header.Set(name, strings.Join(slices.Compact(names), ","))
	}
	return plain
}
