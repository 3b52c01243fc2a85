package rollcall

// Status is how attentive a connection is. Offline is absence, never a value.
// The zero value means "not given".
type Status uint8

// The statuses, lowest first: the status of a member is the highest over the
// user's connections.
const (
	StatusUnset Status = iota
	StatusAway
	StatusIdle
	StatusActive
)

// ParseStatus reads "active", "idle" or "away"; ok is false for anything else.
func ParseStatus(s string) (status Status, ok bool) {
	switch s {
	case "active":
		return StatusActive, true
	case "idle":
		return StatusIdle, true
	case "away":
		return StatusAway, true
	}
	return StatusUnset, false
}

// String is the word on the wire; "" for [StatusUnset].
func (s Status) String() string {
	switch s {
	case StatusActive:
		return "active"
	case StatusIdle:
		return "idle"
	case StatusAway:
		return "away"
	}
	return ""
}
