package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/store/redis"
)

type inspectCommand struct {
	Room  string `arg:"" help:"The room."`
	User  string `placeholder:"USER" help:"Tell why this user is here, or that it is not."`
	Store string `env:"ROLLCALL_STORE" placeholder:"redis://..." help:"Read the store that the nodes share; it is not written to."`
	Admin string `env:"ROLLCALL_ADMIN" default:"http://127.0.0.1:9090" help:"Admin listener of a node, to ask if there is no --store."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Run prints the leases behind a room.
func (c *inspectCommand) Run(_ *kong.Context, con *console) error {
	if err := checkRoom(c.Room); err != nil {
		return err
	}
	if c.User != "" && !rollcall.ValidID(c.User) {
		return wrong("a user id is 1 to 256 bytes of UTF-8, neither . nor ..", "--user %q cannot be a user", c.User)
	}
	stop, cancel := interrupted()
	defer cancel()
	ctx, cancel := context.WithTimeout(stop, readWait)
	defer cancel()
	look := c.askNode
	if c.Store != "" && c.Store != "memory" {
		look = c.readStore
		if err := checkShared(c.Store); err != nil {
			return err
		}
	} else if err := checkURL("--admin", c.Admin, "http://127.0.0.1:9090", "http", "https"); err != nil {
		return err
	}
	in, err := look(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON && c.User != "":
		return con.print(map[string]any{"room": in.Room, "user": c.User, "present": len(in.Users) > 0, "inspection": in})
	case c.JSON:
		return con.print(in)
	case c.User != "":
		return explainUser(con, in, c.User)
	}
	return printRoom(con, in)
}

// readStore reads the shared store.
func (c *inspectCommand) readStore(ctx context.Context) (*rollcall.Inspection, error) {
	s, err := redis.Open(ctx, redis.Options{URL: c.Store, NoUserIndex: true, Logger: discard()})
	if err != nil {
		return nil, storeFailure(ctx, c.Store, err)
	}
	defer s.Close()
	in, err := s.Inspect(ctx, rollcall.RoomID(c.Room), rollcall.UserID(c.User))
	if err != nil {
		return nil, storeFailure(ctx, c.Store, err)
	}
	return in, nil
}

// maxInspection is the most bytes of an answer of the admin listener.
const maxInspection = 64 << 20

// askNode asks a node.
func (c *inspectCommand) askNode(ctx context.Context) (*rollcall.Inspection, error) {
	const hint = "--admin is the address that the server printed as `rollcall: admin on ...`; --store redis://... reads a shared store"
	query := url.Values{"room": {c.Room}}
	if c.User != "" {
		query.Set("user", c.User)
	}
	address := strings.TrimRight(c.Admin, "/") + "/debug/rooms?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, failed(hint, "nothing listens at --admin %s", c.Admin)
		}
		return nil, failed(hint, "--admin %s: %w", c.Admin, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxInspection))
	switch {
	case err != nil:
		return nil, failed("", "--admin %s: %w", c.Admin, err)
	case res.StatusCode == http.StatusNotFound:
		return nil, failed(hint, "--admin %s: not the admin listener of a server that can be inspected", c.Admin)
	case res.StatusCode != http.StatusOK:
		return nil, failed(hint, "--admin %s: %s: %s", c.Admin, res.Status, strings.TrimSpace(string(raw)))
	}
	in := new(rollcall.Inspection)
	if err := json.Unmarshal(raw, in); err != nil {
		return nil, failed(hint, "--admin %s: %w", c.Admin, err)
	}
	return in, nil
}

func printRoom(con *console, in *rollcall.Inspection) error {
	epoch := string(in.Epoch)
	if epoch == "" {
		epoch = "none: no node has used this store yet"
	}
	settling := "no"
	if in.SettlingMs > 0 {
		settling = "for " + runs(in.SettlingMs) + ": who was here before may be on the way back"
	}
	table := tabwriter.NewWriter(con.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "room\t%s\nmode\t%s\nmembers\t%d\nconnections\t%d\nversion\t%d\nepoch\t%s\nsettling\t%s\n",
		plain(string(in.Room)), in.Mode, in.Count, in.Connections, in.Version, plain(epoch), settling)
	if err := table.Flush(); err != nil {
		return err
	}
	if len(in.Users) == 0 {
		return nil
	}
	fmt.Fprintln(con.out)
	fmt.Fprintln(table, "USER\tSTATUS\tCONNECTION\tGENERATION\tLEASE\tENDS IN\tDATA")
	for i := range in.Users {
		u := &in.Users[i]
		for j := range u.Leases {
			l := &u.Leases[j]
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", plain(string(u.User)), l.Status, plain(string(l.Connection)), l.Generation,
				l.State, runs(l.EndsInMs), orDash(plain(string(l.Data))))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(in.Users) < in.Count {
		con.say("%d of %d members are shown; --user shows one", len(in.Users), in.Count)
	}
	return nil
}

// explainUser answers why somebody is here.
func explainUser(con *console, in *rollcall.Inspection, user string) error {
	if len(in.Users) == 0 {
		_, err := fmt.Fprintf(con.out, "%s is not in %s: no lease is left\n", plain(user), plain(string(in.Room)))
		if err == nil && in.SettlingMs > 0 {
			con.say("the store settles for %s still: whoever was here before may be on the way back", runs(in.SettlingMs))
		}
		return err
	}
	u := &in.Users[0]
	what := "connection holds a lease"
	if len(u.Leases) != 1 {
		what = "connections hold leases"
	}
	fmt.Fprintf(con.out, "%s is in %s, %s, since %s: %d %s\n", plain(user), plain(string(in.Room)), u.Status,
		time.UnixMilli(u.Since).Format(time.DateTime), len(u.Leases), what)
	var last int64
	for i := range u.Leases {
		l := &u.Leases[i]
		last = max(last, l.EndsInMs)
		fmt.Fprintf(con.out, "  connection %s, generation %d, %s\n", plain(string(l.Connection)), l.Generation, l.Status)
		if l.State == rollcall.InspectedClosing {
			fmt.Fprintf(con.out, "    closing: it was closed, and ends in %s unless the client comes back\n", runs(l.EndsInMs))
		} else {
			fmt.Fprintf(con.out, "    live: the last sign of life is %s old; without another it ends in %s\n", runs(max(l.LeaseMs-l.EndsInMs, 0)), runs(l.EndsInMs))
		}
	}
	_, err := fmt.Fprintf(con.out, "without a sign of life from any of them %s is gone in %s\n", plain(user), runs(last))
	return err
}

// runs is a time of a lease for people: to a tenth of a second.
func runs(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}
