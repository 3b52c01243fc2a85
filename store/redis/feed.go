package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
)

// The feed is heard twice: frames come over a channel, which may lose any of
// them, and the number of the newest is polled, so that a loss is noticed within
// seconds in a silent room too.
const (
	pollEvery = 2 * time.Second
	pollLate  = 300 * time.Millisecond // for a frame that the poll was faster than
)

// partitionFeed is how far the feed of a partition has been handed over.
type partitionFeed struct {
	mu     sync.Mutex     // held while a frame is handed over
	epoch  rollcall.Epoch // Guarded by mu. "" before the first poll.
	seq    uint64         // Guarded by mu.
	behind uint64         // Guarded by mu. What a poll saw beyond seq; 0 if nothing.
	closed bool           // Guarded by mu.
}

func (f *partitionFeed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// Feed implements [store.Store]. It returns when every partition is subscribed
// to, or after the timeout of a call: what is missed until then is a gap, which
// is mended like any other.
func (s *Store) Feed(fn func(*rollcall.Frame)) {
	s.feed = fn
	var subscribed sync.WaitGroup
	for _, channels := range s.subscriptions() {
		subscribed.Add(len(channels))
		s.wg.Go(func() { s.listen(channels, subscribed.Done) })
	}
	ready := make(chan struct{}) // closed when all have subscribed
	s.wg.Go(func() {
		defer close(ready)
		done := make(chan struct{})
		go func() { subscribed.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(s.o.Timeout):
		case <-s.ctx.Done():
		}
	})
	<-ready
	s.poll()
	s.wg.Go(s.pollAlways)
}

// subscriptions are the channels, by the connections they can share: all of
// them, or one at a time in a cluster.
func (s *Store) subscriptions() (groups [][]int) {
	var all []int
	for i := range s.parts {
		if s.cluster {
			groups = append(groups, []int{i})
		}
		all = append(all, i)
	}
	if !s.cluster {
		groups = append(groups, all)
	}
	return groups
}

// listen hears channels until the store is closed.
func (s *Store) listen(parts []int, subscribed func()) {
	byChannel := make(map[string]*partition, len(parts))
	channels := make([]string, 0, len(parts))
	for _, i := range parts {
		name := s.channel(&s.parts[i])
		byChannel[name] = &s.parts[i]
		channels = append(channels, name)
	}
	var once sync.Map
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(sub rueidis.PubSubSubscription) {
		if _, again := once.LoadOrStore(sub.Channel, true); !again {
			subscribed()
			return
		}
		if p := byChannel[sub.Channel]; p != nil && (sub.Kind == "subscribe" || sub.Kind == "ssubscribe") {
			s.wg.Go(func() { s.pollOne(p) }) // what was said meanwhile is lost
		}
	})
	for s.ctx.Err() == nil {
		var cmd rueidis.Completed
		if s.cluster {
			cmd = s.client.B().Ssubscribe().Channel(channels...).Build()
		} else {
			cmd = s.client.B().Subscribe().Channel(channels...).Build()
		}
		err := s.client.Receive(ctx, cmd, func(m rueidis.PubSubMessage) {
			if p := byChannel[m.Channel]; p != nil {
				s.hear(p, m.Message)
			}
		})
		if s.ctx.Err() != nil {
			return
		}
		s.o.Logger.Warn("feed of the store broke off", "error", err)
		select {
		case <-s.ctx.Done():
		case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)):
		}
	}
}

// hear takes one frame from the channel.
func (s *Store) hear(p *partition, payload string) {
	f, err := decodeFrame(p.index, payload)
	if err != nil {
		// What it says is read from the rooms, as after a loss.
		if errors.Is(err, errLayout) {
			s.unknown("a frame")
		} else {
			s.o.Logger.Error("frame of the store cannot be read", "error", err)
		}
		s.wg.Go(func() { s.pollOne(p) })
		return
	}
	p.wake()
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	switch known := &p.feed; {
	case known.closed || known.epoch == "":
		return // the first poll has yet to say where the feed is
	case f.Epoch != known.epoch:
		s.noteEpoch(p, f.Epoch)
		s.gapLocked(p, f.Epoch, f.Seq)
	case f.Seq <= known.seq:
		return
	case f.Seq > known.seq+1:
		s.gapLocked(p, f.Epoch, f.Seq)
	default:
		known.seq = f.Seq
	}
	s.feed(f)
}

