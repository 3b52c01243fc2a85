package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/MicahParks/jwkset"
)

// ParseKeySet reads the keys of a file: a JWK Set (RFC 7517), one JWK, or PEM
// blocks of public keys and certificates. A JWK has the name (`kid`) that it says;
// a PEM block has none, so it verifies the tokens without `kid`, and all tokens if
// nothing else here has a name. See [NewKeys] for what they must fulfil.
//
// A JWK that is for another use (`use`, `key_ops`), or of a kind that is not
// supported here, is passed over, as the RFC asks; a set of which none is left is
// an error. Private keys are refused: a server that verifies must not hold them.
// The errors never tell a secret.
func ParseKeySet(raw []byte) ([]Key, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '{' {
		return parseJWKs(raw)
	}
	return parsePEM(raw)
}

func parsePEM(raw []byte) ([]Key, error) {
	var keys []Key
	for n := 1; ; n++ {
		block, rest := pem.Decode(raw)
		if block == nil {
			break
		}
		raw = rest
		material, err := publicKey(block)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", n, err)
		}
		key := Key{Algorithms: algorithmsOf(material), Material: material}
		if err := key.check(); err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", n, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it: it should be a JWK Set, or PEM blocks of public keys")
	}
	return keys, nil
}

func publicKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, errPrivateKey
	}
	return nil, fmt.Errorf("a %q is no public key", block.Type)
}

var errPrivateKey = errors.New("it is a private key, which signs tokens and must not leave whoever signs them: give the public one (openssl pkey -pubout)")

// algorithmsOf is what verifies by a material; nil if it is of no known kind.
func algorithmsOf(material any) []string {
	switch material.(type) {
	case []byte:
		return []string{"HS256", "HS384", "HS512"}
	case *rsa.PublicKey:
		return []string{"RS256"}
	case *ecdsa.PublicKey:
		return []string{"ES256"}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// jwkSet is a JWK Set with its keys unread, so that one bad key spoils no other;
// or a single JWK.
type jwkSet struct {
	Keys []json.RawMessage `json:"keys"`
	KTY  string            `json:"kty"`
}

func parseJWKs(raw []byte) ([]Key, error) {
	var set jwkSet
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("it is not a JWK Set: the JSON is broken")
	}
	switch {
	case set.KTY != "":
		set.Keys = []json.RawMessage{raw}
	case set.Keys == nil:
		return nil, errors.New(`it is not a JWK Set: it has no "keys"`)
	}
	var keys []Key
	var unfit error // why the first was passed over
	for n, one := range set.Keys {
		key, err := parseJWK(one)
		switch {
		case errors.Is(err, errPrivateKey):
			return nil, fmt.Errorf("key %d: %w", n+1, err)
		case err != nil:
			if unfit == nil {
				unfit = fmt.Errorf("key %d: %w", n+1, err)
			}
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		if unfit != nil {
			return nil, fmt.Errorf("none of its keys can verify tokens here; %w", unfit)
		}
		return nil, errors.New("it has no keys")
	}
	return keys, nil
}

func parseJWK(raw json.RawMessage) (Key, error) {
	var fields jwkset.JWKMarshal
	if json.Unmarshal(raw, &fields) != nil {
		return Key{}, errors.New("it is not a JWK")
	}
	secret := fields.KTY == jwkset.KtyOct
	if !secret && fields.D != "" {
		return Key{}, errPrivateKey
	}
	if fields.USE != "" && fields.USE != jwkset.UseSig {
		return Key{}, fmt.Errorf("its use is %q", fields.USE)
	}
	if len(fields.KEYOPS) > 0 && !verifies(fields.KEYOPS) {
		return Key{}, errors.New("its key_ops do not have verify")
	}
	// What the application says of the key is not ours to fetch or to check.
	fields.X5U, fields.X5C, fields.X5T, fields.X5TS256 = "", nil, "", ""
	jwk, err := jwkset.NewJWKFromMarshal(fields, jwkset.JWKMarshalOptions{Private: secret}, jwkset.JWKValidateOptions{})
	if err != nil {
		return Key{}, fmt.Errorf("a key of kty %q that cannot be read", fields.KTY)
	}
	key := Key{ID: fields.KID, Algorithms: algorithmsOf(jwk.Key()), Material: jwk.Key()}
	if fields.ALG != "" {
		key.Algorithms = []string{string(fields.ALG)}
	}
	return key, key.check()
}

func verifies(ops []jwkset.KEYOPS) bool {
	for _, op := range ops {
		if op == jwkset.KeyOpsVerify {
			return true
		}
	}
	return false
}
