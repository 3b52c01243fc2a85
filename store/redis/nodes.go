package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// nodeChannel is where a node is spoken to.
func (s *Store) nodeChannel(node string) string {
	name := "rollcall:node:" + node
	if s.db != 0 {
		name += ":" + strconv.Itoa(s.db)
	}
	return name
}

// Listen implements [store.Nodes].
func (s *Store) Listen(node string, fn func(message []byte)) {
	subscribed := make(chan struct{}) // closed when it is heard
	var once sync.Once
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(rueidis.PubSubSubscription) {
		once.Do(func() { close(subscribed) })
	})
	s.wg.Go(func() {
		var told time.Time
		for s.ctx.Err() == nil {
			var cmd rueidis.Completed
			if s.cluster {
				cmd = s.client.B().Ssubscribe().Channel(s.nodeChannel(node)).Build()
			} else {
				cmd = s.client.B().Subscribe().Channel(s.nodeChannel(node)).Build()
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
	select {
	case <-subscribed:
	case <-s.ctx.Done():
	case <-time.After(s.o.Timeout):
	}
}

// Send implements [store.Nodes].
func (s *Store) Send(ctx context.Context, node string, message []byte) (heard int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var cmd rueidis.Completed
	if s.cluster {
		cmd = s.client.B().Spublish().Channel(s.nodeChannel(node)).Message(rueidis.BinaryString(message)).Build()
	} else {
		cmd = s.client.B().Publish().Channel(s.nodeChannel(node)).Message(rueidis.BinaryString(message)).Build()
	}
	n, err := s.client.Do(ctx, cmd).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("send to node: %w", err)
	}
	return int(n), nil
}
