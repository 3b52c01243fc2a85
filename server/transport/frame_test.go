package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const testMax = 70000

type conformance struct {
	name string
	sent string
	want []string
	end  End // without Reason where it is ours
}

func bye(code int) End { return End{Kind: Closed, Code: code} }

func broken(code int) End { return End{Kind: Violation, Code: code} }

// conformanceTable is what RFC 6455 asks of a server that reads.
func conformanceTable() []conformance {
	normal := closeFrame(1000, "")
	long, huge := strings.Repeat("x", 126), strings.Repeat("y", 65536)
	table := []conformance{
		{"text", text("hello") + normal, []string{"message hello"}, bye(1000)},
		{"empty text", text("") + normal, []string{"message "}, bye(1000)},
		{"text of 125", text(long[:125]) + normal, []string{"message " + long[:125]}, bye(1000)},
		{"text of 126", text(long) + normal, []string{"message " + long}, bye(1000)},
		{"text of 65536", text(huge) + normal, []string{"message " + huge}, bye(1000)},
		{"length longer than needed, 16 bits", frameAs(fin|opText, "hi", len16) + normal, []string{"message hi"}, bye(1000)},
		{"length longer than needed, 64 bits", frameAs(fin|opText, "hi", len64) + normal, []string{"message hi"}, bye(1000)},
		{"several in one segment", text("a") + text("b") + frame(fin|opPing, "p") + text("c") + normal,
			[]string{"message a", "message b", "ping p", "message c"}, bye(1000)},

		{"two fragments", frame(opText, "he") + frame(fin|opCont, "llo") + normal, []string{"message hello"}, bye(1000)},
		{"five fragments", frame(opText, "h") + frame(opCont, "e") + frame(opCont, "l") + frame(opCont, "l") + frame(fin|opCont, "o") + normal,
			[]string{"message hello"}, bye(1000)},
		{"empty fragments", frame(opText, "") + frame(opCont, "") + frame(opCont, "a") + frame(fin|opCont, "") + normal,
			[]string{"message a"}, bye(1000)},
		{"all fragments empty", frame(opText, "") + frame(opCont, "") + frame(fin|opCont, "") + normal, []string{"message "}, bye(1000)},
		{"control frames between fragments", frame(opText, "a") + frame(fin|opPing, "1") + frame(opCont, "b") + frame(fin|opPong, "2") + frame(fin|opCont, "c") + normal,
			[]string{"ping 1", "pong 2", "message abc"}, bye(1000)},
		{"message after fragments", frame(opText, "a") + frame(fin|opCont, "b") + text("c") + normal, []string{"message ab", "message c"}, bye(1000)},
		{"close between fragments", frame(opText, "a") + normal, nil, bye(1000)},
		{"continuation without a beginning", frame(fin|opCont, "a"), nil, broken(1002)},
		{"unfinished continuation without a beginning", frame(opCont, "a"), nil, broken(1002)},
		{"continuation after the end", frame(opText, "a") + frame(fin|opCont, "b") + frame(fin|opCont, "c"), []string{"message ab"}, broken(1002)},
		{"text inside a message", frame(opText, "a") + text("b"), nil, broken(1002)},
		{"binary inside a message", frame(opText, "a") + frame(fin|opBin, "b"), nil, broken(1002)},

		{"ping", frame(fin|opPing, "") + frame(fin|opPing, "payload") + normal, []string{"ping ", "ping payload"}, bye(1000)},
		{"pong", frame(fin|opPong, "") + frame(fin|opPong, "payload") + normal, []string{"pong ", "pong payload"}, bye(1000)},
		{"ping of 125", frame(fin|opPing, long[:125]) + normal, []string{"ping " + long[:125]}, bye(1000)},
		{"ping of 126", frame(fin|opPing, long), nil, broken(1002)},
		{"pong of 126", frame(fin|opPong, long), nil, broken(1002)},
		{"close of 126", frame(fin|opClose, closing(1000, long[:124])), nil, broken(1002)},
		{"fragmented ping", frame(opPing, "a") + frame(fin|opCont, "b"), nil, broken(1002)},
		{"fragmented pong", frame(opPong, "a"), nil, broken(1002)},
		{"fragmented close", frame(opClose, closing(1000, "")), nil, broken(1002)},
		{"ping bytes that are not UTF-8", frame(fin|opPing, "\xff\x00") + normal, []string{"ping \xff\x00"}, bye(1000)},

		{"text without mask", frameAs(fin|opText, "a", noMask), nil, broken(1002)},
		{"ping without mask", frameAs(fin|opPing, "a", noMask), nil, broken(1002)},
		{"close without mask", frameAs(fin|opClose, "", noMask), nil, broken(1002)},
		{"first bit reserved (compression)", frame(fin|rsv1|opText, "a"), nil, broken(1002)},
		{"second bit reserved", frame(fin|rsv2|opText, "a"), nil, broken(1002)},
		{"third bit reserved", frame(fin|rsv3|opText, "a"), nil, broken(1002)},
		{"bit reserved on a ping", frame(fin|rsv1|opPing, "a"), nil, broken(1002)},
		{"bit reserved on a continuation", frame(opText, "a") + frame(fin|rsv1|opCont, "a"), nil, broken(1002)},
		{"high bit of a long length", "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x01mask", nil, broken(1002)},
		{"all bits of a long length", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xffmask", nil, broken(1002)},
		{"binary", frame(fin|opBin, "a"), nil, broken(1003)},
		{"binary fragment", frame(opBin, "a"), nil, broken(1003)},

		{"as big as allowed", text(strings.Repeat("z", testMax)) + normal, []string{"message " + strings.Repeat("z", testMax)}, bye(1000)},
		{"one byte over", text(strings.Repeat("z", testMax+1)), nil, broken(1009)},
		{"too big by its header alone", "\x81\xff\x00\x00\x00\x01\x00\x00\x00\x00mask", nil, broken(1009)},
		{"too big by its header alone, all that is left of 63 bits", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xffmask", nil, broken(1009)},
		{"as big as allowed in fragments", frame(opText, huge) + frame(fin|opCont, huge[:testMax-65536]) + normal, []string{"message " + huge + huge[:testMax-65536]}, bye(1000)},
		{"one byte over in fragments", frame(opText, huge) + frame(fin|opCont, huge[:testMax-65536+1]), nil, broken(1009)},
		{"two bytes to a character, one byte over", text(strings.Repeat("é", testMax/2) + "z"), nil, broken(1009)},

		{"UTF-8", text("κόσμε \U0001f600") + normal, []string{"message κόσμε \U0001f600"}, bye(1000)},
		{"UTF-8 cut over fragments", frame(opText, "a\xf0\x9f") + frame(opCont, "\x98") + frame(fin|opCont, "\x80b") + normal, []string{"message a\U0001f600b"}, bye(1000)},
		{"UTF-8 cut over a ping", frame(opText, "\xce") + frame(fin|opPing, "") + frame(fin|opCont, "\xba") + normal, []string{"ping ", "message κ"}, bye(1000)},
		{"overlong NUL", text("\xc0\x80"), nil, broken(1007)},
		{"half a surrogate pair", text("\xed\xa0\x80"), nil, broken(1007)},
		{"above the last code point", text("\xf4\x90\x80\x80"), nil, broken(1007)},
		{"lone continuation byte", text("a\x80"), nil, broken(1007)},
		{"code point without its end", text("a\xf0\x9f\x98"), nil, broken(1007)},
		{"code point without its end, in fragments", frame(opText, "a\xf0\x9f") + frame(fin|opCont, "\x98"), nil, broken(1007)},
		{"bad UTF-8 over fragments", frame(opText, "\xc3") + frame(fin|opCont, "("), nil, broken(1007)},
		{"good messages before a bad one", text("a") + text("\xff"), []string{"message a"}, broken(1007)},

		{"close without a code", frame(fin|opClose, ""), nil, bye(1005)},
		{"close of one byte", frame(fin|opClose, "\x03"), nil, broken(1002)},
		{"close with a reason", closeFrame(4000, "fin ✓"), nil, End{Closed, 4000, "fin ✓", nil}},
		{"close with the longest reason", closeFrame(1001, long[:123]), nil, End{Closed, 1001, long[:123], nil}},
		{"close with a reason that is not UTF-8", closeFrame(1000, "\xff"), nil, broken(1007)},
		{"nothing counts after a close", normal + text("a") + "\xff\xff", nil, bye(1000)},
	}
	for r := byte(0x3); r <= 0x7; r++ {
		table = append(table, conformance{fmt.Sprintf("reserved opcode %#x", r), frame(fin|r, "a"), nil, broken(1002)})
	}
	for r := byte(0xb); r <= 0xf; r++ {
		table = append(table, conformance{fmt.Sprintf("reserved opcode %#x", r), frame(fin|r, "a"), nil, broken(1002)})
	}
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		table = append(table, conformance{fmt.Sprintf("close code %d", code), closeFrame(code, ""), nil, bye(code)})
	}
	for _, code := range []int{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		table = append(table, conformance{fmt.Sprintf("close code %d", code), closeFrame(code, ""), nil, broken(1002)})
	}
	return table
}

var ignoreOurReason = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Reason" }, cmp.Comparer(func(a, b string) bool {
	return a == b || a == "" || b == ""
}))

