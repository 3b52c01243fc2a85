// Package rollcall is the model of Rollcall: who is here, right now, and what
// are they doing.
//
// Presence is a set of leases. A connection (one tab or device of a user) is
// granted a lease in a room; evidence from the client renews it; it ends when
// the client leaves, when the client closes, when it runs out, or when somebody
// with the right to do so ends it. The leases of one user in one room fold into
// one [Member]: a user joins when the first of them is granted and leaves when
// the last of them ends, and at no other time.
//
// The package is pure. Every function that needs the time takes it as an
// argument; nothing here reads a clock, takes a lock, starts a goroutine, logs,
// or does I/O, and a test enforces that. Nothing here is safe for concurrent
// use: whoever owns a value serializes the calls.
//
// The state machine that decides is [Partition]: rooms are spread over a fixed
// number of partitions, and a partition is the unit of ordering. What it decides
// it tells as [Change] values, which a [Roster] applies: a roster at version v,
// plus the changes after v, equals the truth.
package rollcall
