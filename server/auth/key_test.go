package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rollcall"
)

// keyPairs are one of each kind of public key, with how to sign for it.
func keyPairs(t *testing.T) map[string]struct {
	key     Key
	private any
} {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub, d, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		key     Key
		private any
	}{
		"RS256": {Key{ID: "r", Algorithms: []string{"RS256"}, Material: &r.PublicKey}, r},
		"ES256": {Key{ID: "e", Algorithms: []string{"ES256"}, Material: &e.PublicKey}, e},
		"EdDSA": {Key{ID: "d", Algorithms: []string{"EdDSA"}, Material: pub}, d},
	}
}

func TestPublicKeysVerifyAndNeverServeAsSecrets(t *testing.T) {
	for alg, pair := range keyPairs(t) {
		a := newJWT(t, pair.key)
		token := jwt.NewWithClaims(jwt.GetSigningMethod(alg), jwt.MapClaims{"sub": "ana", "exp": time.Now().Add(time.Hour).Unix()})
		token.Header["kid"] = pair.key.ID
		good, err := token.SignedString(pair.private)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authenticate(a, good); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		der, err := x509.MarshalPKIXPublicKey(pair.key.Material)
		if err != nil {
			t.Fatal(err)
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		header := fmt.Sprintf(`{"alg":"HS256","kid":%q}`, pair.key.ID)
		for name, public := range map[string][]byte{"pem": block, "pem without newline": block[:len(block)-1], "der": der} {
			if _, err := authenticate(a, signed(header, claims(nil), public)); err == nil {
				t.Errorf("%s: its %s signed a token as an HMAC secret", alg, name)
			}
		}
		if _, err := NewKeys(SecretKey("", block)); err == nil {
			t.Errorf("%s: its PEM may be a shared secret", alg)
		}
		if _, err := NewKeys(Key{Algorithms: []string{"HS256"}, Material: pair.key.Material}); err == nil {
			t.Errorf("%s: the key may be used with HS256", alg)
		}
	}
}

// loose is a KeySource that does everything wrong.
type loose struct{ key Key }

func (l loose) Keys(context.Context, string) ([]Key, error) { return []Key{l.key}, nil }

func TestCarelessKeySourceDoesNotOpenTheDoor(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := private.Public().(ed25519.PublicKey)
	everything := []string{"none", "HS256", "RS256", "ES256", "EdDSA", ""}
	for name, tt := range map[string]struct {
		key   Key
		token string
	}{
		"none":              {Key{Algorithms: everything, Material: secret}, segment(`{"alg":"none"}`) + "." + segment(claims(nil)) + "."},
		"none, unsafe key":  {Key{Algorithms: everything, Material: jwt.UnsafeAllowNoneSignatureType}, segment(`{"alg":"none"}`) + "." + segment(claims(nil)) + "."},
		"public key, HS256": {Key{Algorithms: everything, Material: public}, signed(hs256, claims(nil), public)},
		"no material":       {Key{Algorithms: everything}, signed(hs256, claims(nil), nil)},
	} {
		a, err := NewJWT(JWTOptions{Keys: loose{tt.key}})
		if err != nil {
			t.Fatal(err)
		}
		if id, err := authenticate(a, tt.token); err == nil {
			t.Errorf("%s: got %+v", name, id)
		}
	}
}

func TestKeysAreChosenByKid(t *testing.T) {
	with := func(kid string, key []byte) string {
		header := hs256
		if kid != "" {
			header = fmt.Sprintf(`{"alg":"HS256","kid":%q}`, kid)
		}
		return signed(header, claims(nil), key)
	}
	third := []byte("third-third-third-third-third-third")
	for _, tt := range []struct {
		rule  string
		keys  []Key
		token string
		want  bool
	}{
		{"a key without a name takes any kid", []Key{SecretKey("", secret)}, with("x", secret), true},
		{"several keys without a name are tried", []Key{SecretKey("", otherSecret), SecretKey("", secret)}, with("", secret), true},
		{"a named key takes its kid", []Key{SecretKey("a", secret), SecretKey("b", otherSecret)}, with("b", otherSecret), true},
		{"a named key takes no other kid", []Key{SecretKey("a", secret), SecretKey("b", otherSecret)}, with("b", secret), false},
		{"an unknown kid is refused", []Key{SecretKey("a", secret)}, with("c", secret), false},
		{"an unknown kid does not fall back", []Key{SecretKey("a", secret), SecretKey("", third)}, with("c", third), false},
		{"without a kid, a named key is none", []Key{SecretKey("a", secret)}, with("", secret), false},
		{"without a kid, the key without a name", []Key{SecretKey("a", secret), SecretKey("", third)}, with("", third), true},
		{"a kid that is a path is a name", []Key{SecretKey("a", secret)}, with("../../dev/null", nil), false},
		{"a kid that is SQL is a name", []Key{SecretKey("a", secret)}, with("x' UNION SELECT 'a", []byte("a")), false},
	} {
		if _, err := authenticate(newJWT(t, tt.keys...), tt.token); (err == nil) != tt.want {
			t.Errorf("%s: got %v", tt.rule, err)
		}
	}
}

func TestAlgorithmsAreThoseOfTheKey(t *testing.T) {
	key := SecretKey("", secret)
	key.Algorithms = []string{"HS512"}
	mustRefuse(t, newJWT(t, key), "HS256 for an HS512 key", signed(hs256, claims(nil), secret), rollcall.CodeUnauthorized)
}

func TestBadKeysAreRefusedAtTheStart(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	short := []byte("only-31-bytes-of-a-secret-here!")
	for name, keys := range map[string][]Key{
		"none":             nil,
		"empty":            {SecretKey("", nil)},
		"twice":            {SecretKey("a", secret), SecretKey("a", otherSecret)},
		"no algorithm":     {{Material: secret}},
		"algorithm none":   {{Material: secret, Algorithms: []string{"none"}}},
		"wrong algorithm":  {{Material: secret, Algorithms: []string{"HS256", "RS256"}}},
		"string":           {{Material: string(secret), Algorithms: []string{"HS256"}}},
		"nothing":          {{Algorithms: []string{"HS256"}}},
		"small RSA":        {{Material: &weak.PublicKey, Algorithms: []string{"RS256"}}},
		"empty RSA":        {{Material: (*rsa.PublicKey)(nil), Algorithms: []string{"RS256"}}},
		"other curve":      {{Material: &p384.PublicKey, Algorithms: []string{"ES256"}}},
		"empty ECDSA":      {{Material: &ecdsa.PublicKey{}, Algorithms: []string{"ES256"}}},
		"short Ed25519":    {{Material: ed25519.PublicKey{1}, Algorithms: []string{"EdDSA"}}},
		"private key":      {{Material: weak, Algorithms: []string{"RS256"}}},
		"name too long":    {SecretKey(strings.Repeat("k", 257), secret)},
		"PEM with a blank": {SecretKey("", []byte("\n-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n"))},
	} {
		_, err := NewKeys(keys...)
		if err == nil {
			t.Errorf("%s: not refused", name)
		} else if strings.Contains(err.Error(), string(short)) || strings.Contains(err.Error(), string(secret)) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
	if _, err := NewJWT(JWTOptions{}); err == nil {
		t.Error("no key source: not refused")
	}
}

type brokenSource struct{ err error }

func (s brokenSource) Keys(context.Context, string) ([]Key, error) { return nil, s.err }

func TestUnreachableKeysAreUnavailable(t *testing.T) {
	token := signed(hs256, claims(nil), secret)
	for err, code := range map[error]rollcall.Code{
		errors.New("https://keys.test?secret=1: timeout"): rollcall.CodeUnavailable,
		rollcall.Errorf(rollcall.CodeRateLimited, "slow"): rollcall.CodeRateLimited,
	} {
		a, e := NewJWT(JWTOptions{Keys: brokenSource{err}})
		if e != nil {
			t.Fatal(e)
		}
		mustRefuse(t, a, err.Error(), token, code)
	}
}
