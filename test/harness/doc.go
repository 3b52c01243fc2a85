// Package harness starts servers for whole-system tests and speaks to them as
// strangers would: its clients are written by hand from the protocol, and share
// no code with the server or with the clients of this project.
//
// Every [Server] checks at the end of its test that what its clients have built
// from events is the truth, that nobody was named who was never there, and that
// nothing is left behind.
package harness
