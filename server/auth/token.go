package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rollcall"
)

// DefaultLeeway is how far the clock of whoever issues tokens may be ahead.
const DefaultLeeway = 10 * time.Second

const (
	maxKeyID   = 256 // bytes of a kid
	maxSession = 256 // bytes of a sid
	// maxSeconds is the last second of the year 9999. A later time is one in
	// milliseconds by mistake.
	maxSeconds = 253402300799
)

// JWTOptions sets up a [JWT].
type JWTOptions struct {
	// Keys verifies; required.
	Keys KeySource
	// Leeway is how far `nbf` and `iat` may lie in the future ([DefaultLeeway]
	// if 0, none if negative). `exp` has no leeway.
	Leeway time.Duration
	// MaxInfo is the largest `info`, in bytes of compact JSON (the limit of the
	// protocol, 2 KiB, if 0).
	MaxInfo int
	// CheckInfo, if not nil, is a last look at `info`, which is a compact JSON
	// object within its limits; it answers what to keep. An error refuses the
	// token: a [*rollcall.Error] as it is, any other as unauthorized.
	CheckInfo func(info json.RawMessage) (json.RawMessage, error)
}

// JWT verifies the tokens of the application. It takes every token but those
// that begin with `sk_`; without a token it answers [ErrNotMine].
//
// A token is a compact JWS of at most [MaxToken] bytes with `alg` one of those
// of its key (never `none`) and no `crit`. Its claims: `sub` (required, a valid
// id) is the user; `exp` (required), `nbf` and `iat` are seconds; `info` an
// object of at most 2 KiB, else [rollcall.CodeTooLarge]; `rooms` as
// [ParseGrants] reads it; `hidden` true or false; `sid` a string of at most 256
// bytes. null is the same as absent. Names are compared exactly, other claims
// are ignored, and a claim of another type refuses the token: it is never
// quietly read as absent.
//
// Safe for concurrent use.
type JWT struct {
	options JWTOptions
	parser  *jwt.Parser
}

// NewJWT checks the options.
func NewJWT(options JWTOptions) (*JWT, error) {
	if options.Keys == nil {
		return nil, errors.New("tokens need a key to verify them with")
	}
	if options.Leeway == 0 {
		options.Leeway = DefaultLeeway
	}
	options.Leeway = max(options.Leeway, 0)
	if options.MaxInfo == 0 {
		options.MaxInfo = rollcall.DefaultLimits().Info
	}
	// The claims are read here and not by the library, which reads an exp of 0
	// or a claim in other letters as one takes it.
	parser := jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	return &JWT{options: options, parser: parser}, nil
}

// Authenticate implements [Authenticator].
func (a *JWT) Authenticate(ctx context.Context, c Credentials) (*Identity, error) {
	switch {
	case c.Token == "" || strings.HasPrefix(c.Token, apiKeyPrefix):
		return nil, ErrNotMine
	case len(c.Token) > MaxToken:
		return nil, unauthorized("the token is longer than %d bytes", MaxToken)
	}
	payload, err := a.verify(ctx, c.Token)
	if err != nil {
		return nil, err
	}
	return a.identity(payload)
}

// verify is the payload of a token whose signature is good.
func (a *JWT) verify(ctx context.Context, token string) (json.RawMessage, error) {
	var payload unread
	parsed, parts, err := a.parser.ParseUnverified(token, &payload)
	if err != nil || strings.ContainsAny(token, "\r\n") { // base64 passes over line ends
		// What the library says may quote the token.
		return nil, unauthorized("the token is not a well-formed JWT with a known algorithm")
	}
	if _, ok := parsed.Header["crit"]; ok {
		return nil, unauthorized("the token demands an extension (crit) that is not known here")
	}
	kid := ""
	if v, ok := parsed.Header["kid"]; ok {
		if kid, ok = v.(string); !ok || len(kid) > maxKeyID {
			return nil, unauthorized("the kid of the token is not a string of at most %d bytes", maxKeyID)
		}
	}
	keys, err := a.options.Keys.Keys(ctx, kid)
	if err != nil {
		if told, ok := errors.AsType[*rollcall.Error](err); ok {
			return nil, told
		}
		return nil, rollcall.Errorf(rollcall.CodeUnavailable, "the keys that verify tokens cannot be read now")
	}
	if len(keys) == 0 {
		return nil, unauthorized("no key is known for the kid of the token, or for a token without one")
	}
	alg, known := parsed.Method.Alg(), false
	signed := token[:len(parts[0])+1+len(parts[1])]
	for _, k := range keys {
		if alg == "none" || !slices.Contains(k.Algorithms, alg) {
			continue
		}
		known = true
		if parsed.Method.Verify(signed, parsed.Signature, k.Material) == nil {
			return payload.raw, nil
		}
	}
	if !known {
		return nil, unauthorized("the algorithm of the token is not one of its key")
	}
	return nil, unauthorized("the signature of the token is not valid: another secret or key signed it, or it was changed")
}

