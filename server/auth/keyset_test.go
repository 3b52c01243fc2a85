package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwkOf is the JWK of a public key, made by hand.
func jwkOf(t testing.TB, k Key) map[string]any {
	t.Helper()
	m := map[string]any{"kid": k.ID, "alg": k.Algorithms[0], "use": "sig"}
	switch p := k.Material.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", b64(p.N.Bytes()), b64(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		raw, err := p.Bytes() // 4, x, y
		if err != nil {
			t.Fatal(err)
		}
		m["kty"], m["crv"], m["x"], m["y"] = "EC", "P-256", b64(raw[1:33]), b64(raw[33:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", b64(p)
	case []byte:
		m["kty"], m["k"] = "oct", b64(p)
	}
	return m
}

func jwksOf(t testing.TB, keys ...map[string]any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tokenBy(t testing.TB, alg, kid string, private any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.GetSigningMethod(alg), jwt.MapClaims{"sub": "ana", "exp": time.Now().Add(time.Hour).Unix()})
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeySetsVerify(t *testing.T) {
	var set []map[string]any
	pairs := keyPairs(t)
	for _, pair := range pairs {
		set = append(set, jwkOf(t, pair.key))
	}
	set = append(set, jwkOf(t, Key{ID: "s", Algorithms: []string{"HS256"}, Material: secret}),
		map[string]any{"kty": "RSA", "kid": "e1", "use": "enc", "n": "AQAB", "e": "AQAB"},
		map[string]any{"kty": "future", "kid": "f1"})
	keys, err := ParseKeySet(jwksOf(t, set...))
	if err != nil || len(keys) != 4 {
		t.Fatalf("got %v, %v, want four keys", keys, err)
	}
	a := newJWT(t, keys...)
	for alg, pair := range pairs {
		if _, err := authenticate(a, tokenBy(t, alg, pair.key.ID, pair.private)); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		if _, err := authenticate(a, tokenBy(t, alg, "other", pair.private)); err == nil {
			t.Errorf("%s by another name is taken", alg)
		}
		der, err := x509.MarshalPKIXPublicKey(pair.key.Material)
		if err != nil {
			t.Fatal(err)
		}
		one, err := ParseKeySet(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		if err != nil || len(one) != 1 {
			t.Fatalf("%s as PEM: %v, %v", alg, one, err)
		}
		if _, err := authenticate(newJWT(t, one...), tokenBy(t, alg, "whatever", pair.private)); err != nil {
			t.Errorf("%s by PEM: %v", alg, err)
		}
		raw, _ := json.Marshal(jwkOf(t, pair.key))
		if one, err := ParseKeySet(raw); err != nil || len(one) != 1 {
			t.Errorf("%s as one JWK: %v, %v", alg, one, err)
		}
	}
	if _, err := authenticate(a, tokenBy(t, "HS256", "s", secret)); err != nil {
		t.Errorf("a secret of the file: %v", err)
	}
}

func TestKeySetsThatAreNoneAreRefused(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(private)
	curve, _ := x509.MarshalPKIXPublicKey(&private.PublicKey)
	weak := x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537})
	for name, tt := range map[string]struct{ raw, want string }{
		"empty":            {"", "no key"},
		"text":             {"hello", "no key"},
		"broken JSON":      {`{"keys":[`, "broken"},
		"another object":   {`{"a":1}`, `no "keys"`},
		"no keys":          {`{"keys":[]}`, "no keys"},
		"no key of use":    {`{"keys":[{"kty":"future"},7]}`, "none of its keys"},
		"a private JWK":    {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}]}`, "private key"},
		"a private key":    {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "private key"},
		"another curve":    {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: curve})), "P-256"},
		"a short RSA key":  {string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: weak})), "2048"},
		"another block":    {string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: weak})), "no public key"},
		"a broken block":   {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})), "PEM block 1"},
		"alg of other kty": {`{"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"RS256"}]}`, "algorithm"},
	} {
		keys, err := ParseKeySet([]byte(tt.raw))
		if err == nil || len(keys) != 0 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, keys, err, tt.want)
		}
	}
}

func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := ParseKeySet(raw)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("got %v and %v", keys, err)
		}
		for _, k := range keys {
			if err := k.check(); err != nil {
				t.Fatalf("a key that is none: %v", err)
			}
			if fmt.Sprintf("%v %#v", k, k) == "" || errors.Is(err, errPrivateKey) {
				t.Fatal("private")
			}
		}
	})
}
