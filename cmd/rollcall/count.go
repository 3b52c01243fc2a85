package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/client"
)

type countCommand struct {
	remote
	Rooms []string `arg:"" name:"room" help:"The rooms."`
}

// Run prints how many are in each room: the number alone if there is one room,
// else a line with number, tab and room for each.
func (n *countCommand) Run(kctx *kong.Context, con *console) error {
	rooms := make([]rollcall.RoomID, len(n.Rooms))
	for i, room := range n.Rooms {
		if err := checkRoom(room); err != nil {
			return err
		}
		rooms[i] = rollcall.RoomID(room)
	}
	c, err := n.connect(kctx, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := interrupted()
	defer cancel()
	counts, err := read(ctx, func(ctx context.Context) (map[rollcall.RoomID]int, error) { return c.Counts(ctx, rooms...) })
	if err != nil {
		return n.explain(err, n.Rooms[0])
	}
	if n.JSON {
		return con.print(map[string]any{"counts": counts})
	}
	if len(rooms) == 1 {
		_, err := fmt.Fprintln(con.out, counts[rooms[0]])
		return err
	}
	for _, room := range rooms {
		if _, err := fmt.Fprintf(con.out, "%d\t%s\n", counts[room], plain(string(room))); err != nil {
			return err
		}
	}
	return nil
}
