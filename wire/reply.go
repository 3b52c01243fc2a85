package wire

import (
	"bytes"
	"encoding/json"

	"rollcall"
)

// The readers of the answers to WebSocket messages.

func readOK(f *fields) any {
	ok := OK{Fields: bytes.Clone(f.in)}
	for f.next() {
		if string(f.key) == "id" {
			f.rawID(&ok.ID)
		}
	}
	return &ok
}

func readPong(f *fields) any {
	var p Pong
	for f.next() {
		if string(f.key) == "id" {
			f.rawID(&p.ID)
		}
	}
	return &p
}

func readFailure(f *fields) any {
	var e Failure
	for f.next() {
		switch string(f.key) {
		case "id":
			f.rawID(&e.ID)
		case "code":
			f.code(&e.Err.Code)
		case "message":
			f.text(&e.Err.Detail)
		case "retry":
			f.boolean(&e.Retry)
		case "limit":
			f.count(&e.Err.Limit)
		}
	}
	f.need("code", e.Err.Code != "")
	return &e
}

func (f *fields) code(to *rollcall.Code) {
	var s string
	f.text(&s)
	*to = rollcall.Code(s)
}

// ServerMessage is one message of a server's text frame.
type ServerMessage struct {
	Event Event
	// Body is the object with its type, for [DecodeEvent].
	Body json.RawMessage
}

// DecodeFrame cuts a server's text frame, one object or an array, into its
// messages. Their bodies are checked by [DecodeEvent].
func DecodeFrame(raw []byte) ([]ServerMessage, error) {
	list, err := split(raw, 0)
	if err != nil {
		return nil, err
	}
	messages := make([]ServerMessage, 0, len(list))
	for _, element := range list {
		f := answer("message", element)
		var event string
		for f.next() {
			if string(f.key) == "type" {
				f.text(&event)
			}
		}
		f.need("type", event != "")
		if f.err != nil {
			return nil, f.err
		}
		messages = append(messages, ServerMessage{Event(event), f.in})
	}
	return messages, nil
}
