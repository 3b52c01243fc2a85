package wire

import (
	"encoding/json"
	"time"

	"rollcall"
)

// What [DecodeEvent] returns, besides [Ready]: a pointer to one of these.

// Snapshot is the whole state of a room: of snapshot and of mode.
type Snapshot struct {
	Room    rollcall.RoomID
	Epoch   rollcall.Epoch
	Version rollcall.Version
	Mode    Mode
	Count   int
	Members []*rollcall.Member // mode full
	Sample  []*rollcall.Member // mode counts; nil if none was sent
	// Estimate tells that the room names nobody, and Count may be an estimate, with
	// StandardError as a part of it.
	Estimate      bool
	StandardError float64
	// Settling is for how long members that are missing may still come back.
	Settling time.Duration
}

// Resumed tells that what the client holds of the room is current.
type Resumed struct {
	Room    rollcall.RoomID
	Epoch   rollcall.Epoch
	Version rollcall.Version
}

// RoomDiff is a change of a room in mode full.
type RoomDiff struct {
	Room rollcall.RoomID
	rollcall.Diff
}

// Count is the number of members of a room.
type Count struct {
	Room    rollcall.RoomID
	Version rollcall.Version
	Count   int
	Sample  []*rollcall.Member // nil if it has not changed
	// Estimate and StandardError are as in [Snapshot].
	Estimate      bool
	StandardError float64
}

// EndedLease tells that the receiver's own lease in the room ended.
type EndedLease struct {
	Room   rollcall.RoomID
	Reason rollcall.Reason // ReasonNone for a word of a later release
}

// ServerBeat is a beat; with beat=1 it is to be answered.
type ServerBeat struct{ N int64 }

// Health tells how old what is shown may be.
type Health struct {
	Degraded bool
	Stale    time.Duration
}

// Expiring tells that the token ends soon.
type Expiring struct{ In time.Duration }

// Bye is the last event of a stream.
type Bye struct {
	Reason    ByeReason
	Reconnect time.Duration // [DontReconnect] for null
}

// OK is the answer to a message that was done.
type OK struct {
	ID     json.RawMessage
	Fields json.RawMessage // the whole body, an object
}

// Failure is the answer to a message that was not done.
type Failure struct {
	ID    json.RawMessage // nil if the server could not read it
	Retry bool
	Err   rollcall.Error
}

// Pong is the answer to a ping.
type Pong struct{ ID json.RawMessage }
