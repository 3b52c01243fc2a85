package rollcall

import "fmt"

// Leftovers names what a partition still holds; "" if nothing.
func (p *Partition) Leftovers() string {
	inBuckets := 0
	for _, l := range p.expiry.buckets {
		for ; l != nil; l = l.next {
			inBuckets++
		}
	}
	if len(p.rooms)+p.leases+len(p.deferred)+len(p.changes)+inBuckets > 0 {
		return fmt.Sprintf("%d rooms, %d leases, %d deferred, %d changes, %d in buckets",
			len(p.rooms), p.leases, len(p.deferred), len(p.changes), inBuckets)
	}
	return ""
}

// InBuckets is the number of leases that expiry knows: each live one is to be
// there once.
func (p *Partition) InBuckets() int {
	n := 0
	for i, l := range p.expiry.buckets {
		for prev := (*lease)(nil); l != nil; prev, l = l, l.next {
			if l.prev != prev || int(l.bucket) != i {
				panic("a bucket is torn")
			}
			n++
		}
	}
	return n
}
