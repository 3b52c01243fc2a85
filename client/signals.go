package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rollcall"
	"rollcall/wire"
)

// SignalOptions are the rest of a signal. The zero value works.
type SignalOptions struct {
	// DocVersion is the version of the document that the data refers to: a JSON
	// number or string, which comes to others as it is; nil for none.
	DocVersion json.RawMessage
	// TTL is how long the signal lives unless it is sent again, 1 s to 10 min; 0
	// is the default of the kind.
	TTL time.Duration
}

// signalKey names a signal of a room.
type signalKey struct {
	connection rollcall.ConnectionID
	kind       string
}

// roomSignals is the signals of a room: those of others, and ours. Guarded by the
// mu of the client.
type roomSignals struct {
	others map[signalKey]rollcall.Signal // TTL is what was left when it was told
	own    []*ownSignal                  // one a kind
}

// ownSignal is the newest that we have sent, or are about to.
type ownSignal struct {
	signal  rollcall.Signal
	until   time.Time // zero: while we are here
	unsaid  bool      // on this stream
	rev     uint64
	waiting []waiter
}

// Signal sends the newest value of a kind of signal, such as
// [rollcall.SignalCursor], and waits until the server has taken it; nil data ends
// it. Only the newest counts: one that has yet to go out is replaced by the next.
// What the server refuses is an error. It is sent again after a lost connection,
// as long as it lives.
func (r *Room) Signal(ctx context.Context, kind string, data json.RawMessage, o SignalOptions) error {
	taken, err := r.signal(kind, data, o)
	if err != nil {
		return fmt.Errorf("signal in room %q: %w", r.id, err)
	}
	select {
	case err = <-taken:
	case <-r.over:
		err = r.overError()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("signal in room %q: %w", r.id, err)
	}
	return nil
}

func (r *Room) signal(kind string, data json.RawMessage, o SignalOptions) (<-chan error, error) {
	s := rollcall.Signal{Kind: strings.Clone(kind), DocVersion: o.DocVersion, TTL: o.TTL}
	if data != nil && string(data) != "null" {
		var err error
		if s.Data, err = wire.Value(data, 0); err != nil {
			return nil, err
		}
	}
	if o.DocVersion != nil {
		var err error
		if s.DocVersion, err = wire.Value(o.DocVersion, 0); err != nil {
			return nil, err
		}
	}
	c := r.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := r.settable(); err != nil {
		return nil, err
	}
	own := r.signals.find(kind)
	if own == nil {
		own = &ownSignal{}
		r.signals.own = append(r.signals.own, own)
	}
	own.signal, own.unsaid, own.until = s, true, time.Time{}
	own.rev++
	switch {
	case o.TTL > 0:
		own.until = time.Now().Add(o.TTL)
	case kind == rollcall.SignalTyping:
		own.until = time.Now().Add(5 * time.Second)
	case kind != rollcall.SignalSelection:
		own.until = time.Now().Add(30 * time.Second)
	}
	w := waiter{own.rev, make(chan error, 1)}
	own.waiting = append(own.waiting, w)
	c.wakeUp()
	return w.taken, nil
}

// Signals are the signals of the others in the room, in no order.
func (r *Room) Signals() []rollcall.Signal {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return slices.Collect(maps.Values(r.signals.others))
}

// The methods below are called with client.mu held.

func (s *roomSignals) find(kind string) *ownSignal {
	for _, own := range s.own {
		if own.signal.Kind == kind {
			return own
		}
	}
	return nil
}

// reopen has what lives said again on a new stream.
func (s *roomSignals) reopen(now time.Time) {
	s.own = slices.DeleteFunc(s.own, func(own *ownSignal) bool {
		ended := own.signal.Data == nil || !own.until.IsZero() && !now.Before(own.until)
		if ended {
			own.answered(own.rev, nil) // nothing lives any more
		}
		return ended
	})
	for _, own := range s.own {
		own.unsaid = true
	}
}

// collect says what has yet to be said.
func (s *roomSignals) collect(r *Room, say func(wire.Message, ask)) {
	for _, own := range s.own {
		if own.unsaid {
			own.unsaid = false
			signal := own.signal
			say(wire.Message{Type: wire.MessageSignal, Room: r.id, Signal: &signal}, ask{room: r, rev: own.rev, signal: own})
		}
	}
}

func (own *ownSignal) answered(rev uint64, err error) {
	own.waiting = slices.DeleteFunc(own.waiting, func(w waiter) bool {
		if w.rev <= rev {
			w.taken <- err
			return true
		}
		return false
	})
}

// takenSignal forgets what has ended.
func (r *Room) takenSignal(a ask) {
	a.signal.answered(a.rev, nil)
	if a.signal.rev == a.rev && a.signal.signal.Data == nil {
		r.forgetSignal(a.signal)
	}
}

func (r *Room) forgetSignal(gone *ownSignal) {
	r.signals.own = slices.DeleteFunc(r.signals.own, func(own *ownSignal) bool { return own == gone })
}

// refusedSignal forgets what was refused, unless there is a newer one.
func (r *Room) refusedSignal(a ask, err error) {
	a.signal.answered(a.rev, err)
	if a.signal.rev == a.rev {
		r.forgetSignal(a.signal)
	}
}

// toldSignals takes what changed of the signals, without our own.
func (r *Room) toldSignals(e *wire.Signals) {
	if r.signals.others == nil {
		r.signals.others = make(map[signalKey]rollcall.Signal)
	}
	others := r.signals.others
	var changed []rollcall.Signal
	named := make(map[signalKey]bool, len(e.Signals))
	for _, s := range e.Signals {
		key := signalKey{s.Connection, s.Kind}
		named[key] = true
		_, known := others[key]
		switch {
		case s.Connection == r.client.connection:
			continue
		case s.Data == nil:
			if !known {
				continue
			}
			delete(others, key)
		default:
			others[key] = s
		}
		changed = append(changed, s)
	}
	if e.Full {
		for key, s := range others {
			if !named[key] {
				delete(others, key)
				changed = append(changed, ended(s))
			}
		}
	}
	r.emitSignals(changed)
}

// replacedSignals forgets the signals of the others: the room is told anew.
func (r *Room) replacedSignals() {
	var changed []rollcall.Signal
	for _, s := range r.signals.others {
		changed = append(changed, ended(s))
	}
	clear(r.signals.others)
	r.emitSignals(changed)
}

func ended(s rollcall.Signal) rollcall.Signal {
	return rollcall.Signal{User: s.User, Connection: s.Connection, Kind: s.Kind}
}

func (r *Room) emitSignals(changed []rollcall.Signal) {
	if len(changed) > 0 {
		r.emit(Change{Kind: KindSignals, Signals: changed, Count: r.roster.size()})
	}
}
