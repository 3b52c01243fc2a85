// Command rollcall is the presence server and the tools to talk to one.
//
//	rollcall dev                     a server to try things with
//	rollcall serve                   the server
//	rollcall who ROOM                who is here
//	rollcall count ROOM...           how many are here
//	rollcall watch ROOM              who comes and goes
//	rollcall join ROOM --as u1       be here
//	rollcall token --sub u1 --room R a token to be here with
//	rollcall inspect ROOM            why is who here
//	rollcall doctor [URL]            what is wrong here
//	rollcall bench keynote           what it costs
//
// Data goes to stdout, what is meant for people to stderr. It exits with 0 if
// all is fine, 1 if something failed, and 2 if it was called in a wrong way.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/alecthomas/kong"
)

// cli is the grammar of the command line.
type cli struct {
	Dev     devCommand     `cmd:"" help:"Start a server to try things with: on this machine only, with guests and a demo page."`
	Serve   serveCommand   `cmd:"" help:"Start the server."`
	Who     whoCommand     `cmd:"" help:"List who is in a room."`
	Count   countCommand   `cmd:"" help:"Count who is in rooms: the number alone for one room, a line each for several."`
	Watch   watchCommand   `cmd:"" help:"Print who comes and goes, until interrupted. Nobody sees you watch."`
	Join    joinCommand    `cmd:"" help:"Be in a room and print who comes and goes, until interrupted."`
	Token   tokenCommand   `cmd:"" help:"Make a token with the secret of the server."`
	Inspect inspectCommand `cmd:"" help:"Show the leases behind a room: why is this user here?"`
	Doctor  doctorCommand  `cmd:"" help:"Look for what is wrong with a deployment, from outside and from inside."`
	Bench   benchCommand   `cmd:"" help:"Load a server on this machine and say what that costs."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// console is where a command writes.
type console struct {
	out io.Writer // data
	err io.Writer // for people
}

// say tells people something.
func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.err, "rollcall: "+format+"\n", args...)
}

func main() { os.Exit(run(os.Args[1:], &console{out: os.Stdout, err: os.Stderr})) }

// newParser makes the parser of the grammar, which fills in c.
func newParser(c *cli, con *console) (*kong.Kong, error) {
	return kong.New(c, append(readNumbers(),
		kong.Name("rollcall"),
		kong.Description("Who is here, right now."),
		kong.Writers(con.out, con.err),
		kong.PostBuild(nameEnvironment),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)...)
}

// run is the whole program; the result is the exit code.
func run(args []string, con *console) int {
	parser, err := newParser(new(cli), con)
	if err != nil {
		return con.fail(err)
	}
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"} // what people try first
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return con.fail(misuse(args, err))
	}
	if err := ctx.Run(con); err != nil {
		return con.fail(err)
	}
	return 0
}

// misuse is an error of the command line, with the command that helps.
func misuse(args []string, err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{err: err, code: exitUsage, hint: "`rollcall --help` lists the commands; `rollcall dev` starts a server to try"}
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil && p.Context.Selected() != nil {
		f.hint = fmt.Sprintf("`%s --help` tells what there is", p.Context.Selected().FullPath())
	}
	return f
}
