package wire_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"rollcall/wire"
)

// example is one fenced block of PROTOCOL.md that shows bytes.
type example struct {
	line int
	kind string // after the fence: "json event=diff"
	text string
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func examples(t *testing.T) []example {
	t.Helper()
	raw, err := os.ReadFile("../spec/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	var list []example
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		list = append(list, example{1 + strings.Count(text[:m[0]], "\n"), text[m[2]:m[3]], text[m[4]:m[5]]})
	}
	return list
}

// known is every text of the vectors, by what it is.
func known(t *testing.T) map[string]map[string]bool {
	t.Helper()
	k := map[string]map[string]bool{}
	add := func(kind, text string) {
		if k[kind] == nil {
			k[kind] = map[string]bool{}
		}
		k[kind][text] = true
	}
	var events []eventVector
	readVectors(t, "events.json", &events)
	for _, v := range events {
		add("json event="+string(v.Event), v.Body)
		add("json ws", v.WS)
		add("sse", strings.TrimSuffix(v.SSE, "\n\n"))
	}
	var messages []messageVector
	readVectors(t, "messages.json", &messages)
	for _, v := range messages {
		add("json message", v.Frame)
	}
	var values []valueVector
	readVectors(t, "values.json", &values)
	for _, v := range values {
		if v.Error == nil {
			add("json value", v.Raw)
		}
	}
	var list []answerVector
	readVectors(t, "answers.json", &list)
	for _, v := range list {
		add("json answer="+v.Answer, v.Body)
	}
	var backend []backendVector
	readVectors(t, "backend.json", &backend)
	for _, v := range backend {
		add("json backend="+string(v.Event), v.Body)
	}
	return k
}

func TestExamplesOfTheProtocolAreRealBytes(t *testing.T) {
	vectors := known(t)
	n := 0
	for _, e := range examples(t) {
		switch {
		case e.kind == "":
			continue // requests and file names; no bytes of ours
		case e.kind == "sse":
			for _, event := range strings.Split(strings.TrimSpace(e.text), "\n\n") {
				n++
				if strings.HasPrefix(event, "event: ") && !vectors["sse"][event] {
					t.Errorf("line %d: no vector has the event %q", e.line, event)
				}
			}
		case strings.HasPrefix(e.kind, "json request="):
			n++
			read := bodyReaders[strings.TrimPrefix(e.kind, "json request=")]
			if read == nil {
				t.Errorf("line %d: %s is not read by anything", e.line, e.kind)
			} else if _, err := read([]byte(e.text)); err != nil {
				t.Errorf("line %d: %v", e.line, err)
			}
		case vectors[e.kind] == nil:
			t.Errorf("line %d: no vectors of %q", e.line, e.kind)
		default:
			for _, line := range strings.Split(strings.TrimSpace(e.text), "\n") {
				n++
				if !vectors[e.kind][line] {
					t.Errorf("line %d: no vector has %s", e.line, line)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("%d examples were found; the page has more", n)
	}
}

// TestTheProtocolNamesEverything keeps the page complete.
func TestTheProtocolNamesEverything(t *testing.T) {
	raw, err := os.ReadFile("../spec/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, word := range []string{
		"ready", "snapshot", "resumed", "diff", "count", "mode", "ended", "beat", "health", "expiring", "bye", "signals", "contacts", "users", "page",
		"occupied", "vacated", "join", "leave", "reset", "opened", "gap", "memory",
		"ok", "error", "pong", "draining", "expired", "kicked", "revoked", "replaced", "token", "slow", "busy", "rotate", "left", "closed",
		wire.MessageAuth, wire.MessageJoin, wire.MessageLeave, wire.MessageSet, wire.MessageSnapshot, wire.MessagePing, "signal", "closePage",
		"bad_request", "unauthorized", "forbidden", "not_found", "conflict", "gone", "too_large", "rate_limited", "unavailable",
	} {
		if !strings.Contains(page, "`"+word+"`") {
			t.Errorf("PROTOCOL.md does not name %s", word)
		}
	}
	for _, code := range []string{"4400", "4401", "4403", "4409", "4413", "4500", "4503", "4504", "4508", "4529"} {
		if !strings.Contains(page, code) {
			t.Errorf("PROTOCOL.md does not name close code %s", code)
		}
	}
}
