package wire

import (
	"time"

	"rollcall"
)

// Ready is the first event of a stream.
type Ready struct {
	Connection rollcall.ConnectionID
	Resume     string // proves the connection's own calls; new at each ready
	User       rollcall.UserID
	Lease      time.Duration
	Beat       time.Duration
	Now        int64 // the server's time, in Unix milliseconds
}

// AppendReady appends {"connection","resume","user","leaseMs","beatMs","now"}.
func AppendReady(b []byte, r Ready) []byte {
	b = append(b, `{"connection":`...)
	b = appendString(b, string(r.Connection))
	b = append(b, `,"resume":`...)
	b = appendString(b, r.Resume)
	b = append(b, `,"user":`...)
	b = appendString(b, string(r.User))
	b = append(b, `,"leaseMs":`...)
	b = appendMillis(b, r.Lease)
	b = append(b, `,"beatMs":`...)
	b = appendMillis(b, r.Beat)
	b = append(b, `,"now":`...)
	b = appendNumber(b, r.Now)
	return append(b, '}')
}

// AppendBeat appends {"n"}: the name of the beat, for the answer; above 0, below
// 2^53, and rising within a stream.
func AppendBeat(b []byte, n int64) []byte {
	b = append(b, `{"n":`...)
	b = appendNumber(b, n)
	return append(b, '}')
}

// AppendHealth appends {"store":"ok"|"degraded","staleMs"}: what the receiver
// sees may be as old as stale.
func AppendHealth(b []byte, degraded bool, stale time.Duration) []byte {
	if degraded {
		b = append(b, `{"store":"degraded","staleMs":`...)
	} else {
		b = append(b, `{"store":"ok","staleMs":`...)
	}
	b = appendMillis(b, stale)
	return append(b, '}')
}

// AppendExpiring appends {"inMs"}: the token ends in that time.
func AppendExpiring(b []byte, in time.Duration) []byte {
	b = append(b, `{"inMs":`...)
	b = appendMillis(b, in)
	return append(b, '}')
}

// DontReconnect as the time until a reconnect is null on the wire: the receiver
// does not come back as it is. Every negative duration is.
const DontReconnect time.Duration = -1

// AppendBye appends {"reason","reconnectMs"}.
func AppendBye(b []byte, reason ByeReason, reconnect time.Duration) []byte {
	b = append(b, `{"reason":`...)
	b = appendString(b, string(reason))
	b = append(b, `,"reconnectMs":`...)
	if reconnect < 0 {
		return append(b, "null}"...)
	}
	b = appendMillis(b, reconnect)
	return append(b, '}')
}
