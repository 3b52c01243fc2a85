package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"rollcall"
)

// endpoint is where the server is and how we show who we are. Static after
// newEndpoint.
type endpoint struct {
	base  string     // scheme, host and path prefix, without a slash at its end
	guest url.Values // user and name; nil with a token
	key   string     // sk_ key; "" if there is none
}

func newEndpoint(o *Options) (*endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("client: URL: %w", err)
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return nil, fmt.Errorf("client: URL %q must begin with http://, https://, ws:// or wss://", u.Redacted())
	}
	if u.Host == "" {
		return nil, fmt.Errorf("client: URL %q has no host", u.Redacted())
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	e := &endpoint{base: strings.TrimRight(u.String(), "/"), key: o.APIKey}
	if o.APIKey == "" && o.Token == "" && o.TokenFunc == nil {
		e.guest = url.Values{}
		if o.User != "" {
			e.guest.Set("user", string(o.User))
		}
		if o.Name != "" {
			e.guest.Set("name", o.Name)
		}
	}
	return e, nil
}

// at is the address of a path below /v1, whose segments are escaped.
func (e *endpoint) at(query url.Values, path ...string) string {
	var b strings.Builder
	b.WriteString(e.base + "/v1")
	for _, segment := range path {
		b.WriteString("/" + url.PathEscape(segment))
	}
	all := url.Values{}
	for _, values := range []url.Values{e.guest, query} {
		for name := range values {
			all.Set(name, values.Get(name))
		}
	}
	if len(all) > 0 {
		b.WriteString("?" + all.Encode())
	}
	return b.String()
}

// authorize puts what we have to show into a header.
func (e *endpoint) authorize(h http.Header, token string) {
	if e.key != "" {
		token = e.key
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

func checkRoom(room rollcall.RoomID) error {
	if !rollcall.ValidID(string(room)) {
		return rollcall.Errorf(rollcall.CodeBadRequest, "a room id is 1 to %d bytes of UTF-8, neither . nor ..", rollcall.MaxID)
	}
	return nil
}