// gapLocked goes on from seq and says that what came before is not known.
func (s *Store) gapLocked(p *partition, epoch rollcall.Epoch, seq uint64) {
	p.wake()
	if p.feed.epoch != "" && p.feed.epoch != epoch {
		s.restoreSecret()
	}
	p.feed.epoch, p.feed.seq, p.feed.behind = epoch, seq, 0
	s.feed(&rollcall.Frame{Partition: p.index, Epoch: epoch, Seq: seq, Gap: true})
}

// feedEpoch tells the feed of an epoch that some call has met.
func (s *Store) feedEpoch(p *partition, epoch rollcall.Epoch) {
	if s.feed == nil {
		return
	}
	s.wg.Go(func() { s.pollOne(p) })
}

// noteEpoch notes the epoch for the calls to come.
func (s *Store) noteEpoch(p *partition, epoch rollcall.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = epoch
}

func (s *Store) pollAlways() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pollEvery*9/10 + rand.N(pollEvery/5)):
		}
		s.poll()
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pollLate):
		}
		for i := range s.parts {
			s.mindGap(&s.parts[i])
		}
	}
}

// mindGap takes what a poll saw and the channel has not brought for a gap.
func (s *Store) mindGap(p *partition) {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	if p.feed.closed || p.feed.behind <= p.feed.seq {
		p.feed.behind = 0
		return
	}
	s.gapLocked(p, p.feed.epoch, p.feed.behind)
}

// poll asks every partition that is there where its feed is, in one round trip.
func (s *Store) poll() {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	calls := make([]scriptCall, 0, len(s.parts))
	before := make([]position, 0, len(s.parts))
	for i := range s.parts {
		p := &s.parts[i]
		if p.away.Load() {
			continue // asked when it is there again
		}
		before = append(before, p.feed.position())
		calls = append(calls, scriptCall{p, s.args(p, "")})
	}
	if len(calls) == 0 {
		return
	}
	failed := 0
	var failure error
	for i, res := range s.run(ctx, pollScript, calls...) {
		if err := s.polled(calls[i].p, before[i], res); err != nil {
			failed, failure = failed+1, err
		}
	}
	if failed > 0 && s.ctx.Err() == nil {
		s.o.Logger.Warn("poll the feed of the store", "partitions", failed, "error", failure)
	}
}

// pollOne asks one partition, and minds its gap at once.
func (s *Store) pollOne(p *partition) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	before := p.feed.position()
	if err := s.polled(p, before, s.run(ctx, pollScript, scriptCall{p, s.args(p, "")})[0]); err != nil {
		return // the next poll will tell
	}
	select {
	case <-s.ctx.Done():
	case <-time.After(pollLate):
		s.mindGap(p)
	}
}

// position is how far a feed was when it was polled: an answer may come later than
// what was published after it.
type position struct {
	epoch rollcall.Epoch
	seq   uint64
}

func (f *partitionFeed) position() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return position{f.epoch, f.seq}
}

func (s *Store) polled(p *partition, before position, res rueidis.RedisResult) error {
	all, err := res.ToArray()
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return fmt.Errorf("%d values where 2 are due", len(all))
	}
	name, err1 := all[0].ToString()
	n, err2 := all[1].AsInt64()
	if err1 != nil || err2 != nil {
		return fmt.Errorf("a poll cannot be read")
	}
	epoch, seq := rollcall.Epoch(name), uint64(n)
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	if before.epoch == p.feed.epoch {
		s.noteEpoch(p, epoch)
	}
	switch f := &p.feed; {
	case f.closed, before.epoch != f.epoch:
	case f.epoch == "":
		f.epoch, f.seq = epoch, seq
	case epoch != f.epoch || seq < before.seq:
		s.gapLocked(p, epoch, seq)
	case seq > f.seq:
		f.behind = seq
	}
	return nil
}
