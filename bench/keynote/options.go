// Package keynote is the scenario that a presence server is judged by: a crowd
// joins one room within a minute, stays with people coming and going, and then
// its node is killed and all of them come back. It says what each member is sent,
// and what that costs.
//
// The nodes are `rollcall serve` of this very program, with tokens, over loopback;
// the crowd is in this process.
package keynote

import (
	"errors"
	"fmt"
	"time"
)

// Options say how large the keynote is. Its zero fields are defaults.
type Options struct {
	Members   int           // 10,000
	Over      time.Duration // in which they join; a minute
	Churn     float64       // part of the members that is exchanged each second; 0.02, below 0 for none
	Hold      time.Duration // how long; 30 s
	Nodes     int           // 1; several share a Redis
	Transport string        // "ws", or "sse" as a plain EventSource
	Store     string        // redis:// of a store to use; "" starts one if there are several nodes
	Lease     time.Duration // 30 s
	Pin       bool          // nodes on the first core, what else there is on the second
	Profiles  string        // folder for profiles of the first node; "" for none
	Terminal  bool          // Tell may be drawn over
	// Tell is called with a line of progress, and with "" at its end.
	Tell func(line string)
}

// ErrOptions is the error of options that cannot be.
var ErrOptions = errors.New("options")

func (o *Options) fill() error {
	if o.Members == 0 {
		o.Members = 10_000
	}
	if o.Over == 0 {
		o.Over = time.Minute
	}
	if o.Churn == 0 {
		o.Churn = 0.02
	}
	if o.Hold == 0 {
		o.Hold = 30 * time.Second
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Transport == "" {
		o.Transport = "ws"
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Members < 1 || o.Members > 100_000:
		return refuse("members must be 1 to 100000")
	case o.Nodes < 1 || o.Nodes > 16 || o.Nodes > o.Members:
		return refuse("nodes must be 1 to 16, and not more than members")
	case o.Over < time.Second || o.Over > time.Hour:
		return refuse("the members must come over 1s to 1h")
	case o.Hold < time.Second || o.Hold > time.Hour:
		return refuse("the churn must be held for 1s to 1h")
	case o.Churn > 1:
		return refuse("the churn must be at most 1 a second")
	case o.Transport != "ws" && o.Transport != "sse":
		return refuse("the transport must be ws or sse")
	case o.Lease < time.Second || o.Lease > time.Hour:
		return refuse("the lease must be 1s to 1h")
	}
	return nil
}

// settles is how long the first messages of a phase may still be on their way.
func (o *Options) settles() time.Duration { return min(3*time.Second, o.Lease/2) }

// most is how long all of it may take.
func (o *Options) most() time.Duration {
	return o.Over + 2*o.Hold + o.Lease + joinWithin + returnWithin + time.Minute
}

const (
	joinWithin   = 60 * time.Second // after Over, for the last one to be in
	returnWithin = 60 * time.Second // after the end of a node
)

// atScale reports whether the goals that are set for 10,000 members in a minute
// apply.
func (o *Options) atScale() bool {
	return o.Members == 10_000 && o.Over == time.Minute && o.Lease == 30*time.Second
}
