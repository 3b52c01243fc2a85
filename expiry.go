package rollcall

import "time"

// expiry finds the leases that are due without a timer a lease and without work
// at a renewal: a lease lies in the bucket of the time at which it is to be
// looked at next, which is never after its deadline. A renewal only stores the
// later deadline; the visit moves the lease on to the bucket of that.
type expiry struct {
	buckets [expiryBuckets]*lease
	next    int64 // number of the first bucket that has not been swept whole
}

const (
	bucketWidth   = 250 * time.Millisecond
	expiryBuckets = 256 // 64 s; what is further away is looked at in between
)

func bucketNumber(deadline time.Duration) int64 { return int64(deadline / bucketWidth) }

// add puts l in the bucket of its deadline.
func (e *expiry) add(l *lease) { e.link(l, e.next) }

// link puts l in the bucket of its deadline, but not before the bucket first.
func (e *expiry) link(l *lease, first int64) {
	n := min(max(bucketNumber(l.deadline), first), first+expiryBuckets-1)
	l.bucket = int32(n % expiryBuckets)
	head := e.buckets[l.bucket]
	l.prev, l.next = nil, head
	if head != nil {
		head.prev = l
	}
	e.buckets[l.bucket] = l
}

// remove takes l out of its bucket.
func (e *expiry) remove(l *lease) {
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		e.buckets[l.bucket] = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
}

// sweep takes out the leases whose deadline is not after now and hands them to
// end; those that were renewed move on to a later bucket.
func (e *expiry) sweep(now time.Duration, end func(*lease)) {
	current := bucketNumber(now)
	// After a gap longer than the wheel every bucket is visited once.
	e.next = max(e.next, current-expiryBuckets+1)
	for ; e.next < current; e.next++ {
		e.visit(e.next, e.next+1, now, end)
	}
	e.visit(current, current, now, end)
}

// visit looks at every lease of one bucket.
func (e *expiry) visit(bucket, first int64, now time.Duration, end func(*lease)) {
	l := e.buckets[bucket%expiryBuckets]
	for l != nil {
		following := l.next
		switch {
		case l.deadline <= now:
			e.remove(l)
			end(l)
		case bucketNumber(l.deadline) != bucket:
			e.remove(l)
			e.link(l, first)
		}
		l = following
	}
}
