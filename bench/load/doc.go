// Package load is clients that cost little: ten thousand of them fit into one
// process beside the server that they load. They do what a browser does by itself
// (answer pings and close frames, remember the id of an event stream) and
// understand of what they read only what they are asked for.
package load

import "time"

// Heard is called for every event that a client reads, in its reading goroutine.
// body is good during the call only, and cut where it is longer than the client's
// buffer.
type Heard func(kind, body []byte)

// Sizes of a client's buffer: enough for what it has to answer, and enough for
// whole rosters.
const (
	BufferSmall = 2 << 10
	BufferWhole = 64 << 10
)

// Timeout is how long a server may take to answer.
const Timeout = 10 * time.Second

// Login is who a client is.
type Login struct {
	User   string // a guest's name; "" with a token
	Token  string
	Resume string // the secret of the connection to go on with; "" for a new one
}
