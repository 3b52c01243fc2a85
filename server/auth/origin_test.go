package auth

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall"
)

func newOrigins(t *testing.T, allowed ...string) *Origins {
	t.Helper()
	o, err := NewOrigins(allowed)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// from is a request to http://rollcall.test with headers: name, value, ...
func from(method string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://rollcall.test/v1/rooms/r/stream", nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	return r
}

func forbidden(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if told, ok := errors.AsType[*rollcall.Error](err); !ok || told.Code != rollcall.CodeForbidden || len(told.Detail) > 400 {
		t.Errorf("got %v, want a forbidden error", err)
	}
	return true
}

func TestWebSocketsOpenFromAllowedOriginsOnly(t *testing.T) {
	listed := newOrigins(t, "https://app.test", "http://localhost:3000", "capacitor://localhost")
	standard, open := newOrigins(t), newOrigins(t, "*", "https://app.test")
	origin := func(s string) []string { return []string{"Origin", s} }
	for _, tt := range []struct {
		rule    string
		origins *Origins
		headers []string
		cookie  bool // allowed with a cookie?
		bearer  bool // allowed with any other token?
		none    bool // allowed without one?
	}{
		{"the listed one", listed, origin("https://app.test"), true, true, true},
		{"a listed one with a port", listed, origin("http://localhost:3000"), true, true, true},
		{"a listed one of an app", listed, origin("capacitor://localhost"), true, true, true},
		{"the own one", listed, origin("http://rollcall.test"), true, true, true},
		{"the own one behind TLS", listed, origin("https://rollcall.test"), true, true, true},
		{"another one", listed, origin("https://evil.test"), false, false, false},
		{"null", listed, origin("null"), false, false, false},
		{"empty", listed, origin(""), false, false, false},
		{"missing", listed, nil, false, true, true},
		{"the listed one as a beginning", listed, origin("https://app.test.evil.test"), false, false, false},
		{"the listed one as an end", listed, origin("https://evilapp.test"), false, false, false},
		{"a subdomain", listed, origin("https://a.app.test"), false, false, false},
		{"another scheme", listed, origin("http://app.test"), false, false, false},
		{"another port", listed, origin("https://app.test:8443"), false, false, false},
		{"another case", listed, origin("https://APP.test"), false, false, false},
		{"a user in front", listed, origin("https://app.test@evil.test"), false, false, false},
		{"a path behind", listed, origin("https://app.test/"), false, false, false},
		{"a list", listed, origin("https://app.test https://evil.test"), false, false, false},
		{"two of them", listed, []string{"Origin", "https://app.test", "Origin", "https://evil.test"}, false, false, false},
		{"the scheme alone", listed, origin("https://"), false, false, false},
		{"no scheme", listed, origin("rollcall.test"), false, false, false},
		{"the own host as a file", listed, origin("file://rollcall.test"), false, false, false},
		{"the own host with another port", listed, origin("http://rollcall.test:81"), false, false, false},
		{"the own host, the default port written out", standard, []string{"Origin", "https://a.test", "Host", "a.test:443"}, true, true, true},
		{"the default port of the other scheme", standard, []string{"Origin", "https://a.test", "Host", "a.test:80"}, false, false, false},
		{"the own host with a port", standard, []string{"Origin", "http://127.0.0.1:8080", "Host", "127.0.0.1:8080"}, true, true, true},
		{"the own host, IPv6", standard, []string{"Origin", "http://[::1]:8080", "Host", "[::1]:8080"}, true, true, true},
		{"the own host in another case", standard, []string{"Origin", "http://a.test", "Host", "A.test"}, true, true, true},
		{"localhost is not 127.0.0.1", standard, []string{"Origin", "http://localhost:8080", "Host", "127.0.0.1:8080"}, false, false, false},
		{"nothing is listed by default", standard, origin("https://app.test"), false, false, false},
		{"a forwarded host is not believed", standard, []string{"Origin", "https://evil.test", "X-Forwarded-Host", "evil.test", "X-Forwarded-Proto", "https", "Forwarded", "host=evil.test"}, false, false, false},
		{"once the host is listed its scheme counts", newOrigins(t, "https://rollcall.test"), origin("http://rollcall.test"), false, false, false},
		{"and the listed one is fine", newOrigins(t, "https://rollcall.test"), origin("https://rollcall.test"), true, true, true},
		{"the browser knows better", standard, []string{"Origin", "http://rollcall.test", "Sec-Fetch-Site", "cross-site"}, false, false, false},
		{"the browser agrees", standard, []string{"Origin", "http://rollcall.test", "Sec-Fetch-Site", "same-origin"}, true, true, true},
		{"the browser does not let strangers in", standard, []string{"Origin", "http://evil.test", "Sec-Fetch-Site", "same-origin"}, false, false, false},
		{"open: any, but not with a cookie", open, origin("https://evil.test"), false, true, true},
		{"open: a listed one with a cookie too", open, origin("https://app.test"), true, true, true},
		{"open: not null", open, origin("null"), false, false, false},
		{"open: missing", open, nil, false, true, true},
	} {
		for source, want := range map[Source]bool{Cookie: tt.cookie, Header: tt.bearer, Subprotocol: tt.bearer, Query: tt.bearer, None: tt.none} {
			err := tt.origins.CheckWebSocket(from("GET", tt.headers...), Credentials{From: source})
			if got := !forbidden(t, err); got != want {
				t.Errorf("%s, token from %v: got %v, want allowed %v", tt.rule, source, err, want)
			}
		}
		// A cookie counts for other requests exactly where it does here: a
		// missing Origin is told apart below.
		if got := !forbidden(t, tt.origins.CheckCookie(from("POST", tt.headers...))); got != tt.cookie {
			t.Errorf("%s, cookie of a request: got allowed %v, want %v", tt.rule, got, tt.cookie)
		}
	}
}

func TestOwnOriginIsHTTPSWhereTLSEndsHere(t *testing.T) {
	o := newOrigins(t)
	for origin, want := range map[string]bool{"https://rollcall.test": true, "http://rollcall.test": false} {
		r := from("GET", "Origin", origin)
		r.TLS = &tls.ConnectionState{}
		if got := !forbidden(t, o.CheckWebSocket(r, Credentials{})); got != want {
			t.Errorf("%s: got allowed %v, want %v", origin, got, want)
		}
	}
}

func TestCookieWithoutOriginCountsOnlyFromTheOwnPage(t *testing.T) {
	o := newOrigins(t, "https://app.test", "*")
	for _, tt := range []struct {
		rule    string
		headers []string
		want    bool
	}{
		{"nothing said", nil, false},
		{"EventSource of an own page", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"typed by hand", []string{"Sec-Fetch-Site", "none"}, true},
		{"an image on another site", []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"an image on a sister site", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"a word that we do not know", []string{"Sec-Fetch-Site", "friendly"}, false},
		{"an older browser on an own page", []string{"Referer", "http://rollcall.test/page?x"}, true},
		{"an older browser on a listed page", []string{"Referer", "https://app.test/page"}, true},
		{"an older browser on another page", []string{"Referer", "https://evil.test/http://rollcall.test/"}, false},
		{"an older browser on a page that poses", []string{"Referer", "https://app.test@evil.test/"}, false},
		{"a referrer does not count against the browser", []string{"Referer", "http://rollcall.test/", "Sec-Fetch-Site", "cross-site"}, false},
		{"a referrer that is none", []string{"Referer", "about:blank"}, false},
		{"a referrer that is broken", []string{"Referer", "http://%zz"}, false},
	} {
		if got := !forbidden(t, o.CheckCookie(from("GET", tt.headers...))); got != tt.want {
			t.Errorf("%s: got allowed %v, want %v", tt.rule, got, tt.want)
		}
	}
}

// unauthorizedStream is a handler that refuses, and counts what reaches it.
type unauthorizedStream struct{ calls int }

func (h *unauthorizedStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.calls++
	http.Error(w, "no", http.StatusUnauthorized)
}

func TestCORSHeadersStandOnErrorsAndPreflightsStopHere(t *testing.T) {
	type want struct{ origin, credentials string }
	app, evil := "https://app.test", "https://evil.test"
	echoed, cookieless, refused := want{app, "true"}, want{evil, ""}, want{}
	for _, tt := range []struct {
		rule    string
		allowed []string
		origin  string
		want    want
	}{
		{"listed", []string{app}, app, echoed},
		{"not listed", []string{app}, evil, refused},
		{"null", []string{app, "*"}, "null", refused},
		{"the listed one as a beginning", []string{app}, app + ".evil.test", refused},
		{"another scheme", []string{app}, "http://app.test", refused},
		{"none", []string{app}, "", refused},
		{"own", nil, "http://rollcall.test", want{"http://rollcall.test", "true"}},
		{"open", []string{"*"}, evil, cookieless},
		{"open and listed", []string{"*", app}, app, echoed},
		{"nothing by default", nil, app, refused},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "preflight"} {
			next := &unauthorizedStream{}
			r := from(method)
			if method == "preflight" {
				r = from("OPTIONS", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,rollcall-resume")
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			newOrigins(t, tt.allowed...).Handler(next).ServeHTTP(w, r)
			h := w.Header()
			if got := (want{h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Allow-Credentials")}); got != tt.want {
				t.Errorf("%s, %s: got %v, want %v", tt.rule, method, got, tt.want)
			}
			if !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
				t.Errorf("%s, %s: no Vary: Origin", tt.rule, method)
			}
			code, calls := http.StatusUnauthorized, 1
			if r.Method == "OPTIONS" {
				code, calls = http.StatusNoContent, 0
			}
			if w.Code != code || next.calls != calls {
				t.Errorf("%s, %s: got %d and %d calls, want %d and %d", tt.rule, method, w.Code, next.calls, code, calls)
			}
			if r.Method != "OPTIONS" && tt.want.origin != "" && h.Get("Access-Control-Expose-Headers") != "Etag, Retry-After, Rollcall-Settling" {
				t.Errorf("%s, %s: exposed: %q", tt.rule, method, h.Get("Access-Control-Expose-Headers"))
			}
		}
	}
}

func TestPreflightAllowsWhatClientsSend(t *testing.T) {
	o := newOrigins(t, "https://app.test")
	for _, tt := range []struct {
		method, headers string
		want            bool
	}{
		{"GET", "last-event-id", true}, {"POST", "", true}, {"PUT", "authorization,content-type,rollcall-resume", true},
		{"PATCH", "Content-Type, Authorization", true}, {"DELETE", "rollcall-resume", true}, {"HEAD", "if-none-match", true}, {"GET", "cache-control", true},
		{"TRACE", "", false}, {"GET", "x-evil", false}, {"GET", "authorization,x-evil", false}, {"PURGE", "authorization", false},
	} {
		r := from("OPTIONS", "Origin", "https://app.test", "Access-Control-Request-Method", tt.method)
		if tt.headers != "" {
			r.Header.Set("Access-Control-Request-Headers", tt.headers)
		}
		w := httptest.NewRecorder()
		o.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
		if got := w.Header().Get("Access-Control-Allow-Origin") != ""; got != tt.want || w.Code != http.StatusNoContent {
			t.Errorf("%s with %q: got %d, allowed %v, want %v", tt.method, tt.headers, w.Code, got, tt.want)
		}
		if got := w.Header().Get("Access-Control-Allow-Methods"); tt.want && got != tt.method {
			t.Errorf("%s: got methods %q", tt.method, got)
		}
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != tt.headers {
			t.Errorf("the request was changed to %q", asked)
		}
	}
}

func TestHandlerKeepsWhatTheWriterCan(t *testing.T) {
	server := httptest.NewServer(newOrigins(t, "https://app.test").Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "https://app.test" {
			t.Errorf("the headers are not there before a hijack: %q", got)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	})))
	defer server.Close()
	r, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://app.test")
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func TestOriginsAreReadAsBrowsersWriteThem(t *testing.T) {
	for in, want := range map[string]string{
		"https://app.test": "https://app.test", "HTTPS://App.Test/": "https://app.test", "https://app.test:443": "https://app.test",
		"http://app.test:80": "http://app.test", "http://app.test:443": "http://app.test:443", "http://[::1]:3000": "http://[::1]:3000", "chrome-extension://abcdef": "chrome-extension://abcdef",
	} {
		o, err := NewOrigins([]string{in})
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if !o.listed[want] {
			t.Errorf("%s: got %v, want %s", in, o.listed, want)
		}
	}
	for _, in := range []string{"", "null", "app.test", "app.test:443", "https://", "https:///", "https://*.app.test", "https://app.test/path", "https://app.test//", "https://app.test?x", "https://app.test#x", "https://u@app.test", "https://äpp.test", "https://a b", "**", "file:///x"} {
		if _, err := NewOrigins([]string{in}); err == nil {
			t.Errorf("%q: not refused", in)
		}
	}
}
