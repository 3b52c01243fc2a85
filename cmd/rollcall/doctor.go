package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"rollcall/cmd/rollcall/doctor"
	"rollcall/server/auth"
)

type doctorCommand struct {
	URL       string        `arg:"" optional:"" env:"ROLLCALL_URL" help:"The server, as clients reach it. http://127.0.0.1:8080 if neither it nor --store nor --admin is given."`
	Token     string        `env:"ROLLCALL_TOKEN" placeholder:"TOKEN" help:"Token of a user, or sk_ key of a back end, to look at streams with."`
	TokenFile string        `env:"ROLLCALL_TOKEN_FILE" placeholder:"FILE" help:"File of --token."`
	Room      string        `placeholder:"ROOM" help:"Observe this room. A room that is made up if not given, where somebody comes and goes for a moment."`
	Origin    []string      `placeholder:"ORIGIN" help:"Web origin that should be allowed, such as https://app.example.com. Repeatable."`
	Hold      time.Duration `placeholder:"70s" least:"0s" most:"24h" help:"Hold a quiet stream for so long, to find what cuts it; until its first beat if not given."`
	Store     string        `env:"ROLLCALL_STORE" placeholder:"redis://..." help:"Look at the store that the nodes share."`
	Admin     string        `env:"ROLLCALL_ADMIN" placeholder:"URL" help:"Look at a node by its admin listener."`
	JSON      bool          `name:"json" help:"Print JSON."`
}

// Run examines a deployment. It fails if something is wrong.
func (d *doctorCommand) Run(kctx *kong.Context, con *console) error {
	token, err := secret(kctx, "token", d.Token, d.TokenFile)
	if err != nil {
		return err
	}
	if d.Room != "" {
		if err := checkRoom(d.Room); err != nil {
			return err
		}
	}
	if _, err := auth.NewOrigins(d.Origin); err != nil {
		return wrong("write it as browsers do: https://app.example.com", "--origin: %w", err)
	}
	if d.Store == "memory" {
		d.Store = ""
	}
	if d.Store != "" {
		if err := checkShared(d.Store); err != nil {
			return err
		}
	}
	if d.Admin != "" {
		if err := checkURL("--admin", d.Admin, "http://127.0.0.1:9090", "http", "https"); err != nil {
			return err
		}
	}
	if d.URL != "" {
		if err := checkURL("rollcall doctor", d.URL, "http://127.0.0.1:8080", "http", "https", "ws", "wss"); err != nil {
			return err
		}
	}
	o := doctor.Options{
		URL: d.URL, Token: token, Room: d.Room, Origins: d.Origin, Hold: d.Hold, Store: d.Store, Admin: d.Admin,
		Note: func(text string) { con.say("%s", text) },
	}
	if o.URL == "" && o.Store == "" && o.Admin == "" {
		o.URL = "http://127.0.0.1:8080"
	}
	ctx, cancel := interrupted()
	defer cancel()
	findings := []doctor.Finding{}
	err = doctor.Run(ctx, o, func(f doctor.Finding) { findings = append(findings, f) })
	if ctx.Err() != nil {
		return failed("", "interrupted")
	}
	if err != nil {
		return wrong("`rollcall doctor http://127.0.0.1:8080`", "%w", err)
	}
	if d.JSON {
		err = con.print(map[string]any{"ok": !doctor.Any(findings), "findings": findings})
	} else {
		err = printFindings(con, findings)
	}
	if err == nil && doctor.Any(findings) {
		return failed("what to do stands behind -> above", "something is wrong")
	}
	return err
}

func printFindings(con *console, findings []doctor.Finding) error {
	table := tabwriter.NewWriter(con.out, 0, 8, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Verdict, f.Check, plain(f.Seen))
		if f.Do != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", plain(f.Do))
		}
	}
	return table.Flush()
}
