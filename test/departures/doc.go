// Package departures is the table of departures: for each way of going and each
// kind of client, how long it takes until every viewer is told, beside the
// promise of the design.
//
// The server is the program itself, and whoever goes is a process of its own that
// speaks the raw protocol, since most of these faults are faults of processes,
// kernels and wires: see TestDepartureTable.
//
// The rows that need root, network namespaces and nginx have the build tag
// faults; those that need Chromium have the tag browser. With
// ROLLCALL_REPORT_DIR set the table is also written there, as departures.md.
package departures
