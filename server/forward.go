package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// forwarder hands a call of a connection that lands on another node to the node
// that has the connection, and its answer back, so that no balancer has to know
// which node that is.
type forwarder struct {
	s     *Server
	nodes store.Nodes // nil: there is one node
	next  atomic.Uint64

	mu      sync.Mutex
	waiting map[uint64]chan<- *answered // Guarded by mu. Calls that wait for answers.
	heard   heard                       // Guarded by mu.
}

// messageID tells a message from all others.
type messageID struct {
	from   string
	id     uint64
	answer bool
}

// heard is what has come from other nodes of late: a message may come twice, on two
// lines of the store.
type heard struct {
	now, before map[messageID]struct{}
	began       time.Time // now
}

// heardFor is how much later the second one may come, at least.
const heardFor = 5 * time.Second

// again reports whether a message has been heard before.
func (h *heard) again(c *call) bool {
	if now := time.Now(); now.Sub(h.began) > heardFor {
		h.now, h.before, h.began = make(map[messageID]struct{}), h.now, now
	}
	id := messageID{c.From, c.ID, c.Method == ""}
	_, now := h.now[id]
	_, before := h.before[id]
	h.now[id] = struct{}{}
	return now || before
}

// handedOver marks the context of a request that another node has handed over.
type handedOver struct{}

// forwardWithin is how long another node may take to answer.
const forwardWithin = 3 * time.Second

// call is a request to another node, or the answer to one.
type call struct {
	From    string            `json:"from,omitempty"`   // the node that sends it
	ID      uint64            `json:"id"`               // of the one who asks
	Method  string            `json:"method,omitempty"` // "" in an answer
	Path    string            `json:"path,omitempty"`   // escaped, with the query
	Header  map[string]string `json:"header,omitempty"`
	Body    []byte            `json:"body,omitempty"`
	Status  int               `json:"status,omitempty"` // 0 in an answer: the connection is not here
	Address string            `json:"address,omitempty"`
	// Holding, if given, is the connection that only its own node is to answer for.
	Holding   rollcall.ConnectionID `json:"holding,omitempty"`
	Streaming bool                  `json:"streaming,omitempty"` // and only if it has its stream
}

type answered = call

// here serves a call of a connection here, unless the connection is known to be
// on another node.
func (f *forwarder) here(h func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	if f.nodes == nil {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		raw, err := f.s.body(w, r)
		if err != nil {
			return err
		}
		if r.Context().Value(handedOver{}) == nil {
			if node := f.elsewhere(r, raw); node != "" {
				return f.forward(w, r, node, raw, h)
			}
			if f.isOfServer(r) {
				if a := f.inquire(r, raw); a != nil {
					a.tell(w)
					return nil
				}
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		return h(w, r)
	}
}

// elsewhere is the node that has the connection; "" if this one serves the call.
func (f *forwarder) elsewhere(r *http.Request, raw []byte) string {
	signed := proof(r, "")
	if signed == "" {
		beat, err := wire.DecodeBeat(raw) // every body may have a resume
		if err != nil || beat.Resume == "" {
			return ""
		}
		signed = beat.Resume
	}
	resume, err := f.s.h.signer.Verify(signed)
	if err != nil || resume.Node == f.s.h.node {
		return ""
	}
	// This node may remember the connection too, from before it moved there.
	return resume.Node
}

// carried are the fields of a request that another node needs, and of an answer
// that the client does.
var (
	carried  = []string{"Authorization", "Content-Type", "Rollcall-Resume"}
	returned = []string{"Content-Type", "Cache-Control", "Retry-After", "Rollcall-Settling", "WWW-Authenticate"}
)

func pick(h http.Header, names []string) map[string]string {
	fields := make(map[string]string)
	for _, name := range names {
		if v := h.Get(name); v != "" {
			fields[name] = v
		}
	}
	return fields
}

// forward asks another node. If nobody hears it, and the connection has not come
// here by now, it has ended: its client has to open anew, anywhere.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, node string, raw []byte, h func(http.ResponseWriter, *http.Request) error) error {
	id, answer, done := f.await(1)
	defer done()
	message, err := f.message(r, call{ID: id, Body: raw})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), forwardWithin)
	defer cancel()
	hearers, err := f.nodes.Send(ctx, node, message)
	heard := hearers > 0
	switch {
	case err != nil:
		return f.s.h.unavailable(err)
	case !heard && f.knows(r):
		r.Body = io.NopCloser(bytes.NewReader(raw))
		return h(w, r)
	case !heard && isRelease(r):
		w.WriteHeader(http.StatusNoContent) // gone is what was asked for
		return nil
	case !heard && (r.Method == http.MethodPut || r.Method == http.MethodDelete):
		// What it has in the room is known to the store: a lease without a stream
		// goes on at the node that hears of it, or is ended by it.
		r.Body = io.NopCloser(bytes.NewReader(raw))
		return h(w, r)
	case !heard:
		return rollcall.Errorf(rollcall.CodeGone, "the node of the connection has ended; open it anew")
	}
	select {
	case a := <-answer:
		a.tell(w)
		return nil
	case <-ctx.Done():
		return rollcall.Errorf(rollcall.CodeUnavailable, "the node of the connection does not answer; try again")
	}
}

