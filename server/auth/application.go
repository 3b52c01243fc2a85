package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"rollcall"
)

const (
	applicationWait = 5 * time.Second
	maxApplication  = 64 << 10 // bytes of an answer
	// ApplicationAtOnce is how many questions to the application may be open.
	ApplicationAtOnce = 256
	maxApplicationFor = 24 * time.Hour
)

// ApplicationOptions sets up an [Application].
type ApplicationOptions struct {
	// URL is asked; required, http or https.
	URL string
	// MaxInfo and CheckInfo are as in [JWTOptions].
	MaxInfo   int
	CheckInfo func(info json.RawMessage) (json.RawMessage, error)
	// Transport carries the requests; [http.DefaultTransport] if nil.
	Transport http.RoundTripper
	// Logger is told of what the application answers wrongly; [slog.Default] if
	// nil.
	Logger *slog.Logger
}

// Application asks the application who a client is: for each new stream, and for
// each read, it sends a POST of
//
//	{"rooms":["doc:1"],"ip":"192.0.2.7"}
//
// with the Cookie and Authorization headers of the client's request. rooms are
// those that a request names (none on a WebSocket), and ip is the address that
// the request came from; X-Forwarded-For goes along with that address added, as
// a proxy does it. The application answers 200 with
//
//	{"user":"ana","info":{"name":"Ana"},"rooms":["doc:*"],"expiresInMs":3600000}
//
// where user, rooms, info, hidden and sid are what sub, rooms, info, hidden and
// sid are in a token, and expiresInMs (over 0; a day is the most) is for how long
// the answer holds: then a stream is ended so that it comes back, and is asked
// about again. 401 and 403 refuse the client. Anything else is
// [rollcall.CodeUnavailable]: it can be tried again.
//
// It takes requests with a cookie, an Authorization header, or a token that does
// not begin with `sk_`, which is sent as Authorization: Bearer. The identity has
// ByRequest set. Safe for concurrent use.
type Application struct {
	options ApplicationOptions
	client  *http.Client
	slots   chan struct{} // capacity ApplicationAtOnce; never closed
}

// NewApplication checks the options.
func NewApplication(o ApplicationOptions) (*Application, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", o.URL)
	}
	if o.MaxInfo == 0 {
		o.MaxInfo = rollcall.DefaultLimits().Info
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Application{
		options: o,
		slots:   make(chan struct{}, ApplicationAtOnce),
		client: &http.Client{
			Transport: o.Transport, Timeout: applicationWait,
			// Where it points to is not who was trusted with the cookies.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Authenticate implements [Authenticator].
func (a *Application) Authenticate(ctx context.Context, c Credentials) (*Identity, error) {
	question, err := a.question(ctx, c)
	if err != nil {
		return nil, err
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return nil, errApplication
	}
	asked := time.Now()
	answer, err := a.client.Do(question)
	if err != nil {
		if ctx.Err() == nil {
			// The error of the client would name the URL, which may hold a secret.
			a.options.Logger.Warn("ask the application who a client is", "error", errors.Unwrap(err))
		}
		return nil, errApplication
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxApplication+1))
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return nil, unauthorized("the application does not know who this is")
	case answer.StatusCode == http.StatusForbidden:
		return nil, rollcall.Errorf(rollcall.CodeForbidden, "the application does not allow it")
	case err != nil, answer.StatusCode != http.StatusOK, len(raw) > maxApplication:
		a.options.Logger.Warn("ask the application who a client is", "status", answer.StatusCode, "bytes", len(raw), "error", err)
		return nil, errApplication
	}
	id, err := a.identity(raw, asked)
	if err != nil {
		a.options.Logger.Error("the application answers what cannot be read: nobody comes in", "error", err)
		return nil, errApplication
	}
	return id, nil
}

var errApplication = rollcall.Errorf(rollcall.CodeUnavailable, "the application that knows who this is cannot be asked now")

// question is the request to the application, or [ErrNotMine].
func (a *Application) question(ctx context.Context, c Credentials) (*http.Request, error) {
	if strings.HasPrefix(c.Token, apiKeyPrefix) {
		return nil, ErrNotMine
	}
	header := http.Header{"Content-Type": {"application/json"}}
	ip := ""
	if r := c.Request; r != nil {
		for _, name := range []string{"Cookie", "Authorization"} {
			if lines := r.Header[name]; len(lines) > 0 {
				header[name] = lines
			}
		}
		ip = r.RemoteAddr
		if host, _, err := net.SplitHostPort(ip); err == nil {
			ip = host
		}
		header.Set("X-Forwarded-For", strings.Join(append(r.Header["X-Forwarded-For"], ip), ", "))
	}
	if c.Token != "" && c.From != Cookie && c.From != Header {
		header.Set("Authorization", "Bearer "+c.Token)
	}
	if header["Cookie"] == nil && header["Authorization"] == nil {
		return nil, ErrNotMine
	}
	rooms := c.Rooms
	if rooms == nil {
		rooms = []rollcall.RoomID{}
	}
	body, err := json.Marshal(struct {
		Rooms []rollcall.RoomID `json:"rooms"`
		IP    string            `json:"ip"`
	}{rooms, ip})
	if err != nil {
		return nil, err
	}
	question, err := http.NewRequestWithContext(ctx, http.MethodPost, a.options.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errApplication
	}
	question.Header = header
	return question, nil
}

// identity reads an answer that was asked for at a time.
func (a *Application) identity(raw json.RawMessage, asked time.Time) (*Identity, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return nil, errors.New("it is not a JSON object")
	}
	r := claimReader{all: all}
	var life float64
	r.read("expiresInMs", true, &life, "a number of milliseconds")
	id := &Identity{
		User: rollcall.UserID(r.text("user", true)), Hidden: r.flag("hidden"), Session: r.text("sid", false),
		IssuedAt: asked, ByRequest: true,
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case !rollcall.ValidID(string(id.User)):
		return nil, fmt.Errorf("user: an id is 1 to %d bytes of UTF-8, and not a dot or two", rollcall.MaxID)
	case life < 1:
		return nil, errors.New("expiresInMs: must be over 0")
	case len(id.Session) > maxSession:
		return nil, fmt.Errorf("sid: is longer than %d bytes", maxSession)
	}
	id.Expires = asked.Add(time.Duration(min(life, float64(maxApplicationFor.Milliseconds()))) * time.Millisecond)
	var err error
	if id.Grants, err = ParseGrants(r.value("rooms")); err != nil {
		return nil, err
	}
	if id.Info, err = CompactInfo(r.value("info"), a.options.MaxInfo); err != nil {
		return nil, err
	}
	if id.Info != nil && a.options.CheckInfo != nil {
		id.Info, err = a.options.CheckInfo(id.Info)
	}
	return id, err
}
