// Package cluster has many nodes on one store, and what goes wrong between them:
// nodes that are killed or cut off, a store that stops, forgets, fails over or
// changes its clock, messages that are lost.
//
// Everything is real: the store is redis-server, the nodes are processes of the
// program, the clients speak the raw protocol to any of them, and a node can reach
// the store through a proxy that stops to forward without telling anybody. The
// times are a tenth of the usual. The tests have the build tag faults.
package cluster
