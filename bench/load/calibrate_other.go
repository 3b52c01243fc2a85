//go:build !unix

package load

import "time"

// RoundTrip is not known here.
func RoundTrip() time.Duration { return 0 }

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
