package wire_test

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/wire"
)

var update = flag.Bool("update", false, "write the bytes of events.json from its inputs")

type eventVector struct {
	Name  string     `json:"name"`
	Event wire.Event `json:"event"`
	Input eventInput `json:"input"`
	Body  string     `json:"body"`
	SSE   string     `json:"sse"`
	// WS is the payload of the text frame, WSHeader the bytes before it in hex.
	WS       string `json:"ws"`
	WSHeader string `json:"wsHeader"`
}

// eventInput is what an encoder is given. info, data, id and fields are JSON
// texts in strings, so that their bytes are exact.
type eventInput struct {
	Connection rollcall.ConnectionID `json:"connection,omitempty"`
	Resume     string                `json:"resume,omitempty"`
	User       rollcall.UserID       `json:"user,omitempty"`
	LeaseMs    int64                 `json:"leaseMs,omitempty"`
	BeatMs     int64                 `json:"beatMs,omitempty"`
	Now        int64                 `json:"now,omitempty"`

	Room       rollcall.RoomID  `json:"room,omitempty"`
	Epoch      rollcall.Epoch   `json:"epoch,omitempty"`
	Prev       rollcall.Version `json:"prev,omitempty"`
	Version    rollcall.Version `json:"version,omitempty"`
	Mode       wire.Mode        `json:"mode,omitempty"`
	Count      int              `json:"count,omitempty"`
	Members    []memberInput    `json:"members,omitzero"`
	Sample     []memberInput    `json:"sample,omitzero"`
	SettlingMs int64            `json:"settlingMs,omitempty"`
	// Of a room that names nobody.
	Estimate      bool          `json:"estimate,omitempty"`
	StandardError float64       `json:"standardError,omitempty"`
	Join          []memberInput `json:"join,omitempty"`
	Update        []memberInput `json:"update,omitempty"`
	Leave         []leaveInput  `json:"leave,omitempty"`

	Reason      string        `json:"reason,omitempty"`
	ReconnectMs *int64        `json:"reconnectMs,omitempty"`
	N           int64         `json:"n,omitempty"`
	Degraded    bool          `json:"degraded,omitempty"`
	StaleMs     int64         `json:"staleMs,omitempty"`
	InMs        int64         `json:"inMs,omitempty"`
	ID          string        `json:"id,omitempty"`
	Fields      string        `json:"fields,omitempty"`
	Code        rollcall.Code `json:"code,omitempty"`
	Message     string        `json:"message,omitempty"`
	Limit       int           `json:"limit,omitempty"`

	Signals []signalInput `json:"signals,omitempty"`
	Full    bool          `json:"full,omitempty"`

	Page       string        `json:"page,omitempty"`
	NextCursor string        `json:"nextCursor,omitempty"`
	Contacts   []memberInput `json:"contacts,omitempty"`

	Present []userInput       `json:"present,omitempty"`
	Absent  []rollcall.UserID `json:"absent,omitempty"`
}

// signalInput is a signal; data and docVersion are JSON texts, "" for none.
type signalInput struct {
	User       rollcall.UserID       `json:"user"`
	Connection rollcall.ConnectionID `json:"connection"`
	Kind       string                `json:"kind"`
	Data       string                `json:"data,omitempty"`
	DocVersion string                `json:"docVersion,omitempty"`
	TTLMs      int64                 `json:"ttlMs,omitempty"`
}

func (in *eventInput) signals() []rollcall.Signal {
	var all []rollcall.Signal
	for _, s := range in.Signals {
		signal := rollcall.Signal{User: s.User, Connection: s.Connection, Kind: s.Kind, TTL: millis(s.TTLMs)}
		if s.Data != "" {
			signal.Data = json.RawMessage(s.Data)
		}
		if s.DocVersion != "" {
			signal.DocVersion = json.RawMessage(s.DocVersion)
		}
		all = append(all, signal)
	}
	return all
}

type userInput struct {
	User   rollcall.UserID `json:"user"`
	Status string          `json:"status"`
}

func (in *eventInput) userChanges() *wire.UserChanges {
	c := &wire.UserChanges{Absent: in.Absent}
	for _, u := range in.Present {
		status, _ := rollcall.ParseStatus(u.Status)
		c.Present = append(c.Present, wire.UserStatus{User: u.User, Status: status})
	}
	return c
}

type memberInput struct {
	User        rollcall.UserID `json:"user"`
	Info        string          `json:"info,omitempty"`
	Status      string          `json:"status"`
	Connections int             `json:"connections"`
	Since       int64           `json:"since"`
	Data        string          `json:"data,omitempty"`
}

