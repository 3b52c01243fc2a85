package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"rollcall"
)

var (
	secret      = []byte("0123456789abcdef0123456789abcdef")
	otherSecret = []byte("fedcba9876543210fedcba9876543210")
)

func newJWT(t testing.TB, keys ...Key) *JWT {
	t.Helper()
	if len(keys) == 0 {
		keys = []Key{SecretKey("", secret)}
	}
	source, err := NewKeys(keys...)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewJWT(JWTOptions{Keys: source})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func authenticate(a Authenticator, token string) (*Identity, error) {
	return a.Authenticate(context.Background(), Credentials{Token: token, From: Header})
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// signed makes a token of any header and payload with an HMAC-SHA256.
func signed(header, payload string, key []byte) string {
	s := segment(header) + "." + segment(payload)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(s))
	return s + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const hs256 = `{"alg":"HS256","typ":"JWT"}`

// claims is a good payload with changes; a value of nil leaves a claim out.
func claims(changes map[string]any) string {
	all := map[string]any{"sub": "ana", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestTokenSaysWhoSomebodyIs(t *testing.T) {
	now := time.Unix(time.Now().Unix(), 0)
	token, err := Mint(secret, Claims{
		User: "añá|b", Info: raw(` {"name": "Ana <3", "n": 1.50} `), Rooms: []string{"doc:*"},
		Grants: map[string][]Capability{"doc:1": {Admin}}, Hidden: true, Session: "s1", IssuedAt: now, NotBefore: now, Expires: now.Add(time.Minute), KeyID: "k1",
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := authenticate(newJWT(t, SecretKey("k1", secret)), token)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(id.Info), `{"name":"Ana <3","n":1.50}`; got != want {
		t.Errorf("info: got %s, want %s", got, want)
	}
	if id.User != "añá|b" || !id.Hidden || id.Session != "s1" || !id.IssuedAt.Equal(now) || !id.Expires.Equal(now.Add(time.Minute)) || id.Guest || id.Server() {
		t.Errorf("got %+v", id)
	}
	if !id.Can("doc:2", Presence) || id.Can("doc:2", Admin) || !id.Can("doc:1", Admin) || id.Can("x", Count) {
		t.Error("the rooms are not those of the token")
	}
}

func TestBareTokenHasNothingElse(t *testing.T) {
	id, err := authenticate(newJWT(t), signed(hs256, claims(map[string]any{"info": json.RawMessage("null"), "rooms": json.RawMessage("null"), "hidden": json.RawMessage("null"), "aud": "x", "deep": raw(strings.Repeat("[", 50) + strings.Repeat("]", 50))}), secret))
	if err != nil {
		t.Fatal(err)
	}
	if id.Info != nil || !id.Grants.Empty() || id.Hidden || id.Session != "" || !id.IssuedAt.IsZero() {
		t.Errorf("got %+v", id)
	}
}

func TestEachHMACAlgorithmIsTaken(t *testing.T) {
	a := newJWT(t)
	for _, m := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		token, err := jwt.NewWithClaims(m, jwt.MapClaims{"sub": "ana", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authenticate(a, token); err != nil {
			t.Errorf("%s: %v", m.Alg(), err)
		}
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	a := newJWT(t)
	good := signed(hs256, claims(nil), secret)
	if _, err := authenticate(a, good); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	admin := segment(claims(map[string]any{"sub": "admin"}))
	last := good[len(good)-1]
	// The last character of 32 bytes in base64 has 2 bits that mean nothing.
	sibling := base64Alphabet[strings.IndexByte(base64Alphabet, last)^1]
	for name, token := range map[string]string{
		"alg none":                    segment(`{"alg":"none"}`) + "." + parts[1] + ".",
		"alg none with the signature": segment(`{"alg":"none"}`) + "." + parts[1] + "." + parts[2],
		"alg None":                    segment(`{"alg":"None"}`) + "." + parts[1] + ".",
		"alg NONE":                    segment(`{"alg":"NONE"}`) + "." + parts[1] + ".",
		"alg hs256":                   signed(`{"alg":"hs256"}`, claims(nil), secret),
		"alg empty":                   signed(`{"alg":""}`, claims(nil), secret),
		"alg absent":                  signed(`{}`, claims(nil), secret),
		"alg null":                    signed(`{"alg":null}`, claims(nil), secret),
		"alg a list":                  signed(`{"alg":["HS256"]}`, claims(nil), secret),
		"alg of another family":       signed(`{"alg":"RS256"}`, claims(nil), secret),
		"alg of another size":         signed(`{"alg":"HS512"}`, claims(nil), secret),
		"header null":                 signed(`null`, claims(nil), secret),
		"header a list":               signed(`[]`, claims(nil), secret),
		"crit":                        signed(`{"alg":"HS256","crit":["exp"]}`, claims(nil), secret),
		"kid a number":                signed(`{"alg":"HS256","kid":1}`, claims(nil), secret),
		"kid null":                    signed(`{"alg":"HS256","kid":null}`, claims(nil), secret),
		"kid too long":                signed(`{"alg":"HS256","kid":"`+strings.Repeat("k", 257)+`"}`, claims(nil), secret),
		"other secret":                signed(hs256, claims(nil), otherSecret),
		"empty secret":                signed(hs256, claims(nil), nil),
		"payload changed":             parts[0] + "." + admin + "." + parts[2],
		"header changed":              segment(`{"typ":"JWT","alg":"HS256"}`) + "." + parts[1] + "." + parts[2],
		"no signature":                parts[0] + "." + parts[1] + ".",
		"signature cut":               good[:len(good)-4],
		"signature in another way":    good[:len(good)-1] + string(sibling),
		"signature padded":            good + "=",
		"two parts":                   parts[0] + "." + parts[1],
		"four parts":                  good + ".",
		"JWE, five parts":             good + ".a.b",
		"empty parts":                 "..",
		"one dot":                     ".",
		"blank inside":                parts[0] + ". " + parts[1] + "." + parts[2],
		"newline at the end":          good + "\n",
		"base64 of the other kind":    parts[0] + "." + strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(claims(map[string]any{"i": "???>>>"}))), "=") + "." + parts[2],
		"not a token":                 "x",
		"huge":                        signed(hs256, claims(map[string]any{"pad": strings.Repeat("x", MaxToken)}), secret),
		"huge garbage":                strings.Repeat(".", 1<<20),
		"with the scheme":             "Bearer " + good,
	} {
		mustRefuse(t, a, name, token, rollcall.CodeUnauthorized)
	}
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// mustRefuse checks that a token is refused with a code, and that the detail
// tells nothing of the token.
func mustRefuse(t *testing.T, a Authenticator, name, token string, code rollcall.Code) {
	t.Helper()
	id, err := authenticate(a, token)
	told, ok := errors.AsType[*rollcall.Error](err)
	if id != nil || !ok || told.Code != code {
		t.Errorf("%s: got %+v, %v; want %s", name, id, err, code)
		return
	}
	if told.Detail == "" || len(told.Detail) > 300 {
		t.Errorf("%s: detail of %d bytes", name, len(told.Detail))
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) >= 4 && strings.Contains(told.Detail, part) {
			t.Errorf("%s: the detail %q has a part of the token", name, told.Detail)
		}
	}
}

func TestBadClaimsAreRefused(t *testing.T) {
	a := newJWT(t)
	now := time.Now().Unix()
	surrogate := func(claim, value string) string {
		return strings.Replace(claims(map[string]any{claim: nil}), "{", `{"`+claim+`":`+value+`,`, 1)
	}
	for name, payload := range map[string]string{
		"exp absent":              claims(map[string]any{"exp": nil}),
		"exp null":                claims(map[string]any{"exp": raw("null")}),
		"exp past":                claims(map[string]any{"exp": now - 1}),
		"exp zero":                claims(map[string]any{"exp": 0}),
		"exp negative":            claims(map[string]any{"exp": -1}),
		"exp a string":            claims(map[string]any{"exp": fmt.Sprint(now + 100)}),
		"exp in milliseconds":     claims(map[string]any{"exp": (now + 100) * 1000}),
		"exp beyond numbers":      claims(map[string]any{"exp": raw("1e400")}),
		"exp beyond time":         claims(map[string]any{"exp": raw("1e300")}),
		"exp true":                claims(map[string]any{"exp": true}),
		"exp in other letters":    claims(map[string]any{"exp": nil, "EXP": now + 100}),
		"nbf in the future":       claims(map[string]any{"nbf": now + 60}),
		"nbf far in the future":   claims(map[string]any{"nbf": now + 1e6}),
		"nbf a string":            claims(map[string]any{"nbf": "0"}),
		"iat in the future":       claims(map[string]any{"iat": now + 60}),
		"iat a string":            claims(map[string]any{"iat": "0"}),
		"sub absent":              claims(map[string]any{"sub": nil}),
		"sub null":                claims(map[string]any{"sub": raw("null")}),
		"sub empty":               claims(map[string]any{"sub": ""}),
		"sub a dot":               claims(map[string]any{"sub": "."}),
		"sub two dots":            claims(map[string]any{"sub": ".."}),
		"sub of 300 bytes":        claims(map[string]any{"sub": strings.Repeat("x", 300)}),
		"sub of 257 bytes":        claims(map[string]any{"sub": strings.Repeat("é", 128) + "x"}),
		"sub a number":            claims(map[string]any{"sub": 42}),
		"sub a list":              claims(map[string]any{"sub": []string{"ana"}}),
		"sub in other letters":    claims(map[string]any{"sub": nil, "Sub": "ana"}),
		"sub not UTF-8":           surrogate("sub", "\"an\xffa\""),
		"sub half a surrogate":    surrogate("sub", `"\ud83d"`),
		"sub other half":          surrogate("sub", `"a\ude00"`),
		"sub halves apart":        surrogate("sub", `"\ud83d \ude00"`),
		"sub halves swapped":      surrogate("sub", `"\ude00\ud83d"`),
		"sub half, then escape":   surrogate("sub", `"\ud83d\u0041"`),
		"sub half, then newline":  surrogate("sub", `"\ud83d\n"`),
		"info a string":           claims(map[string]any{"info": "{}"}),
		"info a list":             claims(map[string]any{"info": []int{1}}),
		"info a number":           claims(map[string]any{"info": 1}),
		"info not UTF-8":          surrogate("info", "{\"name\":\"\xc3\x28\"}"),
		"info half a surrogate":   surrogate("info", `{"name":"\ud800"}`),
		"info half in a name":     surrogate("info", `{"\uDBFF":1}`),
		"info too deep":           claims(map[string]any{"info": raw(strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40))}),
		"rooms a string":          claims(map[string]any{"rooms": "*"}),
		"rooms an empty pattern":  claims(map[string]any{"rooms": []string{""}}),
		"rooms no lists":          claims(map[string]any{"rooms": map[string]string{"a": "presence"}}),
		"hidden a string":         claims(map[string]any{"hidden": "true"}),
		"hidden a number":         claims(map[string]any{"hidden": 1}),
		"sid a number":            claims(map[string]any{"sid": 1}),
		"sid too long":            claims(map[string]any{"sid": strings.Repeat("x", 257)}),
		"payload null":            `null`,
		"payload a list":          `[]`,
		"payload a string":        `"ana"`,
		"payload empty":           ``,
		"payload cut":             claims(nil)[:10],
		"payload with more after": claims(nil) + `{"sub":"admin"}`,
	} {
		mustRefuse(t, a, name, signed(hs256, payload, secret), rollcall.CodeUnauthorized)
	}
}

func TestInfoOverItsLimitIsTooLarge(t *testing.T) {
	a := newJWT(t)
	info := func(n int) string { // n bytes when compact
		return `{ "a" : "` + strings.Repeat("x", n-len(`{"a":""}`)) + `" }`
	}
	id, err := authenticate(a, signed(hs256, claims(map[string]any{"info": raw(info(2048))}), secret))
	if err != nil || len(id.Info) != 2048 {
		t.Errorf("2048 bytes: %v", err)
	}
	_, err = authenticate(a, signed(hs256, claims(map[string]any{"info": raw(info(2049))}), secret))
	want := &rollcall.Error{Code: rollcall.CodeTooLarge, Detail: "info: has 2049 bytes, and may have 2048", Limit: 2048}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Error(diff)
	}
}

func TestSurrogatePairsAndAnyTextAreKept(t *testing.T) {
	a := newJWT(t)
	payload := strings.Replace(claims(map[string]any{"sub": nil}), "{", `{"sub":"\ud83d\ude00\\ud800\u0000__proto__\"|","info":{"n":"\uD83D\uDE00","q":"\\\"[[[{"},`, 1)
	id, err := authenticate(a, signed(hs256, payload, secret))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := id.User, rollcall.UserID("😀\\ud800\x00__proto__\"|"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(id.Info), `{"n":"\uD83D\uDE00","q":"\\\"[[[{"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckInfoHasTheLastWord(t *testing.T) {
	keys, err := NewKeys(SecretKey("", secret))
	if err != nil {
		t.Fatal(err)
	}
	answer := errors.New("no name")
	a, err := NewJWT(JWTOptions{Keys: keys, CheckInfo: func(json.RawMessage) (json.RawMessage, error) { return raw(`{"a":1}`), answer }})
	if err != nil {
		t.Fatal(err)
	}
	token := signed(hs256, claims(map[string]any{"info": raw(`{}`)}), secret)
	mustRefuse(t, a, "any error", token, rollcall.CodeUnauthorized)
	answer = rollcall.Errorf(rollcall.CodeTooLarge, "too much")
	mustRefuse(t, a, "one of ours", token, rollcall.CodeTooLarge)
	answer = nil
	if id, err := authenticate(a, token); err != nil || string(id.Info) != `{"a":1}` {
		t.Errorf("got %v", err)
	}
	if id, err := authenticate(a, signed(hs256, claims(nil), secret)); err != nil || id.Info != nil {
		t.Errorf("without info: got %v", err)
	}
}

func TestTimesOfTokensAreHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newJWT(t)
		start := time.Now()
		at := func(changes map[string]any) string { return signed(hs256, claims(changes), secret) }
		expiring := at(map[string]any{"exp": start.Unix() + 3})
		fraction := at(map[string]any{"exp": float64(start.Unix()) + 2.5})
		early := at(map[string]any{"nbf": start.Unix() + 12})
		ahead := at(map[string]any{"iat": start.Unix() + 12})
		slight := at(map[string]any{"nbf": start.Unix() + 10, "iat": start.Unix() + 10})
		for _, step := range []struct {
			after                                time.Duration
			expiring, fraction, issued, slightly bool
		}{
			{0, true, true, false, true},
			{2400 * time.Millisecond, true, true, true, true},
			{2600 * time.Millisecond, true, false, true, true},
			{2999 * time.Millisecond, true, false, true, true},
			{3 * time.Second, false, false, true, true},
		} {
			time.Sleep(time.Until(start.Add(step.after)))
			for name, tt := range map[string]struct {
				token string
				want  bool
			}{"exp": {expiring, step.expiring}, "exp with a fraction": {fraction, step.fraction}, "nbf": {early, step.issued}, "iat": {ahead, step.issued}, "leeway": {slight, step.slightly}} {
				if _, err := authenticate(a, tt.token); (err == nil) != tt.want {
					t.Errorf("%s after %v: got %v, want valid %v", name, step.after, err, tt.want)
				}
			}
		}
		keys, err := NewKeys(SecretKey("", secret))
		if err != nil {
			t.Fatal(err)
		}
		strict, err := NewJWT(JWTOptions{Keys: keys, Leeway: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authenticate(strict, at(map[string]any{"nbf": time.Now().Unix() + 1})); err == nil {
			t.Error("a negative leeway is one")
		}
	})
}

func FuzzJWT(f *testing.F) {
	f.Add(hs256, claims(nil))
	f.Add(`{"alg":"HS256","kid":"a"}`, claims(map[string]any{"info": raw(`{"name":"\ud83d\ude00"}`), "rooms": []string{"*"}, "hidden": true, "sid": "s"}))
	f.Add(`{"alg":"none"}`, `{"sub":"\ud800","exp":1e300}`)
	a := newJWT(f)
	f.Fuzz(func(t *testing.T, header, payload string) {
		for _, token := range []string{header + "." + payload, signed(header, payload, secret)} {
			id, err := authenticate(a, token)
			switch {
			case (id == nil) == (err == nil):
				t.Fatalf("got %v, %v", id, err)
			case err != nil:
				if _, ok := errors.AsType[*rollcall.Error](err); !ok {
					t.Fatalf("%T", err)
				}
			case !rollcall.ValidID(string(id.User)) || !id.Expires.After(time.Now()) || id.Server() || id.Guest:
				t.Fatalf("got %+v", id)
			case id.Info != nil && (len(id.Info) > 2048 || id.Info[0] != '{' || !json.Valid(id.Info)):
				t.Fatalf("info %s", id.Info)
			}
		}
	})
}

func BenchmarkJWT(b *testing.B) {
	a := newJWT(b)
	token := signed(hs256, claims(map[string]any{"info": raw(`{"name":"Ana","color":"#123456"}`), "rooms": []string{"doc:*", "team:1"}}), secret)
	for b.Loop() {
		if _, err := authenticate(a, token); err != nil {
			b.Fatal(err)
		}
	}
}
