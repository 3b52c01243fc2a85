package auth

import (
	"context"
	"errors"

	"rollcall"
)

// Authenticator turns credentials into an identity.
//
// The error is a [*rollcall.Error]: [rollcall.CodeUnauthorized] as a rule;
// [rollcall.CodeTooLarge] for an info over its limit; [rollcall.CodeBadRequest]
// for a guest's parameters; [rollcall.CodeUnavailable] when it cannot be known
// now. Credentials of another kind are [ErrNotMine], unwrapped, which is an
// unauthorized error too, so that an authenticator also serves alone.
//
// The identity is nil if and only if the error is not. Implementations are safe
// for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (*Identity, error)
}

// ErrNotMine says that the credentials are not of the kind that an
// [Authenticator] knows: another one may.
var ErrNotMine = rollcall.Errorf(rollcall.CodeUnauthorized,
	"a token is needed: in Authorization: Bearer, in the WebSocket subprotocol bearer.<token>, in an auth message, in the cookie "+CookieName+", or in ?"+QueryName+"=")

// Chain asks each authenticator in turn. The first that knows the kind of the
// credentials decides, for good or bad. If none does, the error is [ErrNotMine],
// or says that there is no key here for the token that was sent.
func Chain(authenticators ...Authenticator) Authenticator { return chain(authenticators) }

type chain []Authenticator

func (list chain) Authenticate(ctx context.Context, c Credentials) (*Identity, error) {
	for _, a := range list {
		id, err := a.Authenticate(ctx, c)
		if !errors.Is(err, ErrNotMine) && !errors.Is(err, errNoVerifier) {
			return id, err
		}
	}
	if c.Token != "" {
		return nil, errNoVerifier
	}
	return nil, ErrNotMine
}

// errNoVerifier is [ErrNotMine] for people who did send a token.
var errNoVerifier = rollcall.Errorf(rollcall.CodeUnauthorized, "this server has no key to verify such a token with")

func unauthorized(format string, args ...any) *rollcall.Error {
	return rollcall.Errorf(rollcall.CodeUnauthorized, format, args...)
}
