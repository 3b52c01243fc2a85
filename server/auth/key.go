package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
)

// MinSecret is the shortest secret that should sign tokens, in bytes: as long as
// the output of SHA-256 (RFC 7518, section 3.2).
const MinSecret = 32

// Key is one key that verifies tokens.
type Key struct {
	// ID is the `kid` of the tokens that it verifies; "" for a key without a
	// name.
	ID string
	// Algorithms are the values of `alg` that it verifies, and no others.
	Algorithms []string
	// Material is a []byte (HS256, HS384, HS512), *rsa.PublicKey (RS256),
	// *ecdsa.PublicKey (ES256) or ed25519.PublicKey (EdDSA). It is not changed
	// once given.
	Material any
}

// String tells the name and not the material.
func (k Key) String() string { return fmt.Sprintf("key %q", k.ID) }

// GoString is [Key.String], so that %#v tells no more.
func (k Key) GoString() string { return k.String() }

// SecretKey is the key of a shared secret: HS256, HS384 and HS512.
func SecretKey(id string, secret []byte) Key {
	return Key{ID: id, Algorithms: []string{"HS256", "HS384", "HS512"}, Material: bytes.Clone(secret)}
}

// Weak reports whether the key is a secret short enough to be guessed offline by
// whoever has one token: a warning at the start is due.
func (k Key) Weak() bool {
	m, ok := k.Material.([]byte)
	return ok && len(m) < MinSecret
}

// KeySource gives the keys that may verify a token. Implementations are safe for
// concurrent use.
type KeySource interface {
	// Keys is the keys for a token with this `kid`, "" if it has none; empty if
	// there are none. The kid is not verified: it is whatever a stranger wrote,
	// at most 256 bytes of it. A source that fetches keys bounds how often a
	// stranger can make it fetch. An error means that it cannot be known now.
	// The caller does not change what it is given.
	Keys(ctx context.Context, kid string) ([]Key, error)
}

// Keys is a [KeySource] of a fixed set. A key with a name verifies the tokens
// that name it. Keys without a name verify the tokens without `kid`, and if no
// key has a name, all tokens. Static after NewKeys.
type Keys struct {
	named   map[string][]Key
	unnamed []Key
}

// NewKeys checks the keys: at least one, no two of one name, no empty
// secret, algorithms that fit the material. The errors never tell a secret.
func NewKeys(keys ...Key) (*Keys, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key to verify tokens with")
	}
	s := &Keys{named: make(map[string][]Key)}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("%v: %w", k, err)
		}
		switch {
		case k.ID == "":
			s.unnamed = append(s.unnamed, k)
		case s.named[k.ID] != nil:
			return nil, fmt.Errorf("%v: there are two of this name", k)
		default:
			s.named[k.ID] = []Key{k}
		}
	}
	return s, nil
}

// Keys implements [KeySource].
func (s *Keys) Keys(_ context.Context, kid string) ([]Key, error) {
	if kid == "" || len(s.named) == 0 {
		return s.unnamed, nil
	}
	return s.named[kid], nil
}

func (k Key) check() error {
	if len(k.ID) > maxKeyID {
		return fmt.Errorf("the name is longer than %d bytes", maxKeyID)
	}
	var fits []string
	switch m := k.Material.(type) {
	case []byte:
		// A public key is public: a secret that is one signs for everybody.
		if bytes.HasPrefix(bytes.TrimSpace(m), []byte("-----BEGIN")) {
			return errors.New("a PEM block is not a shared secret")
		}
		if len(m) == 0 {
			return errors.New("the secret is empty")
		}
		fits = []string{"HS256", "HS384", "HS512"}
	case *rsa.PublicKey:
		if m == nil || m.N == nil {
			return errors.New("the RSA key is empty")
		}
		if m.N.BitLen() < 2048 {
			return fmt.Errorf("the RSA key has %d bits, and needs 2048 or more", m.N.BitLen())
		}
		fits = []string{"RS256"}
	case *ecdsa.PublicKey:
		if m == nil || m.Curve == nil {
			return errors.New("the ECDSA key is empty")
		}
		if bits := m.Curve.Params().BitSize; bits != 256 {
			return fmt.Errorf("ES256 needs the curve P-256, and this one has %d bits", bits)
		}
		fits = []string{"ES256"}
	case ed25519.PublicKey:
		if len(m) != ed25519.PublicKeySize {
			return fmt.Errorf("an Ed25519 key has %d bytes, and this one %d", ed25519.PublicKeySize, len(m))
		}
		fits = []string{"EdDSA"}
	default:
		return fmt.Errorf("a %T cannot verify tokens", k.Material)
	}
	if len(k.Algorithms) == 0 {
		return errors.New("it has no algorithm")
	}
	for _, alg := range k.Algorithms {
		if !slices.Contains(fits, alg) {
			return fmt.Errorf("algorithm %q is not one for a %T (those are %v)", alg, k.Material, fits)
		}
	}
	return nil
}
