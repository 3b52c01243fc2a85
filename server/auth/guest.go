package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"hash/fnv"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"rollcall"
)

// GuestPrefix begins the ids of guests who did not say who they are.
const GuestPrefix = "guest-"

// MaxGuestName is the longest name of a guest, in characters.
const MaxGuestName = 100

// Guests lets everybody in, for development and for demonstrations. `?user=ana`
// names the guest, `?name=Ana` says what to call it; without `user` it is a new
// guest with a random id. A user id or a name that cannot be one is
// [rollcall.CodeBadRequest].
//
// It takes requests without a token, and those whose token comes from a cookie:
// on localhost all servers share their cookies, and a cookie of another one is
// no reason to keep somebody out. A token that was sent on purpose is
// [ErrNotMine]; with nobody else in the chain that is refused.
//
// The zero value is ready and gives every right but that of a server.
type Guests struct {
	// Grants is what guests may do; [Everything] if it is the zero value.
	Grants Grants
}

// Authenticate implements [Authenticator].
func (g Guests) Authenticate(_ context.Context, c Credentials) (*Identity, error) {
	if c.Token != "" && c.From != Cookie {
		return nil, ErrNotMine
	}
	var query url.Values
	if c.Request != nil && c.Request.URL != nil {
		query = c.Request.URL.Query()
	}
	user, name := query.Get("user"), strings.TrimSpace(query.Get("name"))
	switch {
	case user == "":
		user = newGuest()
	case !rollcall.ValidID(user):
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "user: an id is 1 to %d bytes of UTF-8, and not a dot or two", rollcall.MaxID)
	}
	if utf8.RuneCountInString(name) > MaxGuestName {
		return nil, rollcall.LimitError(rollcall.CodeBadRequest, MaxGuestName, "name: is longer than %d characters", MaxGuestName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "name: must be text in UTF-8 without control characters")
	}
	if name == "" {
		name = guestName(user)
	}
	// A copy: what is said of it lives long, and would keep the request.
	id := guest(rollcall.UserID(strings.Clone(user)), name)
	if g.Grants != (Grants{}) {
		id.Grants = g.Grants
	}
	return id, nil
}

// GuestIdentity is the guest of a user id, which is taken to be valid, with every
// right but that of a server. The name and the color of a guest with a random id
// follow from the id, so that the guest keeps them when nothing else is known of
// it, as when its connection is resumed. A guest that named itself is called by
// its id.
func GuestIdentity(user rollcall.UserID) *Identity {
	return guest(user, guestName(string(user)))
}

func guest(user rollcall.UserID, name string) *Identity {
	var info bytes.Buffer
	encoder := json.NewEncoder(&info)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(struct { // two strings always encode
		Name  string `json:"name"`
		Color string `json:"color"`
	}{name, guestColors[hashOf(string(user))%uint64(len(guestColors))]})
	return &Identity{User: user, Info: bytes.TrimSpace(info.Bytes()), Grants: Everything, Guest: true}
}

// newGuest is an id with 50 random bits: among 20,000 guests two are the same
// once in 5 million times.
func newGuest() string {
	var b [7]byte
	rand.Read(b[:]) // never fails
	return GuestPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])[:10])
}

func guestName(user string) string {
	if !strings.HasPrefix(user, GuestPrefix) {
		if utf8.RuneCountInString(user) > MaxGuestName {
			return string([]rune(user)[:MaxGuestName])
		}
		return user
	}
	h := hashOf(user)
	adjectives, animals := uint64(len(guestAdjectives)), uint64(len(guestAnimals))
	return guestAdjectives[h/7%adjectives] + " " + guestAnimals[h/7/adjectives%animals]
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// The order of these lists is part of who a guest is: append only, and better
// not at all.
var (
	guestAdjectives = [...]string{
		"Amber", "Bold", "Brave", "Bright", "Calm", "Clever", "Cosmic", "Curious", "Eager", "Gentle", "Golden", "Happy", "Jolly", "Kind", "Lively", "Lucky",
		"Mellow", "Merry", "Mighty", "Nimble", "Noble", "Patient", "Polite", "Proud", "Quick", "Quiet", "Silver", "Sunny", "Swift", "Teal", "Witty", "Zesty",
	}
	guestAnimals = [...]string{
		"Badger", "Beaver", "Bison", "Cheetah", "Crane", "Dolphin", "Eagle", "Falcon", "Ferret", "Finch", "Fox", "Gecko", "Hare", "Heron", "Ibex", "Jaguar",
		"Koala", "Lemur", "Lynx", "Marten", "Moose", "Newt", "Ocelot", "Otter", "Owl", "Panda", "Puffin", "Raven", "Robin", "Seal", "Tapir", "Wren",
	}
	// guestColors all have a contrast of at least 4.5 with white text.
	guestColors = [...]string{
		"#b3261e", "#a8461b", "#8a5300", "#6b6200", "#3f6b12", "#1b7340", "#00706a", "#006c8f", "#1565c0", "#3f51b5", "#5e43b8", "#7b3fb0", "#94349b", "#b0286f", "#5d5f73", "#6d5348",
	}
)
