package doctor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// token is what a token says by itself, unverified: the server judges it.
type token struct {
	text    string
	key     bool // sk_
	read    bool // its claims could be read
	sub     string
	exp     time.Time
	hidden  bool
	rooms   []grant
	refused *answer // what the server answered, if it did not take it
}

type grant struct {
	pattern string
	can     []string
}

func (g grant) present() bool { return len(g.can) == 0 || slices.Contains(g.can, "presence") }

func readToken(text string) token {
	t := token{text: text, key: strings.HasPrefix(text, "sk_")}
	parts := strings.Split(text, ".")
	if t.key || len(parts) != 3 {
		return t
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t
	}
	var claims struct {
		Sub    string
		Exp    float64
		Hidden bool
		Rooms  json.RawMessage
	}
	if json.Unmarshal(raw, &claims) != nil {
		return t
	}
	t.read, t.sub, t.hidden = true, claims.Sub, claims.Hidden
	if claims.Exp > 0 {
		t.exp = time.Unix(int64(claims.Exp), 0)
	}
	var list []string
	var table map[string][]string
	if json.Unmarshal(claims.Rooms, &list) == nil {
		for _, pattern := range list {
			t.rooms = append(t.rooms, grant{pattern: pattern})
		}
	} else if json.Unmarshal(claims.Rooms, &table) == nil {
		for _, pattern := range slices.Sorted(maps.Keys(table)) {
			t.rooms = append(t.rooms, grant{pattern, table[pattern]})
		}
	}
	return t
}

// madeUpRoom is a room where nobody is that the token allows, if there is one;
// else the first that it allows.
func (t *token) madeUpRoom() string {
	name := "rollcall-doctor-" + random()
	if t.text == "" || t.key {
		return name
	}
	for _, wantPresence := range []bool{true, false} {
		for _, g := range t.rooms {
			if beginning, open := strings.CutSuffix(g.pattern, "*"); open && !strings.HasSuffix(beginning, `\`) && g.present() == wantPresence {
				return beginning + name
			}
		}
	}
	for _, g := range t.rooms {
		return strings.ReplaceAll(g.pattern, `\*`, "*")
	}
	return name
}

// allows tells in words what the token allows.
func (t *token) allows() string {
	if len(t.rooms) == 0 {
		return "no room"
	}
	words := make([]string, 0, len(t.rooms))
	for _, g := range t.rooms {
		what := "presence"
		if len(g.can) > 0 {
			what = strings.Join(g.can, ", ")
		}
		words = append(words, fmt.Sprintf("%s in %q", what, g.pattern))
	}
	return strings.Join(words, "; ")
}

// soon is how little a token may have to live before that is told.
const soon = time.Minute

func (v *visit) checkToken() Finding {
	const name = "token"
	t := &v.token
	left := time.Until(t.exp)
	switch {
	case t.text == "" && v.let:
		return advice(name, "for a server that others reach, start it without --guests", "none was needed: guests are let in as whoever they say they are")
	case t.text == "":
		return advice(name, "give --token, or ROLLCALL_TOKEN; `rollcall token` makes one. Without it streams are not looked at", "none was given")
	case t.refused != nil && t.refused.status == http.StatusForbidden:
		return wrong(name, "name a room that it allows with --room", "the server takes it, and not for the room %q: %s", v.room, t.refused.detail())
	case t.refused != nil && t.read && !t.exp.IsZero() && left < 0:
		return wrong(name, "get a new one", "it ended %s ago: %s", short(-left), t.refused.detail())
	case t.refused != nil && t.read && v.clock && !t.exp.IsZero() && v.ahead > left:
		return wrong(name, "set the clocks by NTP", "by our clock it has %s to live, and by the server's it has ended: %s", short(left), t.refused.detail())
	case t.refused != nil:
		return wrong(name, "is it signed with the secret of this server, and does it have sub and exp?", "the server refuses it: %s", t.refused.detail())
	case t.key:
		return ok(name, "a key of a back end, and the server knows it")
	case !t.read:
		return ok(name, "the server takes it")
	}
	seen := fmt.Sprintf("%q, for another %s: %s", t.sub, short(left), t.allows())
	if t.hidden {
		seen += "; hidden: it sees and is not seen"
	}
	if left < soon {
		return advice(name, "clients need a new one before its end, or are sent away", "%s", seen)
	}
	return ok(name, "%s", seen)
}
