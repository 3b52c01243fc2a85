package wire_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rollcall"
	"rollcall/wire"
)

func TestTextFrameHeaderAtEveryBoundary(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 70000} {
		const around = len(`{"type":"ok","a":""}`)
		if n < around {
			continue
		}
		body := []byte(`{"a":"` + strings.Repeat("x", n-around) + `"}`)
		header, payload := cutFrame(t, wire.AppendWS(nil, wire.EventOK, body))
		if len(payload) != n {
			t.Errorf("payload of %d bytes, want %d", len(payload), n)
		}
		want := 2
		if n > 65535 {
			want = 10
		} else if n > 125 {
			want = 4
		}
		if len(header) != want {
			t.Errorf("payload of %d bytes: header of %d, want %d", n, len(header), want)
		}
	}
}

func TestEmptyBodyIsAnObject(t *testing.T) {
	for _, body := range []string{"", "{}"} {
		if got := string(wire.AppendSSE(nil, wire.EventPong, []byte(body))); got != "event: pong\ndata: {}\n\n" {
			t.Errorf("sse of %q: got %q", body, got)
		}
		if _, got := cutFrame(t, wire.AppendWS(nil, wire.EventPong, []byte(body))); string(got) != `{"type":"pong"}` {
			t.Errorf("ws of %q: got %q", body, got)
		}
	}
}

func TestFramesAreAppended(t *testing.T) {
	b := wire.AppendSSE([]byte("retry: 1\n\n"), wire.EventBeat, wire.AppendBeat(nil, 1))
	b = wire.AppendSSEID(b, "abc")
	want := "retry: 1\n\nevent: beat\ndata: {\"n\":1}\n\nid: abc\n\n"
	if string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
}

// TestNoBodyEndsALineOfSSE is about what is below the encoders: even a body that somebody
// laid out on several lines is one line of data, and the same JSON.
func TestNoBodyEndsALineOfSSE(t *testing.T) {
	body := []byte("{\n  \"a\":\r\n 1,\r\"b\": 2\n}")
	before := string(body)
	got := wire.AppendSSE(nil, wire.EventOK, body)
	if string(body) != before {
		t.Error("the caller's body was written to")
	}
	if n := strings.Count(strings.ReplaceAll(string(got), "\r", "\n"), "\n"); n != 3 {
		t.Errorf("%d line ends in %q, want 3", n, got)
	}
	var v map[string]int
	data := strings.TrimPrefix(strings.Split(string(got), "\n")[1], "data: ")
	if err := json.Unmarshal([]byte(data), &v); err != nil || v["a"] != 1 || v["b"] != 2 {
		t.Errorf("data %q: %v, %v", data, v, err)
	}
}

func TestSSEIDHoldsOnlyPrintableASCII(t *testing.T) {
	if got := string(wire.AppendSSEID(nil, "a\r\nb\x00\xff\u00e9c\x7f d")); got != "id: abc d\n\n" {
		t.Errorf("got %q", got)
	}
}

