package auth

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"rollcall"
)

type answers func(r *http.Request) (status int, body string, err error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Location": {"https://evil.test"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func newApplication(t *testing.T, f answers) *Application {
	t.Helper()
	a, err := NewApplication(ApplicationOptions{URL: "https://app.test/auth?key=secret", Transport: f, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func withCookie(t *testing.T) Credentials {
	t.Helper()
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", "session=1")
	r.RemoteAddr = "[2001:db8::1]:4711"
	return Credentials{Request: r, Rooms: []rollcall.RoomID{"a<b"}}
}

func TestAnswersOfAnApplication(t *testing.T) {
	const good = `{"user":"ana","rooms":["doc:*"],"expiresInMs":60000}`
	for name, tt := range map[string]struct {
		status int
		body   string
		err    error
		want   rollcall.Code // "": let in
	}{
		"good":                  {200, good, nil, ""},
		"with everything":       {200, `{"user":"ana","info":{"a":1},"rooms":{"*":["read"]},"hidden":true,"sid":"s","expiresInMs":1e15,"more":1}`, nil, ""},
		"401":                   {401, good, nil, rollcall.CodeUnauthorized},
		"403":                   {403, good, nil, rollcall.CodeForbidden},
		"a redirect":            {302, good, nil, rollcall.CodeUnavailable},
		"no content":            {204, "", nil, rollcall.CodeUnavailable},
		"500":                   {500, good, nil, rollcall.CodeUnavailable},
		"away":                  {0, "", errors.New("no route"), rollcall.CodeUnavailable},
		"HTML":                  {200, "<html>", nil, rollcall.CodeUnavailable},
		"no user":               {200, `{"rooms":["*"],"expiresInMs":1}`, nil, rollcall.CodeUnavailable},
		"an empty user":         {200, `{"user":"","rooms":["*"],"expiresInMs":1}`, nil, rollcall.CodeUnavailable},
		"no life":               {200, `{"user":"ana","rooms":["*"]}`, nil, rollcall.CodeUnavailable},
		"a life of nothing":     {200, `{"user":"ana","rooms":["*"],"expiresInMs":0}`, nil, rollcall.CodeUnavailable},
		"rooms of another kind": {200, `{"user":"ana","rooms":7,"expiresInMs":1}`, nil, rollcall.CodeUnavailable},
		"a large info":          {200, `{"user":"ana","info":{"a":"` + strings.Repeat("x", 2048) + `"},"expiresInMs":1}`, nil, rollcall.CodeUnavailable},
		"a large answer":        {200, good + strings.Repeat(" ", maxApplication), nil, rollcall.CodeUnavailable},
	} {
		a := newApplication(t, func(*http.Request) (int, string, error) { return tt.status, tt.body, tt.err })
		id, err := a.Authenticate(context.Background(), withCookie(t))
		if tt.want == "" {
			if err != nil || id.User != "ana" || !id.ByRequest || time.Until(id.Expires) > maxApplicationFor || time.Until(id.Expires) < time.Second {
				t.Errorf("%s: got %+v, %v", name, id, err)
			}
			continue
		}
		told, ok := errors.AsType[*rollcall.Error](err)
		if id != nil || !ok || told.Code != tt.want || strings.Contains(told.Detail, "secret") {
			t.Errorf("%s: got %v, %v, want %s", name, id, err, tt.want)
		}
	}
}

func TestWhatAnApplicationIsAsked(t *testing.T) {
	var got *http.Request
	body := ""
	a := newApplication(t, func(r *http.Request) (int, string, error) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r, string(raw)
		return 401, "", nil
	})
	a.Authenticate(context.Background(), withCookie(t))
	if got.Method != "POST" || got.Header.Get("Cookie") != "session=1" || got.Header.Get("Authorization") != "" ||
		got.Header.Get("X-Forwarded-For") != "2001:db8::1" || body != `{"rooms":["a\u003cb"],"ip":"2001:db8::1"}` {
		t.Errorf("asked %s %v %s", got.Method, got.Header, body)
	}
	a.Authenticate(context.Background(), Credentials{Token: "opaque", From: Message})
	if got.Header.Get("Authorization") != "Bearer opaque" || body != `{"rooms":[],"ip":""}` {
		t.Errorf("asked %v %s", got.Header, body)
	}
	for _, c := range []Credentials{{}, {Token: "sk_1", From: Header}, {Request: &http.Request{}}} {
		if _, err := a.Authenticate(context.Background(), c); !errors.Is(err, ErrNotMine) {
			t.Errorf("%v: %v, want not mine", c, err)
		}
	}
	if _, err := NewApplication(ApplicationOptions{URL: "app.test"}); err == nil {
		t.Error("a URL without a scheme is taken")
	}
}