// run feeds the parser of a WebSocket with the pieces, as Read does.
func run(pieces ...string) ([]string, End) {
	c := &WebSocket{max: testMax}
	r := newRecord()
	var end End
	for _, p := range pieces {
		b := []byte(p)
		if len(b) > 0 && !c.control(b, r) {
			if c.feed(b, r, &end); end.Kind != 0 {
				break
			}
		}
		for i := range b {
			b[i] = 0xee // what is kept must have been copied
		}
	}
	return r.events, end
}

func TestConformance(t *testing.T) {
	for _, c := range conformanceTable() {
		check := func(how string, events []string, end End) {
			t.Helper()
			if d := cmp.Diff(c.want, events, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: %s: events (-want +got)\n%s", c.name, how, short(d))
			}
			if d := cmp.Diff(c.end, end, ignoreOurReason); d != "" {
				t.Errorf("%s: %s: end (-want +got)\n%s", c.name, how, d)
			}
		}
		events, end := run(c.sent)
		check("whole", events, end)
		if end.Kind == Violation && end.Reason == "" {
			t.Errorf("%s: a violation without a reason", c.name)
		}

		step := max(1, len(c.sent)/300)
		for i := 1; i < len(c.sent); i += step {
			events, end := run(c.sent[:i], c.sent[i:])
			check(fmt.Sprintf("cut at %d", i), events, end)
		}
		var bytes []string
		for i := range len(c.sent) {
			bytes = append(bytes, c.sent[i:i+1])
		}
		events, end = run(bytes...)
		check("in bytes", events, end)
	}
}

