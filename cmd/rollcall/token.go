package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"rollcall"
	"rollcall/server/auth"
)

type tokenCommand struct {
	Sub   string        `required:"" placeholder:"USER" help:"The user."`
	Room  []string      `sep:"none" placeholder:"PATTERN" help:"Room to be in: an id, or the beginning of ids and a star. Repeatable."`
	Grant []string      `sep:"none" placeholder:"PATTERN=CAPABILITY,..." help:"Room and what is allowed there: count, read, presence, contacts, signal, admin. Repeatable."`
	Info  string        `placeholder:"JSON" help:"Public profile, such as {\"name\":\"Ana\"}."`
	TTL   time.Duration `name:"ttl" default:"1h" least:"1s" most:"876000h" help:"Life of the token."`
	// Hidden users see and are not seen.
	Hidden        bool   `help:"Sees and is not seen."`
	JWTSecret     string `name:"jwt-secret" aliases:"secret" env:"ROLLCALL_JWT_SECRET" placeholder:"TEXT" help:"The secret that the server was started with."`
	JWTSecretFile string `name:"jwt-secret-file" aliases:"secret-file" env:"ROLLCALL_JWT_SECRET_FILE" placeholder:"FILE" help:"File of --jwt-secret."`
	JSON          bool   `name:"json" help:"Print JSON."`
}

// Run prints a token.
func (t *tokenCommand) Run(ctx *kong.Context, con *console) error {
	key, err := secret(ctx, "jwt-secret", t.JWTSecret, t.JWTSecretFile)
	if err != nil {
		return err
	}
	if key == "" {
		return wrong("set ROLLCALL_JWT_SECRET to the secret of the server, or give --jwt-secret-file; `rollcall dev` needs no tokens", "a token needs a secret to be signed with")
	}
	claims := auth.Claims{
		User: rollcall.UserID(t.Sub), Rooms: t.Room, Hidden: t.Hidden,
		IssuedAt: time.Now().Truncate(time.Second),
	}
	claims.Expires = claims.IssuedAt.Add(t.TTL)
	if t.Info != "" {
		if !json.Valid([]byte(t.Info)) {
			return wrong(`--info '{"name":"Ana"}'`, "--info is not JSON")
		}
		claims.Info = json.RawMessage(t.Info)
	}
	if claims.Grants, err = parseGrants(t.Grant); err != nil {
		return err
	}
	if len(t.Room)+len(t.Grant) == 0 {
		return wrong("--room 'doc:*' for every room that begins with doc:, or --room '*' for all", "a token without --room or --grant opens no room")
	}
	token, err := auth.Mint([]byte(key), claims)
	if err != nil {
		return wrong("", "%w", err)
	}
	if t.JSON {
		return con.print(map[string]any{"token": token, "sub": t.Sub, "exp": claims.Expires.Unix()})
	}
	_, err = fmt.Fprintln(con.out, token)
	return err
}

// parseGrants reads PATTERN=CAPABILITY,... A pattern may have = in it.
func parseGrants(texts []string) (map[string][]auth.Capability, error) {
	const hint = "--grant 'doc:*=read,contacts'"
	grants := make(map[string][]auth.Capability)
	for _, text := range texts {
		i := strings.LastIndexByte(text, '=')
		if i < 0 {
			return nil, wrong(hint, "--grant %q is not PATTERN=CAPABILITY,...", text)
		}
		for word := range strings.SplitSeq(text[i+1:], ",") {
			c, ok := auth.ParseCapability(strings.TrimSpace(word))
			if !ok {
				return nil, wrong(hint, "--grant %q: %q is not one of count, read, presence, contacts, signal, admin", text, word)
			}
			grants[text[:i]] = append(grants[text[:i]], c)
		}
	}
	return grants, nil
}