type leaveInput struct {
	User   rollcall.UserID `json:"user"`
	Reason string          `json:"reason"`
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func members(in []memberInput) []*rollcall.Member {
	if in == nil {
		return nil
	}
	list := make([]*rollcall.Member, len(in))
	for i, m := range in {
		status, _ := rollcall.ParseStatus(m.Status)
		list[i] = &rollcall.Member{
			User: m.User, Info: json.RawMessage(m.Info), Status: status,
			Connections: m.Connections, Since: m.Since, Data: json.RawMessage(m.Data),
		}
	}
	return list
}

func (in *eventInput) diff() *rollcall.Diff {
	d := &rollcall.Diff{
		Prev: in.Prev, Version: in.Version, Count: in.Count,
		Join: members(in.Join), Update: members(in.Update),
	}
	for _, l := range in.Leave {
		reason, _ := rollcall.ParseReason(l.Reason)
		d.Leave = append(d.Leave, rollcall.Leave{User: l.User, Reason: reason})
	}
	return d
}

func (v *eventVector) encode(t *testing.T) []byte {
	in := &v.Input
	switch v.Event {
	case wire.EventReady:
		return wire.AppendReady(nil, wire.Ready{
			Connection: in.Connection, Resume: in.Resume, User: in.User,
			Lease: millis(in.LeaseMs), Beat: millis(in.BeatMs), Now: in.Now,
		})
	case wire.EventSnapshot, wire.EventMode:
		if in.Estimate {
			return wire.AppendEstimates(nil, in.Room, in.Epoch, in.Version, in.Count, in.StandardError)
		}
		if in.Mode == wire.ModeCounts {
			return wire.AppendCounts(nil, in.Room, in.Epoch, in.Version, in.Count, members(in.Sample), millis(in.SettlingMs))
		}
		return wire.AppendSnapshot(nil, in.Room, in.Epoch, in.Version, in.Count, members(in.Members), millis(in.SettlingMs))
	case wire.EventResumed:
		return wire.AppendResumed(nil, in.Room, in.Epoch, in.Version)
	case wire.EventDiff:
		return wire.AppendDiff(nil, in.Room, in.diff())
	case wire.EventCount:
		if in.Estimate {
			return wire.AppendEstimate(nil, in.Room, in.Version, in.Count, in.StandardError)
		}
		return wire.AppendCount(nil, in.Room, in.Version, in.Count, nil)
	case wire.EventEnded:
		reason, _ := rollcall.ParseReason(in.Reason)
		return wire.AppendEnded(nil, in.Room, reason)
	case wire.EventBeat:
		return wire.AppendBeat(nil, in.N)
	case wire.EventHealth:
		return wire.AppendHealth(nil, in.Degraded, millis(in.StaleMs))
	case wire.EventExpiring:
		return wire.AppendExpiring(nil, millis(in.InMs))
	case wire.EventBye:
		if in.ReconnectMs == nil {
			return wire.AppendBye(nil, wire.ByeReason(in.Reason), wire.DontReconnect)
		}
		return wire.AppendBye(nil, wire.ByeReason(in.Reason), millis(*in.ReconnectMs))
	case wire.EventSignals:
		return wire.AppendSignals(nil, in.Room, in.signals(), in.Full)
	case wire.EventUsers:
		return wire.AppendUserChanges(nil, in.userChanges())
	case wire.EventContacts:
		return wire.AppendContacts(nil, &wire.Contacts{Room: in.Room, Present: members(in.Contacts), Absent: in.Absent})
	case wire.EventPage:
		d := in.diff()
		return wire.AppendPage(nil, in.Room, in.Page, wire.AppendPageState(nil, &wire.PageState{
			Members: members(in.Members), Join: d.Join, Update: d.Update, Leave: d.Leave, NextCursor: in.NextCursor, Count: in.Count,
		}))
	case wire.EventOK:
		return wire.AppendOK(nil, json.RawMessage(in.ID), []byte(in.Fields))
	case wire.EventError:
		return wire.AppendError(nil, json.RawMessage(in.ID), &rollcall.Error{Code: in.Code, Detail: in.Message, Limit: in.Limit})
	case wire.EventPong:
		return wire.AppendPong(nil, json.RawMessage(in.ID))
	}
	t.Fatalf("no encoder for %s", v.Event)
	return nil
}

// reencode writes what DecodeEvent read.
func reencode(t *testing.T, event wire.Event, decoded any) []byte {
	switch d := decoded.(type) {
	case *wire.Ready:
		return wire.AppendReady(nil, *d)
	case *wire.Snapshot:
		if d.Estimate {
			return wire.AppendEstimates(nil, d.Room, d.Epoch, d.Version, d.Count, d.StandardError)
		}
		if d.Mode == wire.ModeCounts {
			return wire.AppendCounts(nil, d.Room, d.Epoch, d.Version, d.Count, d.Sample, d.Settling)
		}
		return wire.AppendSnapshot(nil, d.Room, d.Epoch, d.Version, d.Count, d.Members, d.Settling)
	case *wire.Resumed:
		return wire.AppendResumed(nil, d.Room, d.Epoch, d.Version)
	case *wire.RoomDiff:
		return wire.AppendDiff(nil, d.Room, &d.Diff)
	case *wire.Count:
		if d.Estimate {
			return wire.AppendEstimate(nil, d.Room, d.Version, d.Count, d.StandardError)
		}
		return wire.AppendCount(nil, d.Room, d.Version, d.Count, nil)
	case *wire.EndedLease:
		return wire.AppendEnded(nil, d.Room, d.Reason)
	case *wire.ServerBeat:
		return wire.AppendBeat(nil, d.N)
	case *wire.Health:
		return wire.AppendHealth(nil, d.Degraded, d.Stale)
	case *wire.Expiring:
		return wire.AppendExpiring(nil, d.In)
	case *wire.Bye:
		return wire.AppendBye(nil, d.Reason, d.Reconnect)
	case *wire.Signals:
		return wire.AppendSignals(nil, d.Room, d.Signals, d.Full)
	case *wire.UserChanges:
		return wire.AppendUserChanges(nil, d)
	case *wire.Contacts:
		return wire.AppendContacts(nil, d)
	case *wire.Page:
		return wire.AppendPage(nil, d.Room, d.Name, wire.AppendPageState(nil, &d.PageState))
	case *wire.OK:
		return d.Fields
	case *wire.Failure:
		return wire.AppendError(nil, d.ID, &d.Err)
	case *wire.Pong:
		return wire.AppendPong(nil, d.ID)
	}
	t.Fatalf("%s decoded to %T", event, decoded)
	return nil
}

func TestServerEventsAreTheseBytes(t *testing.T) {
	var list []eventVector
	readVectors(t, "events.json", &list)
	for i := range list {
		v := &list[i]
		t.Run(v.Name, func(t *testing.T) {
			body := v.encode(t)
			sse := wire.AppendSSE(nil, v.Event, body)
			frame := wire.AppendWS(nil, v.Event, body)
			header, payload := cutFrame(t, frame)
			if *update {
				v.Body, v.SSE, v.WS, v.WSHeader = string(body), string(sse), string(payload), hex.EncodeToString(header)
			}
			for _, c := range []struct{ what, got, want string }{
				{"body", string(body), v.Body},
				{"sse", string(sse), v.SSE},
				{"ws", string(payload), v.WS},
				{"ws header", hex.EncodeToString(header), v.WSHeader},
			} {
				if c.got != c.want {
					t.Errorf("%s:\n got %q\nwant %q", c.what, c.got, c.want)
				}
			}
			checkOneSSEEvent(t, sse, v.Event, body)
			decoded, err := wire.DecodeEvent(v.Event, body)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if again := reencode(t, v.Event, decoded); string(again) != v.Body {
				t.Errorf("decoded and encoded:\n got %q\nwant %q", again, v.Body)
			}
		})
	}
	if *update {
		writeVectors(t, "events.json", list)
	}
}

// checkOneSSEEvent reads sse as the standard says, and compares.
func checkOneSSEEvent(t *testing.T, sse []byte, event wire.Event, body []byte) {
	t.Helper()
	text := strings.ReplaceAll(strings.ReplaceAll(string(sse), "\r\n", "\n"), "\r", "\n")
	want := []string{"event: " + string(event), "data: " + string(body), "", ""}
	if got := strings.Split(text, "\n"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("lines of the event: got %q, want %q", got, want)
	}
	if !json.Valid(body) {
		t.Errorf("body is not JSON: %q", body)
	}
}

// cutFrame cuts one whole unmasked text frame.
func cutFrame(t *testing.T, frame []byte) (header, payload []byte) {
	t.Helper()
	size, n := 2, int(frame[1])
	switch n {
	case 126:
		size, n = 4, int(frame[2])<<8|int(frame[3])
	case 127:
		size, n = 10, 0
		for _, c := range frame[2:10] {
			n = n<<8 | int(c)
		}
	}
	if frame[0] != 0x81 || len(frame) != size+n {
		t.Fatalf("frame of %d bytes: first byte %#x, length %d, header %d bytes", len(frame), frame[0], n, size)
	}
	return frame[:size], frame[size:]
}
