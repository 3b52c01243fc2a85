package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

const (
	apiKeyPrefix = "sk_"
	maxKeyName   = 64
	strongAPIKey = 24 // characters with the prefix: some 120 bits of base 62
)

// APIKey is a named key of a server. It prints without the key.
type APIKey struct {
	Name string // 1 to 64 letters, digits, `.`, `_` and `-`; stands in logs
	Key  string // sk_...
}

// String tells the name and not the key.
func (k APIKey) String() string { return fmt.Sprintf("api key %q", k.Name) }

// GoString is [APIKey.String], so that %#v tells no more.
func (k APIKey) GoString() string { return k.String() }

// Weak reports whether the key is so short that it may be guessed: a reason for
// a warning at the start.
func (k APIKey) Weak() bool { return len(k.Key) < strongAPIKey }

// ParseAPIKey reads NAME=sk_... The errors never tell the key.
func ParseAPIKey(s string) (APIKey, error) {
	name, key, ok := strings.Cut(strings.TrimSpace(s), "=")
	if !ok || strings.HasPrefix(name, apiKeyPrefix) {
		return APIKey{}, fmt.Errorf("an api key is given as NAME=sk_..., and this one has no name")
	}
	k := APIKey{Name: name, Key: key}
	return k, k.check()
}

func (k APIKey) check() error {
	if len(k.Name) < 1 || len(k.Name) > maxKeyName || strings.ContainsFunc(k.Name, notInName) {
		return fmt.Errorf("the name of an api key is 1 to %d letters, digits, dots, underscores and hyphens", maxKeyName)
	}
	rest, ok := strings.CutPrefix(k.Key, apiKeyPrefix)
	if !ok {
		return fmt.Errorf("%v: the key does not begin with %s", k, apiKeyPrefix)
	}
	if rest == "" || len(k.Key) > MaxToken || strings.ContainsFunc(rest, notInKey) {
		return fmt.Errorf("%v: the key is %s and 1 to %d visible ASCII characters", k, apiKeyPrefix, MaxToken-len(apiKeyPrefix))
	}
	return nil
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

func notInKey(r rune) bool { return r <= ' ' || r > '~' }

// APIKeys knows the servers of the application by their `sk_` keys, which stand
// in `Authorization: Bearer` only: a key in a URL, a cookie or a browser is a
// key that leaks. It takes every token that begins with `sk_`; everything else
// is [ErrNotMine]. Static after NewAPIKeys.
type APIKeys struct{ keys []hashedKey }

// hashedKey has the hash of a key, so that keys of any length are compared in
// constant time and memory holds no key.
type hashedKey struct {
	name string
	hash [sha256.Size]byte
}

// NewAPIKeys checks the keys: valid, no two of one name, no key twice. There may
// be none: then every `sk_` token is refused.
func NewAPIKeys(keys ...APIKey) (*APIKeys, error) {
	a := &APIKeys{}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, err
		}
		h := hashedKey{k.Name, sha256.Sum256([]byte(k.Key))}
		for _, other := range a.keys {
			if other.name == h.name {
				return nil, fmt.Errorf("%v: there are two of this name", k)
			}
			if other.hash == h.hash {
				return nil, fmt.Errorf("%v: it is the same key as %q", k, other.name)
			}
		}
		a.keys = append(a.keys, h)
	}
	return a, nil
}

// Authenticate implements [Authenticator].
func (a *APIKeys) Authenticate(_ context.Context, c Credentials) (*Identity, error) {
	if !strings.HasPrefix(c.Token, apiKeyPrefix) {
		return nil, ErrNotMine
	}
	if c.From != Header {
		return nil, unauthorized("an sk_ key is for servers, and is taken in Authorization: Bearer only")
	}
	if len(c.Token) > MaxToken {
		return nil, unauthorized("the token is longer than %d bytes", MaxToken)
	}
	hash, found := sha256.Sum256([]byte(c.Token)), -1
	for i := range a.keys {
		// All of them, whichever it is.
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], a.keys[i].hash[:]), i, found)
	}
	if found < 0 {
		return nil, unauthorized("the sk_ key is not known here")
	}
	return &Identity{Grants: Everything, Key: a.keys[found].name}, nil
}
