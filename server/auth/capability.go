package auth

// Capability is one thing that a token may allow in a room. The zero value is
// no capability, and nobody has it.
type Capability uint8

// The capabilities. Count < Read < Presence: each includes the lesser. The
// others are apart: nothing includes them, and they include nothing.
const (
	Count    Capability = iota + 1 // how many are here
	Read                           // who is here
	Presence                       // to be here
	Contacts                       // which of a given list of users are here
	Signal                         // to send cursors, selections, typing
	Admin                          // to remove somebody
)

var capabilityWords = [...]string{Count: "count", Read: "read", Presence: "presence", Contacts: "contacts", Signal: "signal", Admin: "admin"}

// ParseCapability reads the word of a token; ok is false for anything else.
func ParseCapability(word string) (c Capability, ok bool) {
	for i, w := range capabilityWords {
		if i > 0 && w == word {
			return Capability(i), true
		}
	}
	return 0, false
}

// String is the word of a token; "" for what is not a capability.
func (c Capability) String() string {
	if int(c) < len(capabilityWords) {
		return capabilityWords[c]
	}
	return ""
}

// capabilities is a set: bit 1<<c for each capability c.
type capabilities uint8

// included is what each capability gives: itself and the lesser ones.
var included = [len(capabilityWords)]capabilities{
	Count:    1 << Count,
	Read:     1<<Read | 1<<Count,
	Presence: 1<<Presence | 1<<Read | 1<<Count,
	Contacts: 1 << Contacts,
	Signal:   1 << Signal,
	Admin:    1 << Admin,
}

func (s capabilities) has(c Capability) bool {
	return c >= Count && c <= Admin && s&(1<<c) != 0
}
