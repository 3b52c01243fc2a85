package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/client"
)

// remote is the flags of the commands that talk to a server.
type remote struct {
	URL       string `default:"http://127.0.0.1:8080" env:"ROLLCALL_URL" help:"The server."`
	Token     string `env:"ROLLCALL_TOKEN" placeholder:"TOKEN" help:"Token of a user, or sk_ key of a back end."`
	TokenFile string `env:"ROLLCALL_TOKEN_FILE" placeholder:"FILE" help:"File of --token."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

// readWait is the most time that one read may take.
const readWait = 15 * time.Second

// connect makes a client; o says who a guest is.
func (r *remote) connect(ctx *kong.Context, o client.Options) (*client.Client, error) {
	token, err := secret(ctx, "token", r.Token, r.TokenFile)
	if err != nil {
		return nil, err
	}
	if err := checkURL("--url", r.URL, "http://127.0.0.1:8080", "http", "https", "ws", "wss"); err != nil {
		return nil, err
	}
	o.URL, o.Token = r.URL, token
	c, err := client.New(o)
	if err != nil {
		return nil, wrong("--url http://127.0.0.1:8080 is the default", "--url: %w", err)
	}
	return c, nil
}

// read makes one read with a limit of time.
func read[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	return call(ctx)
}

// interrupted ends with the first SIGINT or SIGTERM.
func interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// explain adds to an error of a call what to try next.
func (r *remote) explain(err error, room string) error {
	if err == nil {
		return nil
	}
	var refused *rollcall.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed("`rollcall dev` starts a server here; --url names another", "nothing listens at %s", r.URL)
	case errors.Is(err, context.DeadlineExceeded):
		return failed("is --url right?", "%s did not answer in time: %w", r.URL, err)
	case !errors.As(err, &refused):
		return failed("is --url right?", "%s: %w", r.URL, err)
	}
	hint := ""
	switch refused.Code {
	case rollcall.CodeUnauthorized:
		hint = fmt.Sprintf("`rollcall token --sub me --room %s` makes a token, with the secret of the server in ROLLCALL_JWT_SECRET; give it as --token or ROLLCALL_TOKEN", shellWord(room))
	case rollcall.CodeForbidden:
		hint = fmt.Sprintf("does the token name the room? `rollcall token --sub me --room %s` makes one that does", shellWord(room))
	case rollcall.CodeRateLimited, rollcall.CodeUnavailable:
		hint = "try again in a moment"
	}
	return failed(hint, "%w", err)
}

// shellWord is a text that a shell takes as one word.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:/@", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(plain(s), "'", `'\''`) + "'"
}

// checkRoom finds an id that cannot be one before anybody is asked.
func checkRoom(room string) error {
	if !rollcall.ValidID(room) {
		return wrong("a room id is 1 to 256 bytes of UTF-8, neither . nor ..", "%q cannot be a room", room)
	}
	return nil
}

// print prints v as one line of JSON.
func (c *console) print(v any) error {
	encoder := json.NewEncoder(c.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
