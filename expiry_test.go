package rollcall

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sweepBoth drives the wheel along with a list in which everything is looked at
// every time.
func sweepBoth(t interface{ Fatalf(string, ...any) }, choose func(n int) int) {
	var wheel expiry
	var now time.Duration
	list := make(map[*lease]time.Duration) // what is due when
	steps := []time.Duration{0, 1, time.Millisecond, 100 * time.Millisecond, 249 * time.Millisecond, 250 * time.Millisecond,
		time.Second, 2 * time.Second, 30 * time.Second, 63750 * time.Millisecond, 64 * time.Second, 65 * time.Second, 200 * time.Second}
	var known []*lease
	for n := choose(80); n >= 0; n-- {
		switch kind := choose(6); {
		case kind <= 1:
			l := &lease{deadline: now + steps[choose(len(steps))] - steps[choose(6)]}
			wheel.add(l)
			list[l], known = l.deadline, append(known, l)
		case kind == 2 && len(known) > 0: // renewed: nothing but the deadline moves
			l := known[choose(len(known))]
			if _, live := list[l]; live {
				l.deadline = max(l.deadline, now+steps[choose(len(steps))])
				list[l] = l.deadline
			}
		case kind == 3 && len(known) > 0: // ended, or closed with a grace
			l := known[choose(len(known))]
			if _, live := list[l]; live {
				wheel.remove(l)
				if delete(list, l); choose(2) == 0 {
					l.deadline = min(l.deadline, now+steps[choose(len(steps))])
					wheel.add(l)
					list[l] = l.deadline
				}
			}
		default:
			now += steps[choose(len(steps))]
			if choose(5) == 0 {
				continue // time passes and nobody looks
			}
			wheel.sweep(now, func(l *lease) {
				due, live := list[l]
				if !live {
					t.Fatalf("at %v a lease was ended twice, or was not there", now)
				}
				if due > now {
					t.Fatalf("at %v a lease was ended that is due at %v", now, due)
				}
				delete(list, l)
			})
			for _, due := range list {
				if due <= now {
					t.Fatalf("at %v a lease that was due at %v was missed", now, due)
				}
			}
		}
	}
	in := 0
	for _, l := range wheel.buckets {
		for ; l != nil; l = l.next {
			in++
		}
	}
	if in != len(list) {
		t.Fatalf("%d leases are in buckets, want %d", in, len(list))
	}
}

func TestExpiryAgreesWithList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sweepBoth(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
	})
}

func FuzzExpiry(f *testing.F) {
	f.Add([]byte("\x20\x00\x05\x00\x05\x05\x08\x05\x09"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sweepBoth(t, func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		})
	})
}

// TestRenewalsCostTheSweepLittle: a lease that is renewed with every beat is
// visited about once a lease, not once a beat.
func TestRenewalsCostTheSweepLittle(t *testing.T) {
	var wheel expiry
	l := &lease{deadline: 30 * time.Second}
	wheel.add(l)
	moved, bucket := 0, l.bucket
	for now := time.Duration(0); now < 10*time.Minute; now += 250 * time.Millisecond {
		if now%(9*time.Second) == 0 {
			l.deadline = now + 30*time.Second
		}
		wheel.sweep(now, func(*lease) { t.Fatal("a renewed lease ended") })
		if l.bucket != bucket {
			moved, bucket = moved+1, l.bucket
		}
	}
	if moved > 30 {
		t.Errorf("the lease was moved %d times in 20 leases, want once a lease or so", moved)
	}
}
