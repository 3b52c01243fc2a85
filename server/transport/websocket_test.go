package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
)

// echoHandler answers each message with itself and each ping with a pong.
type echoHandler struct{ c *WebSocket }

func (e echoHandler) send(op ws.OpCode, p []byte) {
	e.c.Write(ws.MustCompileFrame(ws.NewFrame(op, true, append([]byte(nil), p...))), time.Second)
}
func (e echoHandler) Message(p []byte) { e.send(ws.OpText, p) }
func (e echoHandler) Ping(p []byte)    { e.send(ws.OpPong, p) }
func (e echoHandler) Pong(p []byte)    {}

func TestSmoke(t *testing.T) {
	ends := make(chan End, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			end := c.Read(echoHandler{c})
			c.Write(ws.MustCompileFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(1000, ""))), time.Second)
			c.CloseAfter(time.Second)
			ends <- end
		}()
	}))
	defer srv.Close()
	ctx := context.Background()
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Write(ctx, websocket.MessageText, []byte("hello"))
	_, p, err := c.Read(ctx)
	if err != nil || string(p) != "hello" {
		t.Fatal(err, p)
	}
	c.Close(4000, "x")
	t.Log(<-ends)
}
