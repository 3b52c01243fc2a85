package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/client"
)

type watchCommand struct {
	remote
	Room string `arg:"" help:"The room."`
}

// Run watches a room without being in it.
func (w *watchCommand) Run(kctx *kong.Context, con *console) error {
	return w.follow(kctx, con, w.Room, client.Options{}, client.EnterOptions{Observe: true})
}

type joinCommand struct {
	remote
	Room   string `arg:"" help:"The room."`
	As     string `placeholder:"USER" help:"Be this guest. Random if not given; with --token, the token says who you are."`
	Name   string `placeholder:"NAME" help:"Name of the guest."`
	Status string `enum:"active,idle,away" default:"active" help:"active, idle or away."`
	Data   string `placeholder:"JSON" help:"JSON object to show to the others."`
}

// Run is in a room until interrupted, and then leaves it.
func (j *joinCommand) Run(kctx *kong.Context, con *console) error {
	token := j.Token != "" || j.TokenFile != ""
	switch {
	case token && (j.As != "" || j.Name != ""):
		return wrong("leave out --as and --name, or the token", "a token says who you are, and so do --as and --name")
	case j.As != "" && !rollcall.ValidID(j.As):
		return wrong("a user id is 1 to 256 bytes of UTF-8, neither . nor ..", "--as %q cannot be a user", j.As)
	}
	var data json.RawMessage
	if j.Data != "" {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(j.Data), &object); err != nil || object == nil {
			return wrong(`--data '{"mood":"fine"}'`, "--data is not a JSON object")
		}
		data = json.RawMessage(j.Data)
	}
	status, _ := rollcall.ParseStatus(j.Status) // one of three words
	return j.follow(kctx, con, j.Room, client.Options{User: rollcall.UserID(j.As), Name: j.Name},
		client.EnterOptions{Status: status, Data: data})
}

// leaveWait is the most time to leave a room.
const leaveWait = 2 * time.Second

// follow enters a room and prints what happens there, until interrupted.
func (r *remote) follow(kctx *kong.Context, con *console, id string, o client.Options, e client.EnterOptions) error {
	if err := checkRoom(id); err != nil {
		return err
	}
	c, err := r.connect(kctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := interrupted()
	defer cancel()
	// A read first: where nobody listens, or where we may not, entering would
	// go on trying.
	if _, err := read(ctx, func(ctx context.Context) (client.RoomInfo, error) { return c.Room(ctx, rollcall.RoomID(id)) }); err != nil {
		return r.explain(err, id)
	}
	room, err := read(ctx, func(ctx context.Context) (*client.Room, error) { return c.Enter(ctx, rollcall.RoomID(id), e) })
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return r.explain(err, id)
	}
	p := printer{con: con, json: r.JSON, room: id, self: c.User()}
	if e.Observe {
		p.self = ""
		con.say("watching %s; Ctrl-C ends it", plain(id))
	} else {
		con.say("in %s as %s; Ctrl-C leaves", plain(id), plain(string(p.self)))
	}
	for changes := room.Changes(); ; {
		select {
		case change, open := <-changes:
			if !open {
				_, err := room.State()
				return r.explain(err, id)
			}
			if err := p.print(change); err != nil {
				return err
			}
		case <-ctx.Done():
			cancel() // another signal ends us at once
			if e.Observe {
				return nil // nobody will miss us
			}
			bounded, done := context.WithTimeout(context.Background(), leaveWait)
			defer done()
			if err := room.Leave(bounded); err != nil {
				return failed("the others see you until your lease has run out", "the server was not told: %w", err)
			}
			con.say("left %s", plain(id))
			return nil
		}
	}
}

// printer prints changes: those of members on stdout, those of the connection
// for people on stderr, or all of them as JSON, a line each.
type printer struct {
	con  *console
	json bool
	room string
	self rollcall.UserID // "" for an observer
}

func (p *printer) print(c client.Change) error {
	if p.json {
		return p.con.print(p.line(c))
	}
	now := time.Now().Format(time.TimeOnly)
	switch c.Kind {
	case client.KindSnapshot:
		for i := len(c.Members) - 1; i >= 0; i-- {
			if err := p.member(now, "here", c.Members[i], ""); err != nil {
				return err
			}
		}
		if len(c.Members) < c.Count {
			p.con.say("%d are here", c.Count)
		}
		if c.Count == 0 {
			p.con.say("nobody is here")
		}
	case client.KindJoin, client.KindUpdate:
		return p.member(now, c.Kind.String(), c.Member, "")
	case client.KindLeave:
		return p.member(now, "leave", c.Member, c.Reason.String())
	case client.KindCount:
		_, err := fmt.Fprintf(p.con.out, "%s  count   %d\n", now, c.Count)
		return err
	case client.KindState:
		switch c.State {
		case client.StateReconnecting:
			p.con.say("lost the server; trying again")
		case client.StateLive:
			p.con.say("the server is back")
		}
	}
	return nil
}

// member prints one line about a member. A leave tells its reason, everything
// else what the member is.
func (p *printer) member(now, what string, m *rollcall.Member, reason string) error {
	words := []string{plain(string(m.User))}
	if name := nameOf(m); name != "" && name != string(m.User) {
		words = append(words, "("+plain(name)+")")
	}
	switch {
	case what == "leave":
		words = append(words, reason)
	default:
		words = append(words, m.Status.String())
		if m.Connections > 1 {
			words = append(words, fmt.Sprintf("x%d", m.Connections))
		}
		words = append(words, dataOf(m))
	}
	if m.User == p.self {
		words = append(words, "(you)")
	}
	words = dropEmpty(words)
	_, err := fmt.Fprintf(p.con.out, "%s  %-6s  %s\n", now, what, strings.Join(words, " "))
	return err
}

func dropEmpty(words []string) []string {
	kept := words[:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// line is a change as JSON: {"type","room","count",...}.
func (p *printer) line(c client.Change) map[string]any {
	line := map[string]any{"type": c.Kind.String(), "room": p.room, "count": c.Count}
	switch c.Kind {
	case client.KindSnapshot:
		line["members"] = membersJSON(c.Members)
	case client.KindJoin, client.KindUpdate, client.KindLeave:
		line["member"] = membersJSON([]*rollcall.Member{c.Member})[0]
	case client.KindState:
		line["state"] = c.State.String()
		if c.Err != nil {
			line["error"] = errorText(c.Err)
		}
	}
	if c.Reason != rollcall.ReasonNone {
		line["reason"] = c.Reason.String()
	}
	return line
}

// errorText is what the server said. How a library tells that a connection is
// gone is of no use to anybody.
func errorText(err error) string {
	var refused *rollcall.Error
	if errors.As(err, &refused) {
		return refused.Detail
	}
	return "the connection was lost"
}
