package harness

import (
	"encoding/json"
)

// Signal is a signal as the protocol writes it.
type Signal struct {
	User       string          `json:"user"`
	Connection string          `json:"connection"`
	Kind       string          `json:"kind"`
	Data       json.RawMessage `json:"data"`
	DocVersion json.RawMessage `json:"docVersion"`
	TTLMs      *int64          `json:"ttlMs"`
}

// SignalKey names a signal in a room.
type SignalKey struct{ Connection, Kind string }

// Signal sends a signal and waits for the answer; body is the object that a POST
// has.
func (c *Client) Signal(room, body string) *Reply {
	c.t.Helper()
	if c.Over == WS {
		return c.Ask(`{"type":"signal","room":` + jsonOf(room) + `,` + body[1:])
	}
	return c.Call("POST", room, "/signals", body)
}

// Point sends a signal and, on a WebSocket, waits for nothing.
func (c *Client) Point(room, body string) {
	if c.Over == WS {
		c.SendFrame(opText, []byte(`{"type":"signal","room":`+jsonOf(room)+`,`+body[1:]))
		return
	}
	ready := c.Ready()
	c.other().Do(Call{Method: "POST", Path: ConnectionPath(room, ready.Connection) + "/signals", Resume: ready.Resume, Body: body})
}

// Signals is what a client that keeps to the protocol holds of the signals of a
// room.
func (c *Client) Signals(room string) map[SignalKey]Signal {
	holds := make(map[SignalKey]Signal)
	for _, e := range c.Events("signals", "snapshot") {
		var s struct {
			Room    string
			Signals []Signal
			Full    bool
		}
		if json.Unmarshal(e.Data, &s) != nil || s.Room != room {
			continue
		}
		if e.Name == "snapshot" || s.Full {
			clear(holds)
		}
		for _, v := range s.Signals {
			if key := (SignalKey{v.Connection, v.Kind}); string(v.Data) == "null" {
				delete(holds, key)
			} else {
				holds[key] = v
			}
		}
	}
	return holds
}

// Shows is the data of a signal of another client, "" if there is none.
func (c *Client) Shows(room string, of *Client, kind string) string {
	return string(c.Signals(room)[SignalKey{of.Ready().Connection, kind}].Data)
}
