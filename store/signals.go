package store

import (
	"context"

	"rollcall"
)

// Signals is a store through which nodes tell each other the signals of rooms.
// Nothing of them is kept, and any may be lost. Safe for concurrent use.
type Signals interface {
	// PublishSignals hands a message to every node that has subscribed to the
	// room, this one too.
	PublishSignals(ctx context.Context, room rollcall.RoomID, message []byte) error

	// SubscribeSignals hears the messages of a room until stop is called or the
	// store is closed; it does not wait. ready is called each time that the
	// subscription stands: what was said before is not known. heard and ready
	// must be quick.
	SubscribeSignals(room rollcall.RoomID, heard func(message []byte), ready func()) (stop func())
}
