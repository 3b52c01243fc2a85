package store

import "context"

// Nodes is a store through which nodes can speak to each other.
type Nodes interface {
	// Listen hears the messages to the node of this name, from now until the
	// store is closed. fn must be quick. To be called once.
	Listen(node string, fn func(message []byte))

	// Send sends a message to a node, and reports whether that node hears it.
	Send(ctx context.Context, node string, message []byte) (heard bool, err error)
}