// unread keeps a payload as it is, until its signature is known to be good. It
// implements [jwt.Claims] for the parser, which does not ask.
type unread struct {
	jwt.Claims
	raw json.RawMessage
}

func (u *unread) UnmarshalJSON(b []byte) error {
	u.raw = bytes.Clone(b)
	return nil
}

func (a *JWT) identity(payload json.RawMessage) (*Identity, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(payload, &all) != nil || all == nil {
		return nil, unauthorized("the payload of the token is not a JSON object")
	}
	r := claimReader{all: all}
	id := &Identity{User: rollcall.UserID(r.text("sub", true)), Expires: r.time("exp", true), IssuedAt: r.time("iat", false)}
	notBefore := r.time("nbf", false)
	id.Hidden = r.flag("hidden")
	id.Session = r.text("sid", false)
	if r.err != nil {
		return nil, r.err
	}
	now := time.Now()
	horizon := now.Add(a.options.Leeway)
	switch {
	case !rollcall.ValidID(string(id.User)):
		return nil, unauthorized("sub: a user id is 1 to %d bytes of UTF-8, and not a dot or two", rollcall.MaxID)
	case !now.Before(id.Expires):
		return nil, unauthorized("the token has expired")
	case notBefore.After(horizon):
		return nil, unauthorized("the token is not valid yet (nbf)")
	case id.IssuedAt.After(horizon):
		return nil, unauthorized("the token was issued in the future (iat): is the clock of the issuer right?")
	case len(id.Session) > maxSession:
		return nil, unauthorized("sid: is longer than %d bytes", maxSession)
	}
	var err error
	if id.Grants, err = ParseGrants(r.value("rooms")); err != nil {
		return nil, err
	}
	if id.Info, err = CompactInfo(r.value("info"), a.options.MaxInfo); err != nil {
		return nil, err
	}
	if id.Info != nil && a.options.CheckInfo != nil {
		if id.Info, err = a.options.CheckInfo(id.Info); err != nil {
			if told, ok := errors.AsType[*rollcall.Error](err); ok {
				return nil, told
			}
			return nil, unauthorized("info: %v", err)
		}
	}
	return id, nil
}

// CompactInfo checks the info of a user, as it stands in a token or in the
// answer of an application: a JSON object, or absent (empty, or null), which is
// nil. The result is compact and the caller's own. The error is a
// [*rollcall.Error]: [rollcall.CodeTooLarge] with the limit if the compact form
// is longer than limit bytes, else [rollcall.CodeUnauthorized].
func CompactInfo(info json.RawMessage, limit int) (json.RawMessage, error) {
	info = bytes.TrimSpace(info)
	if len(info) == 0 || string(info) == "null" {
		return nil, nil
	}
	if why := checkText(info); why != "" {
		return nil, unauthorized("info: %s", why)
	}
	var compact bytes.Buffer
	if info[0] != '{' || json.Compact(&compact, info) != nil {
		return nil, unauthorized("info: must be an object")
	}
	if compact.Len() > limit {
		return nil, rollcall.LimitError(rollcall.CodeTooLarge, limit, "info: has %d bytes, and may have %d", compact.Len(), limit)
	}
	return bytes.Clone(compact.Bytes()), nil
}

// claimReader reads single claims and keeps the first error.
type claimReader struct {
	all map[string]json.RawMessage
	err error
}

// value is the claim; nil if it is absent or null.
func (r *claimReader) value(name string) json.RawMessage {
	if v := r.all[name]; string(v) != "null" {
		return v
	}
	return nil
}

func (r *claimReader) read(name string, required bool, into any, what string) (ok bool) {
	v := r.value(name)
	switch {
	case r.err != nil:
		return false
	case v == nil:
		if required {
			r.err = unauthorized("the token has no %s", name)
		}
		return false
	}
	if why := checkText(v); why != "" {
		r.err = unauthorized("%s: %s", name, why)
	} else if json.Unmarshal(v, into) != nil {
		r.err = unauthorized("%s: must be %s", name, what)
	}
	return r.err == nil
}

func (r *claimReader) text(name string, required bool) (s string) {
	r.read(name, required, &s, "a string")
	return s
}

func (r *claimReader) flag(name string) (b bool) {
	r.read(name, false, &b, "true or false")
	return b
}

// time reads a NumericDate: seconds since 1970, perhaps with a fraction.
func (r *claimReader) time(name string, required bool) time.Time {
	var seconds float64
	if !r.read(name, required, &seconds, "a number of seconds") {
		return time.Time{}
	}
	if seconds < 0 || seconds > maxSeconds {
		r.err = unauthorized("%s: is not a time in seconds (is it in milliseconds?)", name)
		return time.Time{}
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9))
}
