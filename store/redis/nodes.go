package redis

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// In a cluster a node has two lines, on channels half of the slots apart: a master
// that hangs takes at most one of them along.
const (
	// hedgeAfter is how long a line may take before the other one is tried too.
	hedgeAfter = 200 * time.Millisecond
	// avoidFor is how long a line that took longer comes second.
	avoidFor = 2 * time.Second
)

// lines are the channels on which a node is spoken to.
func (s *Store) lines(node string) []string {
	first := "rollcall:node:" + node
	if s.db != 0 {
		first += ":" + strconv.Itoa(s.db)
	}
	if !s.cluster {
		return []string{first}
	}
	across := (slotOf(first)/slotsOfTag + rollcall.Partitions/2) % rollcall.Partitions
	return []string{first, "rollcall:node:{" + tags[across] + "}:" + node}
}

// Listen implements [store.Nodes]. In a cluster fn may hear a message twice.
func (s *Store) Listen(node string, fn func(message []byte)) {
	var subscribed sync.WaitGroup // until each line is heard
	for _, line := range s.lines(node) {
		subscribed.Add(1)
		s.hearLine(line, fn, sync.OnceFunc(subscribed.Done))
	}
	all := make(chan struct{})
	s.wg.Go(func() {
		subscribed.Wait()
		close(all)
	})
	select {
	case <-all:
	case <-s.ctx.Done():
	case <-time.After(s.o.Timeout):
	}
}

// hearLine hears a line until the store is closed. subscribed is called at least once,
// also if it is never heard.
func (s *Store) hearLine(line string, fn func(message []byte), subscribed func()) {
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(rueidis.PubSubSubscription) { subscribed() })
	s.wg.Go(func() {
		defer subscribed()
		var told time.Time
		for s.ctx.Err() == nil {
			var cmd rueidis.Completed
			if s.cluster {
				cmd = s.client.B().Ssubscribe().Channel(line).Build()
			} else {
				cmd = s.client.B().Subscribe().Channel(line).Build()
			}
			err := s.client.Receive(ctx, cmd, func(m rueidis.PubSubMessage) { fn([]byte(m.Message)) })
			if s.ctx.Err() == nil && time.Since(told) >= tellEvery {
				s.o.Logger.Warn("what other nodes say is not heard", "error", err, "hint", Hint(err))
				told = time.Now()
			}
			select {
			case <-s.ctx.Done():
			case <-time.After(100*time.Millisecond + rand.N(200*time.Millisecond)):
			}
		}
	})
}

// avoided are the lines that took too long, and until when they come second.
type avoided struct {
	mu    sync.Mutex
	until map[string]time.Time // Guarded by mu.
}

func (a *avoided) add(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = make(map[string]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(a.until, func(_ string, end time.Time) bool { return now.After(end) })
	a.until[line] = now.Add(avoidFor)
}

func (a *avoided) has(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.until[line])
}

// sent is what became of a message on one line.
type sent struct {
	heard int
	err   error
}

// Send implements [store.Nodes]. The second line is tried when the first one fails,
// or takes long, or nobody is heard on it: a node may be about to listen anew.
func (s *Store) Send(ctx context.Context, node string, message []byte) (heard int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	lines := s.lines(node)
	if len(lines) == 2 && s.avoided.has(lines[0]) {
		lines[0], lines[1] = lines[1], lines[0]
	}
	answers := make(chan sent, len(lines))
	try := func(line string) {
		heard, err := s.publishTo(ctx, line, message)
		answers <- sent{heard, err}
	}
	go try(lines[0]) // it ends with ctx
	late := time.NewTimer(hedgeAfter)
	defer late.Stop()
	nobody := false // a line has said so
	for tried, open := 1, 1; open > 0; {
		select {
		case a := <-answers:
			open--
			switch {
			case a.heard > 0:
				return a.heard, nil
			case a.err == nil:
				nobody = true
			case err == nil:
				err = a.err
			}
		case <-late.C:
			if nobody {
				return 0, nil // the other line hangs
			}
			s.avoided.add(lines[0])
		}
		if tried < len(lines) {
			go try(lines[tried])
			tried, open = tried+1, open+1
			late.Reset(hedgeAfter)
		}
	}
	if nobody {
		return 0, nil
	}
	return 0, err
}

func (s *Store) publishTo(ctx context.Context, line string, message []byte) (heard int, err error) {
	var cmd rueidis.Completed
	if s.cluster {
		cmd = s.client.B().Spublish().Channel(line).Message(rueidis.BinaryString(message)).Build()
	} else {
		cmd = s.client.B().Publish().Channel(line).Message(rueidis.BinaryString(message)).Build()
	}
	n, err := s.client.Do(ctx, cmd).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("send to node: %w", err)
	}
	return int(n), nil
}
