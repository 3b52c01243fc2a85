package transport

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Protocol is the WebSocket subprotocol.
const Protocol = "rollcall.v1"

// acceptTime is how long a new client may take to take the answer to its
// request. The answer is shorter than any send buffer.
const acceptTime = 10 * time.Second

// WebSocketOptions are the options of [AcceptWebSocket]. The zero value works.
type WebSocketOptions struct {
	// MaxMessage is the largest message taken from the client, in bytes, over
	// all its fragments; a larger one is a Violation 1009. 64 KiB if 0.
	MaxMessage int
	// Protocol is chosen if the client offers it; nothing else that it offers
	// is ever echoed, so a token among the offers is not. [Protocol] if empty.
	Protocol string
	// Refuse answers a request that cannot be upgraded. The header fields that
	// go with the status are set already; detail is a sentence for people.
	// [http.Error] if nil.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, detail string)
	// Rounds are those in which the WebSocket is read while its handler is steady;
	// nil for none.
	Rounds *Rounds
}

// upgradeError is why a request cannot be upgraded.
type upgradeError struct {
	status int
	detail string
}

func (e *upgradeError) Error() string { return "upgrade to websocket: " + e.detail }

// AcceptWebSocket upgrades a request to a WebSocket. If it fails, the request is
// answered: 405 if it is not a GET, 426 if it does not ask for an upgrade or for
// another version than 13, 505 over HTTP/2, else 400; and the error says why.
//
// Header fields that are set on w already (CORS, Vary, cookies) go out with the
// answer. Whether the Origin may connect is for the caller to check before. No
// extension is ever agreed on.
//
// The caller owns the WebSocket: it runs Read, and calls Close in the end.
func AcceptWebSocket(w http.ResponseWriter, r *http.Request, o WebSocketOptions) (*WebSocket, error) {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 64 << 10
	}
	if o.Protocol == "" {
		o.Protocol = Protocol
	}
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, detail string) {
			http.Error(w, detail, status)
		}
	}
	key, refused := checkUpgrade(r)
	if refused != nil {
		setRefusal(w.Header(), r, refused.status)
		o.Refuse(w, r, refused.status, refused.detail)
		return nil, refused
	}
	conn, pending, err := hijack(w)
	if err != nil {
		o.Refuse(w, r, http.StatusInternalServerError, "this server cannot take the connection over")
		return nil, fmt.Errorf("upgrade to websocket: %w", err)
	}
	c := &WebSocket{max: o.MaxMessage, pending: pending, rounds: o.Rounds}
	c.init(conn)

	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
	head.WriteString(acceptKey(key))
	head.WriteString("\r\n")
	if hasToken(r.Header["Sec-Websocket-Protocol"], o.Protocol, false) {
		head.WriteString("Sec-WebSocket-Protocol: " + o.Protocol + "\r\n")
	}
	w.Header().WriteSubset(&head, hopHeader)
	head.WriteString("\r\n")
	if err := c.Write(head.Bytes(), acceptTime); err != nil {
		c.Close()
		return nil, fmt.Errorf("upgrade to websocket: %w", err)
	}
	return c, nil
}

// hopHeader are the fields of w.Header() that do not go out with an answer that
// is written by hand: they speak of this connection or of a body of another
// form.
var hopHeader = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Transfer-Encoding": true, "Trailer": true, "Upgrade": true,
	"Content-Length": true, "Content-Encoding": true, "Proxy-Connection": true,
	"Sec-Websocket-Accept": true, "Sec-Websocket-Protocol": true, "Sec-Websocket-Extensions": true,
}

// checkUpgrade is §4.2.1 of RFC 6455. It runs before the connection is taken
// over, so that a refusal is an ordinary answer with everything that middleware
// adds to it.
func checkUpgrade(r *http.Request) (key string, refused *upgradeError) {
	refuse := func(status int, detail string) (string, *upgradeError) {
		return "", &upgradeError{status, detail}
	}
	switch {
	case r.Method != http.MethodGet:
		return refuse(http.StatusMethodNotAllowed, "a WebSocket is opened by GET")
	case r.ProtoMajor > 1:
		return refuse(http.StatusHTTPVersionNotSupported, "a WebSocket is opened over HTTP/1.1")
	case !r.ProtoAtLeast(1, 1):
		return refuse(http.StatusUpgradeRequired, "a WebSocket is opened over HTTP/1.1: does a proxy before this server speak HTTP/1.0?")
	case !hasToken(r.Header["Upgrade"], "websocket", true):
		return refuse(http.StatusUpgradeRequired, "this is a WebSocket: the request has no Upgrade: websocket")
	case !hasToken(r.Header["Connection"], "upgrade", true):
		return refuse(http.StatusBadRequest, "the request has no Connection: Upgrade: does a proxy before this server drop it?")
	case r.ContentLength != 0:
		// Its bytes would be read as frames.
		return refuse(http.StatusBadRequest, "the request has a body")
	}
	if v := r.Header["Sec-Websocket-Version"]; len(v) != 1 || v[0] != "13" {
		return refuse(http.StatusUpgradeRequired, "the version of WebSocket spoken here is 13")
	}
	keys := r.Header["Sec-Websocket-Key"]
	if len(keys) != 1 {
		return refuse(http.StatusBadRequest, "the request has no single Sec-WebSocket-Key")
	}
	key = strings.TrimSpace(keys[0])
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
		return refuse(http.StatusBadRequest, "Sec-WebSocket-Key is not 16 bytes in base64")
	}
	return key, nil
}

func setRefusal(h http.Header, r *http.Request, status int) {
	switch status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	case http.StatusUpgradeRequired:
		h.Set("Upgrade", "websocket")
		h.Set("Connection", "Upgrade")
	}
	if r.ProtoMajor == 1 {
		h.Set("Sec-WebSocket-Version", "13")
	}
}

// acceptKey is §4.2.2 of RFC 6455.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// hasToken reports whether a comma-separated header, over all its lines, lists
// token; fold ignores case.
func hasToken(lines []string, token string, fold bool) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		for t := range strings.SplitSeq(line, ",") {
			t = strings.Trim(t, " \t")
			if t == token || fold && strings.EqualFold(t, token) {
				return true
			}
		}
		return false
	})
}

// hijack takes the connection over from net/http, with what the client has sent
// already behind its request. The buffers of net/http are left to the collector.
func hijack(w http.ResponseWriter) (conn net.Conn, pending []byte, err error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if n := rw.Reader.Buffered(); n > 0 {
		p, _ := rw.Reader.Peek(n)
		pending = bytes.Clone(p)
	}
	return conn, pending, nil
}
