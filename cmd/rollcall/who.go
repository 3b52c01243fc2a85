package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/client"
	"rollcall/wire"
)

type whoCommand struct {
	remote
	Room string `arg:"" help:"The room."`
}

// Run prints who is in a room, newest first.
func (w *whoCommand) Run(kctx *kong.Context, con *console) error {
	if err := checkRoom(w.Room); err != nil {
		return err
	}
	c, err := w.connect(kctx, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := interrupted()
	defer cancel()
	members, err := everybody(ctx, c, rollcall.RoomID(w.Room))
	if err != nil {
		return w.explain(err, w.Room)
	}
	if w.JSON {
		return con.print(map[string]any{"room": w.Room, "count": len(members), "members": membersJSON(members)})
	}
	if len(members) == 0 {
		con.say("nobody is in %s", plain(w.Room))
		return nil
	}
	table := tabwriter.NewWriter(con.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "USER\tNAME\tSTATUS\tCONNECTIONS\tSINCE\tDATA")
	for _, m := range members {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", plain(string(m.User)), orDash(plain(nameOf(m))), m.Status, m.Connections,
			time.UnixMilli(m.Since).Format(time.DateTime), orDash(dataOf(m)))
	}
	return table.Flush()
}

// pageSize is the most members of a page.
const pageSize = 200

// everybody reads all pages.
func everybody(ctx context.Context, c *client.Client, room rollcall.RoomID) (all []*rollcall.Member, err error) {
	for cursor := ""; ; {
		page, err := read(ctx, func(ctx context.Context) (client.MembersPage, error) {
			return c.Members(ctx, room, cursor, pageSize)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Members...)
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

// nameOf is the name in the info of a member; "" if there is none.
func nameOf(m *rollcall.Member) string {
	var info struct{ Name string }
	_ = json.Unmarshal(m.Info, &info) // a name that is no text is none
	return info.Name
}

// dataOf is the data of a member; "" if there is none.
func dataOf(m *rollcall.Member) string {
	if string(m.Data) == "{}" {
		return ""
	}
	return plain(string(m.Data))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func membersJSON(members []*rollcall.Member) []json.RawMessage {
	list := make([]json.RawMessage, len(members))
	for i, m := range members {
		list[i] = wire.AppendMember(nil, m)
	}
	return list
}
