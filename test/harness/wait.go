package harness

import (
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at that no event announces.
const pollEvery = 10 * time.Millisecond

// Until waits until cond holds, looking at it with each event of the client, and
// fails the test if it does not within the time.
func (c *Client) Until(within time.Duration, what string, cond func() bool) {
	c.t.Helper()
	if !c.holds(within, cond) {
		c.t.Fatalf("not within %v: %s\n%s", within, what, c.dump())
	}
}

func (c *Client) holds(within time.Duration, cond func() bool) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if cond() {
			return true
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-deadline.C:
			return cond()
		}
	}
}

// Never fails the test if cond comes to hold within the time.
func (c *Client) Never(during time.Duration, what string, cond func() bool) {
	c.t.Helper()
	if c.holds(during, cond) {
		c.t.Fatalf("must not be: %s\n%s", what, c.dump())
	}
}

// Eventually waits until cond holds and fails the test if it does not within the
// time.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !holds(within, cond) {
		t.Fatalf("not within %v: %s", within, what)
	}
}

// Always fails the test if cond stops to hold within the time.
func Always(t testing.TB, during time.Duration, what string, cond func() bool) {
	t.Helper()
	if holds(during, func() bool { return !cond() }) {
		t.Fatalf("was not all the time: %s", what)
	}
}

func holds(within time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(within)
	for {
		if cond() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pollEvery) // the pace of the polling
	}
}
