package rollcall

import "unicode/utf8"

// RoomID names a room: the scope of presence, such as a document, a chat or a
// live event. 1 to 256 bytes of valid UTF-8, compared byte for byte.
type RoomID string

// UserID names a user: an identity from the application's token. Same form as a
// [RoomID].
type UserID string

// ConnectionID names one tab or device of a user. It is issued by the server and
// is opaque to everybody else.
type ConnectionID string

// Generation tells the leases of one connection in one room apart: each grant
// has a new one, issued by the store, greater than every earlier one of the
// partition. What an older generation asks for does nothing.
type Generation int64

// Version is the position of a change in a room. Versions of a partition
// strictly rise. It is below 2^53, so that JavaScript reads it exactly.
type Version int64

// Epoch names one uninterrupted memory of a store. Versions of different epochs
// cannot be compared.
type Epoch string

// ValidID reports whether s may be the id of a room or a user: 1 to 256 bytes of
// valid UTF-8, and neither "." nor ".." (which no URL path can carry).
func ValidID(s string) bool {
	return len(s) >= 1 && len(s) <= MaxID && s != "." && s != ".." && utf8.ValidString(s)
}

// PartitionOf is the partition of a room: the FNV-1a hash of its id over
// [Partitions].
func PartitionOf(room RoomID) int {
	h := uint64(14695981039346656037)
	for i := 0; i < len(room); i++ {
		h = (h ^ uint64(room[i])) * 1099511628211
	}
	return int((h ^ h>>32) % Partitions)
}
