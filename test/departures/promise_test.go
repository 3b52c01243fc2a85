//go:build unix

package departures

import (
	"fmt"
	"time"
)

// promise is when the viewers are to be told.
type promise struct {
	text string
	// least and most, from the fault or from the last sign of life.
	least, most time.Duration
	fromLife    bool
	reason      string // of the leave; "" if any will do
}

// What the design promises, at the times of this table. The lease clock adds a
// sweep of at most a second.
var (
	left   = promise{text: "0.1 s", most: 100 * time.Millisecond, reason: "left"}
	closed = promise{
		text: "grace + 0.1 s", least: grace, most: grace + 100*time.Millisecond, reason: "closed",
	}
	runsOut = promise{
		text: "lease to lease + 1 s after the last sign of life", least: lease, most: lease + time.Second,
		fromLife: true, reason: "expired",
	}
	atMostLease = promise{
		text: "at most lease + 1 s after the last sign of life", most: lease + time.Second, fromLife: true,
	}
)

const (
	// slack is what a busy machine may add: processes that wait for their turn.
	slack = 400 * time.Millisecond
	// early is by how much the clock of a client may be behind that of the
	// server: what proves life was sent before it came in.
	early = 150 * time.Millisecond
)

// keeps tells whether a viewer that was told at the given time was told in time;
// "" if so.
func (p *promise) keeps(fault, life, told time.Time) string {
	from, since := fault, "the fault"
	if p.fromLife {
		from, since = life, "the last sign of life"
	}
	switch d := told.Sub(from); {
	case d < p.least-early:
		return fmt.Sprintf("%v after %s, before %v have passed", d.Round(time.Millisecond), since, p.least)
	case d > p.most+slack:
		return fmt.Sprintf("%v after %s, later than %v + %v", d.Round(time.Millisecond), since, p.most, slack)
	}
	return ""
}
