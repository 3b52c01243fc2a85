package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	subprotocol = "rollcall.v1"
	// largeMessage is near the limit of a message, 64 KiB.
	largeMessage = 60 << 10
)

// refusal is an answer to a handshake that opened no WebSocket.
type refusal struct {
	*answer
	err error
}

func (r *refusal) Error() string {
	if r.answer == nil {
		return describe(withoutURL(r.err))
	}
	return fmt.Sprintf("%d: %s", r.status, r.detail())
}

// dial opens a WebSocket as a browser does that shows a page of the origin; ""
// is no browser. The token goes along only if asked.
func (v *visit) dial(ctx context.Context, origin string, identified bool) (*websocket.Conn, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: v.tls()}
	// A WebSocket is opened over HTTP/1.1.
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	defer transport.CloseIdleConnections()
	o := &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{}, Subprotocols: []string{subprotocol},
		CompressionMode: websocket.CompressionDisabled,
	}
	if identified && v.token.text != "" && !v.token.key {
		o.Subprotocols = append(o.Subprotocols, "bearer."+v.token.text) // as a browser has to
	}
	if origin != "" {
		o.HTTPHeader.Set("Origin", origin)
	}
	conn, res, err := websocket.Dial(ctx, v.at(nil, "ws"), o)
	if err == nil {
		conn.SetReadLimit(1 << 20)
		return conn, nil
	}
	r := &refusal{err: err}
	if res != nil {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		r.answer = &answer{status: res.StatusCode, header: res.Header, body: body}
	}
	return nil, r
}

func (v *visit) tls() *tls.Config { return v.http.Transport.(*http.Transport).TLSClientConfig.Clone() }

const passUpgrade = "let the proxy pass WebSockets on (nginx: proxy_http_version 1.1, and proxy_set_header for Upgrade and Connection). Browsers do without, over server-sent events"

func (v *visit) checkWebSocket(ctx context.Context) Finding {
	const name = "websocket"
	conn, refused := v.dial(ctx, "", v.let)
	switch {
	case refused == nil:
	case refused.answer == nil:
		return wrong(name, passUpgrade, "it does not open: %v", refused)
	case refused.status == http.StatusUpgradeRequired || refused.status == http.StatusBadRequest || refused.status == http.StatusHTTPVersionNotSupported:
		return wrong(name, passUpgrade, "what asks for the upgrade is lost on the way: %v", refused)
	case refused.status == http.StatusSwitchingProtocols:
		return wrong(name, passUpgrade, "the upgrade comes back broken: %v", refused.err)
	case !refused.ours():
		return wrong(name, passUpgrade, "%d from %s, and not from the server", refused.status, orSomething(refused.header.Get("Server")))
	default:
		return wrong(name, "", "%v", refused)
	}
	defer conn.CloseNow()
	v.upward = true
	if conn.Subprotocol() != subprotocol {
		return wrong(name, "let the proxy pass Sec-WebSocket-Protocol on, both ways", "it opens, and its subprotocol %s is lost", subprotocol)
	}
	if !v.let || v.token.key {
		conn.Close(websocket.StatusNormalClosure, "")
		return ok(name, "opens")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	if err := awaitMessage(ctx, conn, "ready"); err != nil {
		return wrong(name, passUpgrade, "it opens, and then: %s", describe(err))
	}
	came := time.Since(began)
	ping, _ := json.Marshal(map[string]any{"type": "ping", "id": 1, "padding": strings.Repeat("-", largeMessage)})
	began = time.Now()
	err := conn.Write(ctx, websocket.MessageText, ping)
	if err == nil {
		err = awaitMessage(ctx, conn, "pong")
	}
	if err != nil {
		return wrong(name, "does something in between limit the size of messages?", "it opens, and a message of %d KiB is not answered: %s", len(ping)>>10, describe(err))
	}
	trip := time.Since(began)
	conn.Close(websocket.StatusNormalClosure, "")
	return ok(name, "opens, the first event came after %s, and a message of %d KiB was answered in %s", short(came), len(ping)>>10, short(trip))
}

// awaitMessage reads until a message of the kind.
func awaitMessage(ctx context.Context, conn *websocket.Conn, kind string) error {
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		type message struct{ Type string }
		var list []message
		if json.Unmarshal(raw, &list) != nil {
			var one message
			if json.Unmarshal(raw, &one) != nil {
				return errors.New("a message that is none of ours")
			}
			list = []message{one}
		}
		for _, m := range list {
			if m.Type == kind {
				return nil
			}
		}
	}
}
