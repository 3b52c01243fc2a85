package server

import (
	"context"
	"net/http"
	"time"

	"rollcall"
)

// A back end knows a connection by its id alone, and may call about it on any node.
// Unless the connection has its stream on that one, all nodes are asked, and the one
// that has it carries the call out.

const (
	// everyNode is the name by which all nodes go.
	everyNode = "*"
	// inquireWithin is how long a node may take to say that it knows nothing.
	inquireWithin = time.Second
	// inquiryAnswers is the most answers that are kept: those of as many nodes.
	inquiryAnswers = 256
)

// isOfServer reports whether a call about a connection in a room is made by a back
// end, and the connection has no stream here.
func (f *forwarder) isOfServer(r *http.Request) bool {
	switch r.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	if r.PathValue("room") == "" || proof(r, "") != "" || !f.s.fromServer(r) {
		return false
	}
	id, err := pathID(r, "connection")
	if err != nil {
		return false
	}
	c := f.s.h.connections.get(rollcall.ConnectionID(id))
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream == nil
}

// inquire asks the other nodes, and returns the answer of the one that has the
// connection; nil if none does, or is heard in time. One that has its stream comes
// before one that has a lease of it or remembers it.
func (f *forwarder) inquire(r *http.Request, raw []byte) *answered {
	name, _ := pathID(r, "connection")
	id := rollcall.ConnectionID(name)
	if a := f.ask(r, call{Body: raw, Holding: id, Streaming: true}); a != nil || f.knows(r) {
		return a
	}
	return f.ask(r, call{Body: raw, Holding: id})
}

func (f *forwarder) ask(r *http.Request, c call) *answered {
	id, answers, done := f.await(inquiryAnswers)
	defer done()
	c.ID = id
	message, err := f.message(r, c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), inquireWithin)
	defer cancel()
	hearers, err := f.nodes.Send(ctx, everyNode, message)
	if err != nil {
		f.s.o.Logger.Warn("ask the other nodes", "error", err)
		return nil
	}
	for range hearers - 1 { // this one is among them
		select {
		case a := <-answers:
			if a.Status != 0 {
				return a
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// isHere reports whether this node is to carry out a call that all nodes were asked.
func (f *forwarder) isHere(c *call) bool {
	held := f.s.h.connections.get(c.Holding)
	if held == nil {
		return false
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.stream != nil || !c.Streaming
}
