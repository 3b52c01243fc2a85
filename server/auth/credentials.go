package auth

import (
	"log/slog"
	"net/http"
	"strings"

	"rollcall"
)

// Source is where a token was found.
type Source uint8

// The sources. A cookie is the only one that a browser sends by itself, to
// whatever page asks for it; see [Origins].
const (
	None        Source = iota
	Header             // Authorization: Bearer
	Subprotocol        // Sec-WebSocket-Protocol: bearer.<jwt>
	Cookie             // rollcall_token
	Query              // ?access_token=
	Message            // an `auth` message, or the body of an auth call
)

var sourceWords = [...]string{"none", "header", "subprotocol", "cookie", "query", "message"}

// String is a word for logs.
func (s Source) String() string {
	if int(s) < len(sourceWords) {
		return sourceWords[s]
	}
	return ""
}

// Names of the places where a token may stand.
const (
	CookieName        = "rollcall_token"
	QueryName         = "access_token"
	SubprotocolPrefix = "bearer."
)

// MaxToken is the longest token that is looked at, in bytes.
const MaxToken = 8192

// Credentials is what a client shows of itself. It prints and logs without the
// token.
type Credentials struct {
	Token   string        // "" if there is none
	From    Source        // None if Token is ""
	Request *http.Request // the request that opened the stream; nil if there is none
	// Rooms are those that a stream names as it opens; nil on a WebSocket and in
	// other requests.
	Rooms []rollcall.RoomID
}

// String tells the source and not the token.
func (c Credentials) String() string { return "token from " + c.From.String() }

// GoString is [Credentials.String], so that %#v tells no more.
func (c Credentials) GoString() string { return c.String() }

// LogValue is the source and not the token.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.From.String()) }

// CredentialsOf finds the token of a request. Of several, the most deliberate
// one counts: Authorization: Bearer, then the WebSocket subprotocol
// `bearer.<jwt>`, then `?access_token=`, and the cookie last, which a browser
// adds to everything. The others are not looked at, not even when the first is
// refused: what somebody says on purpose is never replaced by what a browser
// sends along. An empty token is none.
//
// A server that answers the handshake never repeats the bearer subprotocol.
func CredentialsOf(r *http.Request) Credentials {
	c := Credentials{Request: r}
	for _, source := range []struct {
		from Source
		find func(*http.Request) string
	}{{Header, bearerToken}, {Subprotocol, subprotocolToken}, {Query, queryToken}, {Cookie, cookieToken}} {
		if token := source.find(r); token != "" {
			c.Token, c.From = token, source.from
			break
		}
	}
	return c
}

func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "" // such as the Basic of a proxy in front of us
	}
	return strings.TrimSpace(token)
}

func subprotocolToken(r *http.Request) string {
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(name), SubprotocolPrefix); ok && token != "" {
				return token
			}
		}
	}
	return ""
}

func queryToken(r *http.Request) string {
	if r.URL == nil || r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get(QueryName)
}

func cookieToken(r *http.Request) string {
	cookie, err := r.Cookie(CookieName)
	if err != nil {
		return "" // the only error is that there is none
	}
	return cookie.Value
}
