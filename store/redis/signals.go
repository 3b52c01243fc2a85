package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

var _ store.Signals = (*Store)(nil)

// signalLine is a connection of its own for signals, so that a flood of them
// cannot cut the feed. It is made when it is first needed.
type signalLine struct {
	mu     sync.Mutex
	client rueidis.Client // Guarded by mu. nil before the first use.
}

// signalClient is the client for signals.
func (s *Store) signalClient() (rueidis.Client, error) {
	l := &s.signals
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil || s.ctx.Err() != nil {
		return l.client, s.ctx.Err()
	}
	option, err := option(s.o.URL, s.o.Timeout)
	if err != nil {
		return nil, err
	}
	option.PipelineMultiplex = -1 // one connection
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	l.client = client
	s.wg.Go(func() {
		<-s.ctx.Done()
		client.Close()
	})
	return client, nil
}

// signalChannel is where the signals of a room are told.
func (s *Store) signalChannel(room rollcall.RoomID) string {
	name := s.parts[rollcall.PartitionOf(room)].prefix + "s:"
	if s.db != 0 {
		name += strconv.Itoa(s.db) + ":"
	}
	return name + string(room)
}

// PublishSignals implements [store.Signals].
func (s *Store) PublishSignals(ctx context.Context, room rollcall.RoomID, message []byte) error {
	client, err := s.signalClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var cmd rueidis.Completed
	if s.cluster {
		cmd = client.B().Spublish().Channel(s.signalChannel(room)).Message(rueidis.BinaryString(message)).Build()
	} else {
		cmd = client.B().Publish().Channel(s.signalChannel(room)).Message(rueidis.BinaryString(message)).Build()
	}
	if err := client.Do(ctx, cmd).Error(); err != nil {
		return fmt.Errorf("publish signals: %w", err)
	}
	return nil
}

// SubscribeSignals implements [store.Signals].
func (s *Store) SubscribeSignals(room rollcall.RoomID, heard func(message []byte), ready func()) (stop func()) {
	if s.closed.Load() {
		return func() {}
	}
	ctx, stop := context.WithCancel(s.ctx)
	channel := s.signalChannel(room)
	s.wg.Go(func() {
		for ctx.Err() == nil {
			s.hearSignals(ctx, channel, heard, ready)
			select {
			case <-ctx.Done():
			case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)):
			}
		}
	})
	return stop
}

// hearSignals hears a channel until ctx ends or the subscription does.
func (s *Store) hearSignals(ctx context.Context, channel string, heard func(message []byte), ready func()) {
	client, err := s.signalClient()
	if err != nil {
		return
	}
	listening := rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" || sub.Kind == "ssubscribe" {
			ready()
		}
	})
	// Who stops to listen says so: nothing else ends a subscription.
	listening = rueidis.WithOnReceiveReturnHook(listening, func(err error, wire rueidis.CommandClient) error {
		if ctx.Err() == nil || s.ctx.Err() != nil {
			return err
		}
		farewell, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
		defer cancel()
		if s.cluster {
			wire.Do(farewell, wire.B().Sunsubscribe().Channel(channel).Build())
		} else {
			wire.Do(farewell, wire.B().Unsubscribe().Channel(channel).Build())
		}
		return err
	})
	var cmd rueidis.Completed
	if s.cluster {
		cmd = client.B().Ssubscribe().Channel(channel).Build()
	} else {
		cmd = client.B().Subscribe().Channel(channel).Build()
	}
	_ = client.Receive(listening, cmd, func(m rueidis.PubSubMessage) { heard([]byte(m.Message)) }) // the caller tries again
}
