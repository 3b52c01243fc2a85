package rollcall

import "time"

// Partitions is the fixed number of partitions.
const Partitions = 64

// MaxID is the largest room or user id, in bytes.
const MaxID = 256

// MaxDepth is the deepest nesting of any JSON that a client sends.
const MaxDepth = 32

// MaxContacts is the most that Limits.Contacts may be: they are told of together, and
// each of their changes is looked up.
const MaxContacts = 1000

// Limits is the one table of limits. What passes a limit is answered with the
// code and the limit, and what was there before stays.
type Limits struct {
	Info  int // bytes of a user's info (2 KiB): too_large
	Data  int // bytes of a connection's data, after merging (1 KiB): too_large
	Frame int // bytes of a WebSocket message or a request body (64 KiB): too_large, 1009

	Signal           int           // bytes of the data of a signal (1 KiB): too_large
	SignalKind       int           // bytes of the kind of a signal (64): too_large
	SignalKinds      int           // kinds of one connection in one room (8): too_large
	SignalDocVersion int           // bytes of a docVersion (256): too_large
	SignalsPerSecond float64       // signals per connection (20): coalesced, newest wins
	MinSignalTTL     time.Duration // how long a signal may be asked to live (1 s): clamped
	MaxSignalTTL     time.Duration // and at most (10 min): clamped

	SetsPerSecond     float64 // sets per connection (10): coalesced, newest wins
	MessagesPerSecond float64 // other messages per connection (50): rate_limited, then 4529
	MessageBurst      float64 // burst of those (200)

	RoomsPerConnection int // rooms of one connection (50): rate_limited
	ConnectionsPerUser int // connections of one user in one room, those in their grace too (50): rate_limited
	CountRooms         int // rooms of one counts request (500): too_large
	LookupUsers        int // users of one lookup (1000): too_large
	PageMembers        int // members of one page (200): clamped
	PageRooms          int // rooms of one page of the list of rooms (200): clamped

	MinTTL, MaxTTL time.Duration // of a lease without a stream (5 s to 1 h): clamped

	Pages        int           // pages that one connection has open (4): rate_limited
	Contacts     int           // contacts of one connection (200, at most MaxContacts): rate_limited
	WatchedUsers int           // users that one stream watches anywhere (200): rate_limited
	MaxBan       time.Duration // of a kick (24 h): clamped
	TokenLife    time.Duration // the longest life of a token (24 h): a revocation is forgotten after it
	SeenUsers    int           // users of whom a store in memory knows when they were last seen (1,000,000): the oldest are forgotten

	MinWindow, MaxWindow time.Duration // of an audience (1 min to 1 h): clamped; longer ago nobody is remembered
	AudienceRooms        int           // rooms whose audience a store in memory remembers (100,000): the oldest are forgotten

	EventStreams int // streams of events for back ends, of one node (64): rate_limited
	EventBacklog int // bytes of events that a reader is behind (1 MiB): `bye slow`

	Connections      int     // streams of one node (20000): 4529, `bye busy`, unavailable
	AcceptsPerSecond float64 // new streams of one node a second (1000): as Connections
}

// DefaultLimits is the table of the protocol.
func DefaultLimits() Limits {
	return Limits{
		Info: 2048, Data: 1024, Frame: 65536,
		Signal: 1024, SignalKind: 64, SignalKinds: 8, SignalDocVersion: 256, SignalsPerSecond: 20,
		MinSignalTTL: time.Second, MaxSignalTTL: 10 * time.Minute,
		SetsPerSecond: 10, MessagesPerSecond: 50, MessageBurst: 200,
		RoomsPerConnection: 50, ConnectionsPerUser: 50,
		CountRooms: 500, LookupUsers: 1000, PageMembers: 200, PageRooms: 200,
		MinTTL: 5 * time.Second, MaxTTL: time.Hour,
		Pages: 4, Contacts: 200, WatchedUsers: 200, MaxBan: 24 * time.Hour, TokenLife: 24 * time.Hour, SeenUsers: 1_000_000,
		MinWindow: time.Minute, MaxWindow: time.Hour, AudienceRooms: 100_000,
		EventStreams: 64, EventBacklog: 1 << 20,
		Connections: 20000, AcceptsPerSecond: 1000,
	}
}

// Timing is the durations of leases, from the design's table of constants.
type Timing struct {
	Lease      time.Duration // a lease, from its last evidence (30 s)
	Beat       time.Duration // middle of the time between two beats (9 s; each 17/18 to 19/18 of it)
	CloseGrace time.Duration // how long a closed connection may take to return (1 s)
	// ConnectionUpdates is the least time between two updates of a member that
	// tell nothing but a new number of connections (1 s).
	ConnectionUpdates time.Duration
}

// DefaultTiming is the design's table.
func DefaultTiming() Timing {
	return Timing{Lease: 30 * time.Second, Beat: 9 * time.Second, CloseGrace: time.Second, ConnectionUpdates: time.Second}
}

// ClockClamp is the most by which a [LeaseClock] advances between two
// observations, with leases of at least six times that.
const ClockClamp = 2 * time.Second

// ClockClamp is how much lease time a gap costs at most: 2 s, and a sixth of a
// short lease. Evidence may be 65 % of a lease old when the gap begins (a plain
// stream that is about to rotate), and what is left must do for the way back.
func (t Timing) ClockClamp() time.Duration { return min(ClockClamp, t.Lease/6) }
