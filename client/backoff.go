package client

import "time"

// Times of the way back.
const (
	backoffFirst = 300 * time.Millisecond
	backoffBase  = time.Second
	backoffCap   = 20 * time.Second
)

// backoff is how long to wait before the next attempt. failures counts the
// attempts since the last stream that stayed. The first goes within 300 ms,
// inside any lease; after that full jitter, uniform in [0, base * 2^n), which
// spreads a crowd better than jitter around a mean. What the server wished is a
// floor. random returns a number in [0, 1).
func backoff(failures int, e *ending, random func() float64) time.Duration {
	wish := e.after + time.Duration(random()*float64(e.spread))
	if failures == 0 {
		if e.after > 0 {
			return wish
		}
		return time.Duration(random() * float64(backoffFirst))
	}
	most := backoffCap
	if n := failures - 1; n < 5 {
		most = min(most, backoffBase<<n)
	}
	return max(wish, time.Duration(random()*float64(most)))
}
