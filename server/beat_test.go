package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
)

// tardyConn takes everything, a while later.
type tardyConn struct{ *fakeConn }

func (c *tardyConn) TryWrite([]byte) (int, error) { return 0, nil }

func (c *tardyConn) Write(p []byte, _ time.Duration) error {
	time.Sleep(300 * time.Millisecond)
	_, err := c.fakeConn.TryWrite(p)
	return err
}

// A stream that is always being written to is sent its beats all the same.
func TestABusyStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bob := w.arrive("bob", lobby, nil)
		o, err := w.h.open(t.Context(), arrival{identity: auth.GuestIdentity("ana"), rooms: []entry{{room: "lobby"}}})
		if err != nil {
			t.Fatal(err)
		}
		conn := &tardyConn{newFakeConn()}
		st := o.attach(conn)
		ana := &client{w: w, conn: conn.fakeConn, st: st}
		beats := 0
		for i := range 600 {
			time.Sleep(100 * time.Millisecond)
			bob.st.c.op.Lock()
			_, refused := bob.st.c.set(t.Context(), "lobby", change{status: rollcall.StatusActive, data: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))})
			bob.st.c.op.Unlock()
			if refused != nil {
				t.Fatal(refused)
			}
			bob.answer()
			if said, _ := conn.take(); strings.Contains(said, "event: beat") {
				beats++
				ana.answer()
			}
		}
		if beats < 6 || conn.isClosed() {
			t.Errorf("%d beats in a minute; ended: %v", beats, conn.isClosed())
		}
	})
}
