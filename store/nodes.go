package store

import "context"

// Nodes is a store through which nodes can speak to each other.
type Nodes interface {
	// Listen hears the messages to the node of this name, from now until the
	// store is closed. Several nodes may go by one name, and a node by several. A
	// message may come twice. fn must be quick.
	Listen(node string, fn func(message []byte))

	// Send sends a message to all that go by a name, and tells how many hear it.
	Send(ctx context.Context, node string, message []byte) (heard int, err error)
}
