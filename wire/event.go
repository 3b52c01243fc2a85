package wire

// Event is the name of what a server tells: the `event:` of SSE, the `type` of a
// WebSocket message. Only the constants below are ever written.
type Event string

// The events of streams.
const (
	EventReady    Event = "ready"
	EventSnapshot Event = "snapshot"
	EventResumed  Event = "resumed"
	EventDiff     Event = "diff"
	EventCount    Event = "count"
	EventMode     Event = "mode"
	EventEnded    Event = "ended"
	EventBeat     Event = "beat"
	EventHealth   Event = "health"
	EventExpiring Event = "expiring"
	EventBye      Event = "bye"
	EventSignals  Event = "signals"
	EventUsers    Event = "users"
	EventContacts Event = "contacts"
	EventPage     Event = "page"
)

// Answers to WebSocket messages.
const (
	EventOK    Event = "ok"
	EventError Event = "error"
	EventPong  Event = "pong"
)

// Mode is how a room is told: every member by name, or a number.
type Mode string

// The modes.
const (
	ModeFull   Mode = "full"
	ModeCounts Mode = "counts"
)

// Tier is how much of a room a viewer asked for; the zero value is all of it.
type Tier string

// TierCount asks for the number alone.
const TierCount Tier = "count"

// ByeReason is why the server ends a stream.
type ByeReason string

// The reasons of a bye.
const (
	ByeDraining ByeReason = "draining" // the node goes away; leases are kept
	ByeExpired  ByeReason = "expired"  // no evidence for a lease
	ByeKicked   ByeReason = "kicked"   // removed from the last room of the stream
	ByeRevoked  ByeReason = "revoked"  // disconnected by the application
	ByeReplaced ByeReason = "replaced" // the connection has a newer stream
	ByeToken    ByeReason = "token"    // the token ended
	ByeSlow     ByeReason = "slow"     // the reader did not keep up
	ByeBusy     ByeReason = "busy"     // the node is full
	ByeRotate   ByeReason = "rotate"   // a plain stream: reconnecting proves life
)
