package server

import (
	"testing"
	"time"

	"rollcall/server/auth"
)

// TestAForgottenConnectionIsNotFoundAgain lets a client return while its
// connection is being forgotten: between finding it and having it.
func TestAForgottenConnectionIsNotFoundAgain(t *testing.T) {
	w := newWorld(t)
	id := auth.GuestIdentity("ana")
	c := w.h.newConnection(auth.NewConnectionID(), id)
	w.h.connections.add(c)
	c.op.Lock()
	returned := make(chan *connection)
	go func() {
		again, _ := w.h.resolve(&arrival{identity: id, last: lastEvent{resume: w.h.sign(c, 1)}})
		again.op.Unlock()
		returned <- again
	}()
	// Whether somebody waits for a lock cannot be asked. If this is too short,
	// the test passes without having tested.
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	c.settleLocked()
	c.mu.Unlock()
	c.op.Unlock()
	select {
	case again := <-returned:
		if again == c {
			t.Error("the forgotten connection is in use")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the client waits for ever")
	}
}
