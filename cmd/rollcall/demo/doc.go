// Package demo is what the page of `rollcall dev` needs besides presence: a text
// that several people edit, a crowd that fills a room, and links that can be cut. None of it is part of
// Rollcall, which stores no documents and invents nobody: it is served by dev
// alone, on this machine, in memory, and is forgotten at the end.
package demo