// The same over a real connection, in one piece with the request and behind it.
func TestConformanceOverTCP(t *testing.T) {
	for _, c := range conformanceTable() {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/behind=%v", c.name, behind), func(t *testing.T) {
				var p *pair
				if behind {
					p = open(t, WebSocketOptions{MaxMessage: testMax}, c.sent)
				} else {
					p = open(t, WebSocketOptions{MaxMessage: testMax}, "")
					p.send(t, c.sent)
				}
				end := get(t, p.end)
				if d := cmp.Diff(c.want, p.all(), cmpopts.EquateEmpty()); d != "" {
					t.Errorf("events (-want +got)\n%s", short(d))
				}
				if d := cmp.Diff(c.end, end, ignoreOurReason); d != "" {
					t.Errorf("end (-want +got)\n%s", d)
				}
			})
		}
	}
}

// A client that sends one byte a segment costs no more than its message.
func TestBytesOneByOneOverTCP(t *testing.T) {
	p := open(t, WebSocketOptions{}, "")
	sent := frame(opText, "he") + frame(fin|opPing, "now") + frame(fin|opCont, "llo") + frame(fin|opPong, "") + closeFrame(4001, "bye")
	for i := range len(sent) {
		p.send(t, sent[i:i+1])
	}
	end := get(t, p.end)
	if d := cmp.Diff([]string{"ping now", "message hello", "pong "}, p.all()); d != "" {
		t.Errorf("events (-want +got)\n%s", d)
	}
	if want := (End{Closed, 4001, "bye", nil}); end != want {
		t.Errorf("end = %v, want %v", end, want)
	}
}

// The length that a client claims is not believed: nothing near it is allocated
// before the bytes come.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	c := &WebSocket{max: 64 << 20}
	r := newRecord()
	var end End
	c.feed([]byte("\x81\xff\x00\x00\x00\x00\x03\xff\xff\xffmaskx"), r, &end)
	if c.parser == nil || cap(c.parser.msg) > 8192 || end.Kind != 0 {
		t.Fatalf("parser %+v, end %v", c.parser, end)
	}
}

// Between two messages a connection owns no parser, in the middle of one it does.
func TestIdleConnectionOwnsNoParser(t *testing.T) {
	c := &WebSocket{max: testMax}
	r := newRecord()
	var end End
	for _, step := range []struct {
		sent string
		owns bool
	}{
		{text("a"), false},
		{"\x81", true},
		{frame(fin|opText, "bc")[1:], false},
		{frame(opText, "d"), true},
		{frame(fin|opPing, ""), true},
		{frame(fin|opCont, "e"), false},
	} {
		if b := []byte(step.sent); !c.control(b, r) {
			c.feed(b, r, &end)
		}
		if got := c.parser != nil; got != step.owns {
			t.Errorf("after %q: owns a parser: %v, want %v", step.sent, got, step.owns)
		}
	}
	if d := cmp.Diff([]string{"message a", "message bc", "ping ", "message de"}, r.all()); d != "" {
		t.Error(d)
	}
}
