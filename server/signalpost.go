package server

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"rollcall"
	"rollcall/store"
	"rollcall/wire"
)

// signalPost tells other nodes what the connections of this one have sent: at
// most one message a room and tick.
type signalPost struct {
	h     *hub
	nodes store.Signals
	wake  chan struct{} // capacity 1; never closed

	mu    sync.Mutex
	rooms []*room // Guarded by mu. With something to tell; roomSignals.outgoing.
}

func newSignalPost(h *hub, nodes store.Signals) *signalPost {
	return &signalPost{h: h, nodes: nodes, wake: make(chan struct{}, 1)}
}

// signalsMessage is what a node tells of a room.
type signalsMessage struct {
	Node    string        `json:"node"`
	Ask     bool          `json:"ask,omitempty"` // whoever has live signals is to tell them
	Signals []postedValue `json:"signals,omitempty"`
	Faded   []postedValue `json:"faded,omitempty"` // connections that have opened a new stream
}

// postedValue is one signal.
type postedValue struct {
	User       rollcall.UserID       `json:"u,omitempty"`
	Connection rollcall.ConnectionID `json:"c"`
	Generation rollcall.Generation   `json:"g,omitempty"`
	Kind       string                `json:"k,omitempty"`
	Data       json.RawMessage       `json:"d,omitempty"` // none: ended
	DocVersion json.RawMessage       `json:"v,omitempty"`
	TTL        int64                 `json:"t,omitempty"` // ms; none: until the lease ends
}

func posted(s *rollcall.Signal) postedValue {
	return postedValue{
		User: s.User, Connection: s.Connection, Generation: s.Generation, Kind: s.Kind,
		Data: s.Data, DocVersion: s.DocVersion, TTL: s.TTL.Milliseconds(),
	}
}

// subscribe begins to hear of the signals of a room that this node has just begun
// to watch.
func (p *signalPost) subscribe(r *room) {
	r.mu.Lock()
	sg := r.signalsLocked()
	again := sg.stop != nil
	if !again {
		sg.own = make(map[rollcall.ConnectionID]bool)
		sg.stop = func() {}
	}
	r.mu.Unlock()
	if again {
		return
	}
	stop := p.nodes.SubscribeSignals(r.id, r.hearSignals, r.askSignals)
	r.mu.Lock()
	sg.stop = stop
	r.mu.Unlock()
}

// postLocked has the others told with the next tick.
func (r *room) postLocked() {
	if r.signals.outgoing {
		return
	}
	r.signals.outgoing = true
	p := r.h.post
	p.mu.Lock()
	p.rooms = append(p.rooms, r)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// askSignals asks the others what lives.
func (r *room) askSignals() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals.ask = true
	r.postLocked()
}

// run posts until the hub ends. A store that is away costs a time-out, and
// nobody waits for it but the signals.
func (p *signalPost) run() {
	for {
		select {
		case <-p.h.ctx.Done():
			return
		case <-p.wake:
		}
		began := time.Now()
		p.mu.Lock()
		rooms := p.rooms
		p.rooms = nil
		p.mu.Unlock()
		for _, r := range rooms {
			if message := r.signalsMessage(); message != nil && !r.keeper().isDown() {
				p.publish(r, message)
			}
		}
		select {
		case <-p.h.ctx.Done():
			return
		case <-time.After(tickEvery - time.Since(began)):
		}
	}
}

func (p *signalPost) publish(r *room, message []byte) {
	ctx, cancel := context.WithTimeout(p.h.ctx, time.Second)
	defer cancel()
	if err := p.nodes.PublishSignals(ctx, r.id, message); err != nil {
		p.h.log.Debug("publish signals", "error", err) // the next ones are newer
		return
	}
	p.h.metrics.signalPosts.Inc()
}

// signalsMessage is what the others have yet to be told; nil if nothing.
func (r *room) signalsMessage() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	sg, now := r.signals, time.Now()
	sg.outgoing = false
	m := signalsMessage{Node: r.h.node, Ask: sg.ask}
	var list []rollcall.Signal
	known := false
	if !sg.asked {
		list, known = sg.table.Since(now, sg.sent, sg.buffer[:0])
	}
	if !known {
		list = sg.table.Live(now, sg.buffer[:0])
	}
	for i := range sg.again {
		m.Signals = append(m.Signals, posted(&sg.again[i]))
	}
	for i := range list {
		if sg.own[list[i].Connection] {
			m.Signals = append(m.Signals, posted(&list[i]))
		}
	}
	for i := range sg.faded {
		m.Faded = append(m.Faded, postedValue{Connection: sg.faded[i].Connection, Generation: sg.faded[i].Generation})
	}
	sg.buffer = list
	clear(list)
	sg.sent, sg.ask, sg.asked, sg.faded, sg.again = sg.table.Tick(), false, false, nil, nil
	if !m.Ask && len(m.Signals) == 0 && len(m.Faded) == 0 {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // data is kept to the byte
	if err := e.Encode(&m); err != nil {
		r.h.log.Error("encode signals", "error", err)
		return nil
	}
	return b.Bytes()
}

// hearSignals takes what another node tells.
func (r *room) hearSignals(message []byte) {
	var m signalsMessage
	if err := json.Unmarshal(message, &m); err != nil {
		r.h.log.Warn("signals of another node cannot be read", "error", err)
		return
	}
	if m.Node == r.h.node {
		return
	}
	if m.Ask {
		r.mu.Lock()
		if len(r.signals.own) > 0 {
			r.signals.asked = true
			r.postLocked()
		}
		r.mu.Unlock()
	}
	if len(m.Signals)+len(m.Faded) == 0 {
		return
	}
	r.changeSignals(false, func(t *rollcall.Signals, now time.Time) *rollcall.Error {
		for i := range m.Faded {
			f := &m.Faded[i]
			if t.Fade(now, f.Connection, f.Generation, fadeAfter) {
				delete(r.signals.own, f.Connection) // it is there now
			}
		}
		for i := range m.Signals {
			if s := r.postedLocked(&m.Signals[i]); s != nil {
				t.Set(now, s)
			}
		}
		return nil
	})
}

// postedLocked is a signal of another node; nil if it is of nobody who is here, or
// none at all. What comes from outside is checked, whoever says it.
func (r *room) postedLocked(v *postedValue) *rollcall.Signal {
	limits := &r.h.limits
	s := &rollcall.Signal{
		User: v.User, Connection: v.Connection, Generation: v.Generation, Kind: v.Kind,
		TTL: time.Duration(v.TTL) * time.Millisecond,
	}
	if !rollcall.ValidID(string(v.User)) || v.Connection == "" || limits.CheckSignal(s) != nil {
		return nil
	}
	// Who has left by what this node knows has left: the message is late. Who has
	// yet to come is on the way.
	if r.roster != nil && v.Generation != 0 && rollcall.Version(v.Generation) <= r.roster.Version() && r.roster.Member(v.User) == nil {
		return nil
	}
	var err error
	if v.Data != nil {
		if s.Data, err = wire.Value(v.Data, limits.Signal); err != nil {
			return nil
		}
	}
	if v.DocVersion != nil {
		if s.DocVersion, err = wire.Value(v.DocVersion, limits.SignalDocVersion); err != nil {
			return nil
		}
	}
	return s
}
