package store

// Unknowns is a store that several releases of the server may share. Stores may
// implement it; safe for concurrent use.
type Unknowns interface {
	// Unknown is how many values were met that a later release has written and
	// this one cannot read, and which were left alone.
	Unknown() uint64
}
