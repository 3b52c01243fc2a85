//go:build unix

package departures

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"
)

// client is a client process, as the test sees it.
type client struct {
	*child
	clientConfig

	mu     sync.Mutex
	opened map[string]int       // Guarded by mu. How often each user was there.
	proofs map[string]time.Time // Guarded by mu. The last sign of life of each user.
	doing  time.Time            // Guarded by mu. When the first user obeyed the last command.
	byes   []string             // Guarded by mu.
	drops  int                  // Guarded by mu. Event streams that ended without a goodbye.
	errors []string             // Guarded by mu.
}

// startClient starts a client process; under is a command that runs it.
func startClient(t testing.TB, c clientConfig, under ...string) (*client, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cl := &client{clientConfig: c, opened: make(map[string]int), proofs: make(map[string]time.Time)}
	cl.child, err = start(t, launch{
		role: "client", under: under, env: []string{clientEnv + "=" + string(raw)}, out: cl.take,
	})
	return cl, err
}

func (c *client) take(line string) {
	var r report
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return
	}
	at := time.Unix(0, r.At)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.What {
	case reportReady:
		c.opened[r.User]++
	case reportProof:
		if at.After(c.proofs[r.User]) {
			c.proofs[r.User] = at
		}
	case reportDoing:
		if r.User == c.Users[0] {
			c.doing = at
		}
	case reportBye:
		c.byes = append(c.byes, r.User+": "+r.Text)
	case reportDropped:
		c.drops++
	case reportError:
		c.errors = append(c.errors, fmt.Sprintf("%s %s: %s", at.Format("05.000"), r.User, r.Text))
	}
}

// proof is the last sign of life of a user.
func (c *client) proof(user string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proofs[user]
}

// here reports whether all users have been there.
func (c *client) here() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.opened) == len(c.Users)
}

// opens is how often its users have come, all together.
func (c *client) opens() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.opened {
		n += o
	}
	return n
}

// dropped is how many of its event streams ended without a goodbye.
func (c *client) dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// trouble is what it complained of.
func (c *client) trouble() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.errors...)
}

// goodbyes is what the server told it at the end of its streams.
func (c *client) goodbyes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.byes...)
}

// say gives a command, and returns when it began to obey.
func (c *client) say(ctx context.Context, command string) (time.Time, error) {
	c.mu.Lock()
	c.doing = time.Time{}
	c.mu.Unlock()
	if _, err := io.WriteString(c.stdin, command+"\n"); err != nil {
		return time.Time{}, fmt.Errorf("say %s: %w", command, err)
	}
	var at time.Time
	ok := c.await(ctx, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		at = c.doing
		return !at.IsZero()
	})
	if !ok {
		return at, fmt.Errorf("%s client does not obey %q", c.Kind, command)
	}
	return at, nil
}

// settled waits until a plain client has just come back from a rotation, so that
// what happens next happens to an open stream: the next rotation is 45 % of a
// lease away at least.
func (c *client) settled(ctx context.Context) error {
	if c.Kind != kindPlain {
		return nil
	}
	if !c.await(ctx, func() bool { return time.Since(c.proof(c.Users[0])) < lease/5 }) {
		return fmt.Errorf("plain client of %v does not come back: %v", c.Users, c.trouble())
	}
	return nil
}

// kill ends the process as a crash does.
func (c *client) kill(context.Context) (time.Time, error) {
	at := time.Now()
	return at, c.signal(syscall.SIGKILL)
}

// freeze stops the process; its kernel goes on acknowledging.
func (c *client) freeze(context.Context) (time.Time, error) {
	at := time.Now()
	return at, c.signal(syscall.SIGSTOP)
}
