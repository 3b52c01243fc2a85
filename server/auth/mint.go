package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"rollcall"
)

// DefaultLife is the life of a minted token that does not say when it ends.
const DefaultLife = time.Hour

// Claims is what a token says. Its zero fields are left out.
type Claims struct {
	User rollcall.UserID // required
	Info json.RawMessage // a JSON object
	// Rooms are patterns that give presence.
	Rooms []string
	// Grants are patterns that give what they list; a pattern that is in Rooms
	// too gives both.
	Grants  map[string][]Capability
	Hidden  bool
	Session string
	// IssuedAt is now if zero; Expires is [DefaultLife] later if zero.
	IssuedAt, NotBefore, Expires time.Time
	// KeyID is the kid of the header.
	KeyID string
}

// Mint makes a token with a shared secret, best of [MinSecret] bytes or more, signed
// with HS256. It refuses what a [JWT] would refuse, apart from the times.
func Mint(secret []byte, c Claims) (string, error) {
	if err := SecretKey(c.KeyID, secret).check(); err != nil {
		return "", err
	}
	if c.IssuedAt.IsZero() {
		c.IssuedAt = time.Now()
	}
	if c.Expires.IsZero() {
		c.Expires = c.IssuedAt.Add(DefaultLife)
	}
	if !rollcall.ValidID(string(c.User)) {
		return "", fmt.Errorf("the user id has %d bytes: it must be 1 to %d bytes of UTF-8, and not a dot or two", len(c.User), rollcall.MaxID)
	}
	if len(c.Session) > maxSession || !utf8.ValidString(c.Session) {
		return "", fmt.Errorf("the session has %d bytes: it must be at most %d bytes of UTF-8", len(c.Session), maxSession)
	}
	if !utf8.ValidString(c.KeyID) {
		return "", errors.New("the kid is not UTF-8")
	}
	claims := map[string]any{"sub": c.User, "iat": c.IssuedAt.Unix(), "exp": c.Expires.Unix()}
	info, err := CompactInfo(c.Info, rollcall.DefaultLimits().Info)
	if err != nil {
		return "", err
	}
	if info != nil {
		claims["info"] = info
	}
	if rooms, err := c.rooms(); err != nil {
		return "", err
	} else if rooms != nil {
		claims["rooms"] = rooms
	}
	if c.Hidden {
		claims["hidden"] = true
	}
	if c.Session != "" {
		claims["sid"] = c.Session
	}
	if !c.NotBefore.IsZero() {
		claims["nbf"] = c.NotBefore.Unix()
	}
	header := map[string]any{"alg": "HS256", "typ": "JWT"}
	if c.KeyID != "" {
		header["kid"] = c.KeyID
	}
	signed := encodeSegment(header) + "." + encodeSegment(claims)
	mac, err := jwt.SigningMethodHS256.Sign(signed, secret)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signed += "." + base64.RawURLEncoding.EncodeToString(mac)
	if len(signed) > MaxToken {
		return "", fmt.Errorf("the token has %d bytes, and may have %d", len(signed), MaxToken)
	}
	return signed, nil
}

// encodeSegment is the base64url of JSON without the escapes for HTML, which
// would make an info longer than it is. The values are strings, numbers, true
// and valid JSON, which always encode.
func encodeSegment(object map[string]any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(object)
	return base64.RawURLEncoding.EncodeToString(bytes.TrimSpace(b.Bytes()))
}

// rooms is the claim: a list if that says it all, nil if there is none.
func (c Claims) rooms() (any, error) {
	object := make(map[string][]Capability, len(c.Rooms)+len(c.Grants))
	for pattern, list := range c.Grants {
		object[pattern] = list[:len(list):len(list)]
	}
	for _, pattern := range c.Rooms {
		object[pattern] = append(object[pattern], Presence)
	}
	if _, err := NewGrants(object); err != nil {
		return nil, errors.New(err.(*rollcall.Error).Detail)
	}
	switch {
	case len(c.Grants) > 0:
		words := make(map[string][]string, len(object))
		for pattern, list := range object {
			words[pattern] = []string{}
			for _, capability := range list {
				words[pattern] = append(words[pattern], capability.String())
			}
		}
		return words, nil
	case len(c.Rooms) > 0:
		return c.Rooms, nil
	}
	return nil, nil
}
