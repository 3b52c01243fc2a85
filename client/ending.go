package client

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rollcall"
	"rollcall/wire"
)

// verdict is what the end of a stream means for the way back.
type verdict uint8

const (
	again verdict = iota // with what we hold
	fresh                // without resume: somebody else holds the connection now
	token                // with a new token, if there is one to be had
	stop                 // not at all
)

// ending is how a stream ended.
type ending struct {
	verdict verdict
	after   time.Duration // the server's wish for the earliest return; 0: none
	spread  time.Duration // a random time to add, for wishes that everybody gets alike
	err     error
}

// cutOff is the end of a stream that nobody announced, or that never opened.
func cutOff(err error) *ending { return &ending{verdict: again, err: err} }

func stopped(err error) *ending { return &ending{verdict: stop, err: err} }

// judgeBye judges the server's farewell.
func judgeBye(b *wire.Bye) *ending {
	err := rollcall.Errorf(rollcall.CodeUnavailable, "the server ended the connection: %s", b.Reason)
	after := max(b.Reconnect, 0)
	switch {
	case b.Reason == wire.ByeReplaced:
		// Somebody resumed this connection: come back as a new one, or the two
		// would evict each other for ever.
		return &ending{verdict: fresh, after: after, err: err}
	case b.Reason == wire.ByeToken:
		err.Code = rollcall.CodeUnauthorized
		return &ending{verdict: token, after: after, err: err}
	case b.Reconnect < 0:
		err.Code = rollcall.CodeForbidden
		return stopped(err)
	}
	return &ending{verdict: again, after: after, err: err}
}

// judgeClose judges a close frame.
func judgeClose(code wire.CloseCode, reason string) *ending {
	text := fmt.Sprintf("the server closed the connection: %d", code)
	if reason != "" {
		text += " " + reason
	}
	switch {
	case code == wire.CloseReplaced:
		return &ending{verdict: fresh, err: rollcall.Errorf(rollcall.CodeConflict, "%s", text)}
	case code == wire.CloseToken:
		return &ending{verdict: token, err: rollcall.Errorf(rollcall.CodeUnauthorized, "%s", text)}
	case code == wire.CloseForbidden:
		return stopped(rollcall.Errorf(rollcall.CodeForbidden, "%s", text))
	case code == wire.CloseOversized || code == wire.CloseTooBig:
		return stopped(rollcall.Errorf(rollcall.CodeTooLarge, "%s", text))
	case !code.Return():
		return stopped(rollcall.Errorf(rollcall.CodeBadRequest, "%s", text))
	}
	return cutOff(rollcall.Errorf(rollcall.CodeUnavailable, "%s", text))
}

// judgeAnswer judges an answer to the handshake that is not the one hoped for.
func judgeAnswer(status int, header http.Header, err error) *ending {
	switch status {
	case http.StatusUnauthorized:
		return &ending{verdict: token, err: err}
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return stopped(err)
	}
	e := cutOff(err)
	if seconds, bad := strconv.Atoi(header.Get("Retry-After")); bad == nil && seconds > 0 {
		e.after = time.Duration(seconds) * time.Second
		e.spread = e.after / 2
	}
	return e
}
