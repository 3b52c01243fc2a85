// Package keynote is the scenario that a presence server is judged by: a crowd
// joins one room within a minute, stays with people coming and going, and then
// its node is killed and all of them come back. It says what each member is sent,
// and what that costs.
//
// The nodes are `rollcall serve` of this very program, with tokens, over loopback;
// the crowd is in this process.
package keynote

import "time"

// Options say how large the keynote is. Its zero fields are defaults; whoever reads
// them from people sees to it that they can be.
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

// fill puts in the defaults.
func (o *Options) fill() {
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
