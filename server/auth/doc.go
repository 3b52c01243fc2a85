// Package auth decides who a client is and what it may do: tokens, server keys
// and guests become an [Identity]; the resume secret of a connection is signed
// and verified by a [Signer]; [Origins] decides which web pages may call.
//
// Nothing is trusted from a client but what is signed. The user, the info and
// the rooms come from the token, and connection ids from the server.
//
// Errors that a client is told are [*rollcall.Error]. Their details are
// sentences for people and never contain a token, a key or a secret. Errors of
// a configuration are plain errors, told once, at the start.
//
// What the constructors return is static and safe for concurrent use. The
// package starts no goroutine.
package auth
