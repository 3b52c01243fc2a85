package auth

import (
	"encoding/json"
	"time"

	"rollcall"
)

// Identity is who a client is and what it may do. What an [Authenticator]
// returns is immutable and may be shared.
type Identity struct {
	// User is a valid id; "" for a server.
	User rollcall.UserID
	// Info is the public profile, a compact JSON object; nil if there is none.
	Info json.RawMessage
	// Grants is what the token allows, by room.
	Grants Grants
	// Hidden users see and are never seen.
	Hidden bool
	// Session is the application's session, by which it may disconnect one of a
	// user's devices; "" if the token names none.
	Session string
	// IssuedAt is when the token was issued; zero if the token does not say,
	// which counts as issued before anything.
	IssuedAt time.Time
	// Expires is when the token ends; zero: never (servers and guests).
	Expires time.Time
	// ByRequest tells that it was made from the headers of the client's request:
	// when it expires, the client comes back with new ones instead of a token.
	ByRequest bool
	// Guest tells that nobody vouches for the user.
	Guest bool
	// Key is the name of the sk_ key of a server; "" for a user.
	Key string
}

// Server reports whether this is a server with an sk_ key, which may do
// everything, for any user.
func (i *Identity) Server() bool { return i.Key != "" }

// Can reports whether the identity has a capability in a room. It does not
// allocate.
func (i *Identity) Can(room rollcall.RoomID, c Capability) bool {
	return i.Server() || i.Grants.Allows(room, c)
}