// await has the answers to a call taken, until done is called; those beyond most
// are dropped.
func (f *forwarder) await(most int) (id uint64, answers <-chan *answered, done func()) {
	id = f.next.Add(1)
	taken := make(chan *answered, most)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[id] = taken
	return id, taken, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting, id)
	}
}

// message is a request as another node is told it.
func (f *forwarder) message(r *http.Request, c call) ([]byte, error) {
	c.From, c.Method, c.Path = f.s.h.node, r.Method, r.URL.Path+"?"+r.URL.RawQuery
	c.Header, c.Address = pick(r.Header, carried), r.RemoteAddr
	return json.Marshal(c)
}

// tell answers the client what another node has answered.
func (a *answered) tell(w http.ResponseWriter) {
	for name, v := range a.Header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

// prove tells the node of a connection that its client lives, and reports whether it
// has the connection.
func (f *forwarder) prove(resume auth.Resume, signed string) bool {
	if f.nodes == nil {
		return false
	}
	id, answer, done := f.await(1)
	defer done()
	message, err := json.Marshal(call{
		From: f.s.h.node, ID: id, Method: http.MethodPost, Header: map[string]string{"Rollcall-Resume": signed},
		Path: "/v1/connections/" + url.PathEscape(string(resume.Connection)) + "/beat",
	})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(f.s.h.ctx, inquireWithin)
	defer cancel()
	if heard, err := f.nodes.Send(ctx, resume.Node, message); err != nil || heard == 0 {
		return false
	}
	select {
	case a := <-answer:
		return a.Status == http.StatusNoContent
	case <-ctx.Done():
		return false
	}
}

func isRelease(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/release")
}

// knows reports whether the connection that the path names is one of this node.
func (f *forwarder) knows(r *http.Request) bool {
	id, err := pathID(r, "connection")
	return err == nil && f.s.h.connections.get(rollcall.ConnectionID(id)) != nil
}

// recorder is the answer to a call of another node.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

// hear takes a message of another node. It must be quick.
func (f *forwarder) hear(message []byte) {
	var c call
	if err := json.Unmarshal(message, &c); err != nil {
		f.s.o.Logger.Warn("message of another node cannot be read", "error", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// An answer of an earlier release does not tell whose it is, and comes once.
	if c.From != "" && f.heard.again(&c) {
		return
	}
	if c.Method == "" {
		select {
		case f.waiting[c.ID] <- &c: // never, if nobody waits
		default:
		}
		return
	}
	if c.From != f.s.h.node {
		f.s.h.spawn(func() { f.serve(&c) })
	}
}

// serve answers a call that another node was asked.
func (f *forwarder) serve(c *call) {
	ctx, cancel := context.WithTimeout(f.s.h.ctx, forwardWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(context.WithValue(ctx, handedOver{}, true), c.Method, "http://node"+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return
	}
	r.RemoteAddr, r.RequestURI = c.Address, c.Path
	for name, v := range c.Header {
		r.Header.Set(name, v)
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	if c.Holding != "" && !f.isHere(c) {
		w.status = 0
	} else {
		f.s.handler.ServeHTTP(w, r)
	}
	message, err := json.Marshal(answered{
		From: f.s.h.node, ID: c.ID, Status: w.status, Header: pick(w.header, returned), Body: w.body.Bytes(),
	})
	if err != nil {
		return
	}
	if _, err := f.nodes.Send(ctx, c.From, message); err != nil {
		f.s.o.Logger.Warn("answer another node", "error", err)
	}
}
