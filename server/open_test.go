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

// Somebody comes back with a new token before the end of the old one was carried
// out.
func TestTheEndOfATokenEndsNothingOfTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ana := w.arrive("ana", lobby, func(a *arrival) { a.identity.Expires = time.Now().Add(time.Minute) })
		ana.st.c.mu.Lock()
		secret := w.h.sign(ana.st.c, ana.st.no)
		ana.st.c.mu.Unlock()
		slow := make(chan struct{})
		w.h.errands.of(ana.st.c, func() { <-slow }) // as a store that does not answer
		live(66*time.Second, ana)
		if !ana.conn.isClosed() {
			t.Fatal("the stream goes on without a token")
		}
		next := w.arrive("ana", lobby, func(a *arrival) { a.last.resume = secret })
		if next.st.c != ana.st.c {
			t.Fatal("another connection")
		}
		close(slow)
		live(2*time.Second, next)
		if here := w.here("lobby"); len(here) != 1 {
			t.Errorf("here: %v, want ana", here)
		}
	})
}

func TestAStreamThatOpensAfterTheEndIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		o, err := w.h.open(t.Context(), arrival{identity: auth.GuestIdentity("ana"), rooms: []entry{{room: "lobby"}}})
		if err != nil {
			t.Fatal(err)
		}
		w.s.Close()
		conn := newFakeConn()
		o.attach(conn)
		if !conn.isClosed() {
			t.Error("nobody will ever end this stream")
		}
	})
}
