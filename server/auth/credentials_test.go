package auth

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"rollcall"
)

func TestMostDeliberateTokenCounts(t *testing.T) {
	for _, tt := range []struct {
		rule, target string
		headers      []string // name, value, ...
		token        string
		from         Source
	}{
		{"no token", "/v1/ws", nil, "", None},
		{"header", "/", []string{"Authorization", "Bearer h"}, "h", Header},
		{"the scheme in any case", "/", []string{"Authorization", "bEARER  h "}, "h", Header},
		{"another scheme is not ours", "/?access_token=q", []string{"Authorization", "Basic aDpo"}, "q", Query},
		{"an empty bearer is none", "/?access_token=q", []string{"Authorization", "Bearer "}, "q", Query},
		{"a bare token is none", "/", []string{"Authorization", "h"}, "", None},
		{"subprotocol", "/", []string{"Sec-WebSocket-Protocol", "rollcall.v1, bearer.s.s.s"}, "s.s.s", Subprotocol},
		{"subprotocol on a line of its own", "/", []string{"Sec-WebSocket-Protocol", "rollcall.v1", "Sec-WebSocket-Protocol", "bearer.s"}, "s", Subprotocol},
		{"subprotocol first", "/", []string{"Sec-WebSocket-Protocol", "bearer.s,rollcall.v1"}, "s", Subprotocol},
		{"an empty subprotocol is none", "/", []string{"Sec-WebSocket-Protocol", "bearer., bearer"}, "", None},
		{"query", "/?room=a&access_token=a%2Eb", nil, "a.b", Query},
		{"an empty query is none", "/?access_token=", []string{"Cookie", "rollcall_token=c"}, "c", Cookie},
		{"cookie", "/", []string{"Cookie", "a=b; rollcall_token=c; d=e"}, "c", Cookie},
		{"another cookie is none", "/", []string{"Cookie", "Rollcall_Token=c; rollcall_token2=d"}, "", None},
		{"header before all", "/?access_token=q", []string{"Cookie", "rollcall_token=c", "Authorization", "Bearer h", "Sec-WebSocket-Protocol", "bearer.s"}, "h", Header},
		{"subprotocol before query", "/?access_token=q", []string{"Cookie", "rollcall_token=c", "Sec-WebSocket-Protocol", "bearer.s"}, "s", Subprotocol},
		{"query before cookie", "/?access_token=q", []string{"Cookie", "rollcall_token=c"}, "q", Query},
	} {
		r := httptest.NewRequest("GET", tt.target, nil)
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Add(tt.headers[i], tt.headers[i+1])
		}
		got := CredentialsOf(r)
		if got.Token != tt.token || got.From != tt.from || got.Request != r {
			t.Errorf("%s: got %q from %v, want %q from %v", tt.rule, got.Token, got.From, tt.token, tt.from)
		}
	}
}

func TestChainLetsTheOneThatKnowsDecide(t *testing.T) {
	keys, err := NewAPIKeys(APIKey{"web", "sk_web"})
	if err != nil {
		t.Fatal(err)
	}
	jwt, guests := newJWT(t), Guests{}
	token, err := Mint(secret, Claims{User: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	none := Credentials{}
	good, bad := Credentials{Token: token, From: Message}, Credentials{Token: token + "x", From: Header}
	server, stranger := Credentials{Token: "sk_web", From: Header}, Credentials{Token: "sk_x", From: Header}
	for _, tt := range []struct {
		rule  string
		chain Authenticator
		c     Credentials
		want  string // "user", "guest", "server", or a part of the error
	}{
		{"a token", Chain(jwt, keys, guests), good, "user"},
		{"a token, whatever the order", Chain(guests, keys, jwt), good, "user"},
		{"a key", Chain(jwt, keys, guests), server, "server"},
		{"a key, whatever the order", Chain(guests, keys, jwt), server, "server"},
		{"nothing, with guests", Chain(guests, keys, jwt), none, "guest"},
		{"nothing, without guests", Chain(jwt, keys), none, "a token is needed"},
		{"a bad token is no guest", Chain(jwt, keys, guests), bad, "not valid"},
		{"a bad token is no guest, whatever the order", Chain(guests, jwt), bad, "not"},
		{"a bad key is no guest", Chain(guests, keys), stranger, "not known"},
		{"a token that nobody can verify is no guest", Chain(guests), good, "no key"},
		{"a key that nobody can verify", Chain(jwt, guests), server, "no key"},
		{"a chain in a chain", Chain(Chain(guests), Chain(keys, Chain(jwt))), good, "user"},
		{"nobody", Chain(), none, "a token is needed"},
	} {
		id, err := tt.chain.Authenticate(context.Background(), tt.c)
		var got string
		switch {
		case err != nil:
			if told, ok := errors.AsType[*rollcall.Error](err); !ok || told.Code != rollcall.CodeUnauthorized || id != nil {
				t.Errorf("%s: got %v, %v", tt.rule, id, err)
			}
			got = err.Error()
		case id.Server():
			got = "server"
		case id.Guest:
			got = "guest"
		default:
			got = "user"
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.rule, got, tt.want)
		}
	}
}

func TestTokensStayOutOfLoggedURLs(t *testing.T) {
	for in, want := range map[string]string{
		"/v1/ws":                         "/v1/ws",
		"/v1/ws?":                        "/v1/ws?",
		"/a%2Fb?room=a%2Fb&x":            "/a%2Fb?room=a%2Fb&x",
		"/?access_token=s.e.c":           "/?access_token=REDACTED",
		"/?room=a&access_token=sec&b=1":  "/?room=a&access_token=REDACTED&b=1",
		"/?resume=sec&resume=sec":        "/?resume=REDACTED&resume=REDACTED",
		"/?access%5Ftoken=sec":           "/?access%5Ftoken=REDACTED",
		"/?%61ccess_token=sec":           "/?%61ccess_token=REDACTED",
		"/?Access_Token=sec":             "/?Access_Token=REDACTED",
		"/?a=1;access_token=sec":         "/?a=1;access_token=REDACTED",
		"/?access_token=sec;sec":         "/?access_token=REDACTED;sec",
		"/?access_token=a=sec":           "/?access_token=REDACTED",
		"/?access_token":                 "/?access_token",
		"/?access_token=":                "/?access_token=",
		"/?%zz=sec":                      "/?%zz=REDACTED",
		"/?my_access_token=1&resumes=2":  "/?my_access_token=1&resumes=2",
		"https://u:sec@h.test/?resume=s": "https://u:xxxxx@h.test/?resume=REDACTED",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := RedactURL(u); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if u.String() != in {
			t.Errorf("%s was changed to %s", in, u)
		}
	}
	if got := RedactURL(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func FuzzRedactURL(f *testing.F) {
	f.Add("access_token=sec&a=b;resume=sec")
	f.Add("%61ccess_token=sec%")
	f.Fuzz(func(t *testing.T, query string) {
		u := &url.URL{Path: "/", RawQuery: query}
		for name, values := range u.Query() {
			for _, v := range values {
				if (name == "access_token" || name == "resume") && v != "" {
					left, err := url.Parse(RedactURL(u))
					if err != nil {
						return // not a URL before either
					}
					for _, got := range left.Query()[name] {
						if got != "" && got != redacted {
							t.Fatalf("%q: %q is left", query, got)
						}
					}
				}
			}
		}
	})
}
