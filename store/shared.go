package store

// Shared is a store that may tell that several nodes share it.
type Shared interface {
	// Shared reports whether other nodes may hold leases in the store.
	Shared() bool
}