func TestRetryAndComment(t *testing.T) {
	got := string(wire.AppendComment(wire.AppendRetry(nil, 1234567*time.Microsecond)))
	if want := "retry: 1235\n\n: hb\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestControlFramesFit(t *testing.T) {
	long := []byte(strings.Repeat("x", 200))
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"ping":      {wire.AppendWSPing(nil, []byte("42")), "\x89\x0242"},
		"pong":      {wire.AppendWSPong(nil, nil), "\x8a\x00"},
		"long ping": {wire.AppendWSPing(nil, long), "\x89\x7d" + string(long[:125])},
		"close":     {wire.AppendWSClose(nil, wire.CloseDraining, "draining"), "\x88\x0a\x11\x97draining"},
		"no reason": {wire.AppendWSClose(nil, wire.CloseNormal, ""), "\x88\x02\x03\xe8"},
		"not UTF-8": {wire.AppendWSClose(nil, wire.CloseNormal, "\xff"), "\x88\x02\x03\xe8"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
	for n := 118; n < 130; n++ {
		frame := wire.AppendWSClose(nil, wire.CloseSlow, strings.Repeat("x", n-118)+strings.Repeat("\u00e9", 60))
		if len(frame) > 127 || int(frame[1]) != len(frame)-2 || !utf8.Valid(frame[4:]) {
			t.Errorf("close with a long reason: %q", frame)
		}
		if code := binary.BigEndian.Uint16(frame[2:]); code != 4508 {
			t.Errorf("close code %d", code)
		}
	}
}

func TestCloseCodesSayWhetherToReturn(t *testing.T) {
	for code, want := range map[wire.CloseCode]bool{
		wire.CloseNormal: true, wire.CloseGoingAway: true, 1006: true, wire.CloseProtocol: false, wire.CloseInvalid: false, wire.CloseTooBig: false,
		wire.CloseBadMessage: false, wire.CloseToken: false, wire.CloseForbidden: false, wire.CloseReplaced: false, wire.CloseOversized: false,
		wire.CloseInternal: true, wire.CloseDraining: true, wire.CloseExpired: true, wire.CloseSlow: true, wire.CloseTooMany: true,
	} {
		if got := code.Return(); got != want {
			t.Errorf("%d: got %v, want %v", code, got, want)
		}
	}
}

func TestNoEncoderWritesAnInvalidByte(t *testing.T) {
	for id, want := range map[string]string{
		"a\xffb":             "a\uFFFDb",
		"\xc0\x80":           "\uFFFD\uFFFD",
		"\xed\xa0\xbd":       "\uFFFD\uFFFD\uFFFD",
		"caf\xc3":            "caf\uFFFD",
		"\xf0\x9f\x8e":       "\uFFFD\uFFFD\uFFFD",
		"\uFFFD":             "\uFFFD",
		"\u2028\u2029\u202a": "\u2028\u2029\u202a",
	} {
		body := wire.AppendEnded(nil, rollcall.RoomID(id), rollcall.ReasonLeft)
		var v struct{ Room string }
		if err := json.Unmarshal(body, &v); err != nil || v.Room != want || !utf8.Valid(body) {
			t.Errorf("%q: got %q in %q, %v", id, v.Room, body, err)
		}
		if strings.ContainsAny(string(body), "\u2028\u2029") {
			t.Errorf("%q: a line separator stands bare in %q", id, body)
		}
	}
}

func TestEveryCharacterSurvivesAString(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x3000; r++ {
		all.WriteRune(r)
	}
	body := wire.AppendError(nil, nil, &rollcall.Error{Code: "x", Detail: all.String()})
	checkCompact(t, body)
	var v struct{ Message string }
	if err := json.Unmarshal(body, &v); err != nil || v.Message != all.String() {
		t.Errorf("the string came back changed: %v", err)
	}
}

// TestWhatIsNoObjectIsWrittenAsOne: values come checked; one that came in by
// another way must not break a room.
func TestWhatIsNoObjectIsWrittenAsOne(t *testing.T) {
	for raw, want := range map[string]string{
		"": `{}`, "null": `{}`, "[]": `{}`, "{": `{}`, `"x"`: `{}`, "{}": `{}`, `{"a":1}`: `{"a":1}`, "{\"a\":\"\xff\"}": "{\"a\":\"\uFFFD\"}",
	} {
		m := &rollcall.Member{User: "u", Info: json.RawMessage(raw), Status: rollcall.StatusIdle, Connections: 1}
		got := string(wire.AppendMember(nil, m))
		if want := `{"user":"u","info":` + want + `,"status":"idle","connections":1,"since":0,"data":{}}`; got != want {
			t.Errorf("info %q:\n got %s\nwant %s", raw, got, want)
		}
	}
}

func TestDurationsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", -5: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", time.Hour: "3600000",
	} {
		if got := string(wire.AppendExpiring(nil, d)); got != fmt.Sprintf(`{"inMs":%s}`, want) {
			t.Errorf("%v: got %s", d, got)
		}
	}
}

func TestEncodersDoNotAllocate(t *testing.T) {
	d := &rollcall.Diff{Prev: 1, Version: 2, Count: 2, Join: []*rollcall.Member{someMember(1)}, Leave: []rollcall.Leave{{User: "jos\u00e9\n", Reason: rollcall.ReasonLeft}}}
	buf, out := make([]byte, 0, 4096), make([]byte, 0, 4096)
	n := testing.AllocsPerRun(100, func() {
		buf = wire.AppendDiff(buf[:0], "doc/42", d)
		out = wire.AppendWS(out[:0], wire.EventDiff, buf)
		out = wire.AppendSSE(out, wire.EventDiff, buf)
		out = wire.AppendSSEID(out, "x")
		buf = wire.AppendSnapshot(buf[:0], "doc/42", "e1", 2, 1, d.Join, time.Second)
		buf = wire.AppendReady(buf, wire.Ready{Connection: "c", User: "u"})
		buf = wire.AppendBye(buf, wire.ByeSlow, time.Second)
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
