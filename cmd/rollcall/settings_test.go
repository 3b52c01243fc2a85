package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/server/auth"
)

// settle parses a command line of dev or serve, with an environment and the text
// of a config file, and checks it.
func settle(t *testing.T, env map[string]string, file string, args ...string) (*checked, error) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	var c cli
	parser, err := newParser(&c, &console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, misuse(args, err)
	}
	if args[0] == "dev" {
		return c.Dev.check(ctx, true)
	}
	return c.Serve.check(ctx, false)
}

func TestEveryFlagOfServeIsInTheEnvironment(t *testing.T) {
	parser, err := newParser(new(cli), &console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, f := range command.Flags {
			want := []string{"ROLLCALL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
			if (command.Name == "dev" || command.Name == "serve") && f.Name != "help" {
				if d := cmp.Diff(want, f.Tag.Envs); d != "" {
					t.Errorf("%s --%s: %s", command.Name, f.Name, d)
				}
			}
		}
	}
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefaults(t *testing.T) {
	const file = "guests: true\ncloSe: x\n"
	tests := map[string]struct {
		env  map[string]string
		file string
		args []string
		want time.Duration
	}{
		"default":            {want: time.Second},
		"file":               {file: "close-grace: 2s", want: 2 * time.Second},
		"environment":        {env: map[string]string{"ROLLCALL_CLOSE_GRACE": "3s"}, file: "close-grace: 2s", want: 3 * time.Second},
		"flag":               {env: map[string]string{"ROLLCALL_CLOSE_GRACE": "3s"}, file: "close-grace: 2s", args: []string{"--close-grace", "4s"}, want: 4 * time.Second},
		"empty is not given": {env: map[string]string{"ROLLCALL_CLOSE_GRACE": "", "ROLLCALL_GUESTS": ""}, file: "close-grace: 2s", want: 2 * time.Second},
		"default again":      {env: map[string]string{"ROLLCALL_CLOSE_GRACE": "1s"}, file: "close-grace: 2s", want: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := settle(t, tt.env, tt.file, append([]string{"serve", "--guests"}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if c.timing.CloseGrace != tt.want {
				t.Errorf("close grace %v, want %v", c.timing.CloseGrace, tt.want)
			}
		})
	}
	if _, err := settle(t, nil, file, "serve"); err == nil || !strings.Contains(err.Error(), `c.yaml:2: unknown key "cloSe"`) {
		t.Errorf("unknown key: %v", err)
	}
}

func TestSecretsComeFromTheStrongerSource(t *testing.T) {
	const one, two = "one-0123456789abcdef0123456789abcdef", "two-0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(two+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		env    map[string]string
		config string
		args   []string
		want   string
	}{
		"flag":                        {args: []string{"--secret", one}, want: one},
		"file":                        {args: []string{"--secret-file", file}, want: two},
		"file in the environment":     {env: map[string]string{"ROLLCALL_SECRET_FILE": file}, want: two},
		"flag over file elsewhere":    {env: map[string]string{"ROLLCALL_SECRET_FILE": file}, args: []string{"--secret", one}, want: one},
		"file over value elsewhere":   {env: map[string]string{"ROLLCALL_SECRET": one}, args: []string{"--secret-file", file}, want: two},
		"environment over the config": {env: map[string]string{"ROLLCALL_SECRET": one}, config: "secret-file: " + file, want: one},
		"config":                      {config: "secret-file: " + file, want: two},
		"digits":                      {config: "secret: 0012345678901234", want: "0012345678901234"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := settle(t, tt.env, tt.config, append([]string{"serve", "--guests"}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if string(c.secret) != tt.want {
				t.Errorf("another secret than %q", tt.want)
			}
		})
	}
	env := map[string]string{"ROLLCALL_SECRET": one, "ROLLCALL_SECRET_FILE": file}
	if _, err := settle(t, env, "", "serve", "--guests"); err == nil || strings.Contains(err.Error(), one) {
		t.Errorf("both at once: %v", err)
	}
}

func TestRelatedSettingsMustFit(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string // in the error; "" if it is fine
	}{
		"the defaults":            {nil, ""},
		"beats that just fit":     {[]string{"--lease", "30s", "--beat", "9.47s"}, ""},
		"only two beats":          {[]string{"--lease", "3s", "--beat", "1s"}, ""},
		"no beat in time":         {[]string{"--lease", "30s", "--beat", "29s"}, "too long"},
		"beat of the lease":       {[]string{"--lease", "1s"}, ""},
		"short leases":            {[]string{"--lease", "3s", "--beat", "900ms"}, ""},
		"no lease":                {[]string{"--lease", "0s"}, "--lease: 0s is not between 200ms and 24h"},
		"hardly a beat":           {[]string{"--beat", "1ms"}, "--beat: 1ms is not between 20ms and 24h"},
		"no grace":                {[]string{"--close-grace", "0s"}, ""},
		"grace as long as that":   {[]string{"--close-grace", "30s"}, ""},
		"grace over the lease":    {[]string{"--close-grace", "31s"}, "--close-grace 31s"},
		"negative grace":          {[]string{"--close-grace=-1s"}, "--close-grace"},
		"negative drain":          {[]string{"--drain=-1s"}, "--drain"},
		"nobody":                  {[]string{"--max-connections", "0"}, "--max-connections"},
		"too many contacts":       {[]string{"--max-contacts", "1001"}, "--max-contacts: 1001 is not between 0 and 1000"},
		"as many as there can be": {[]string{"--max-contacts", strconv.Itoa(rollcall.MaxContacts), "--count-every", rollcall.MinCountEvery.String()}, ""},
		"more than a day":         {[]string{"--lease", "25h"}, "--lease: 25h is not between 200ms and 24h"},
		"names for fewer":         {[]string{"--counts-above", "100"}, "--counts-below 150 is more than --counts-above 100"},
		"no unit":                 {[]string{"--lease", "30"}, `--lease: "30" is not a time such as`},
		"no port":                 {[]string{"--listen", "127.0.0.1:"}, "is not HOST:PORT"},
		"no such port":            {[]string{"--listen", ":65536"}, "port 65536 is not between 0 and 65535"},
		"nobody new":              {[]string{"--max-accept", "0"}, "--max-accept"},
		"short secret":            {[]string{"--secret", "0123456789abcde"}, ""},
		"same key twice":          {[]string{"--api-key", "a=sk_1", "--api-key", "b=sk_1"}, "same key"},
		"every origin":            {[]string{"--allowed-origin", "*"}, ""},
		"a room":                  {[]string{"--room", "live:*:counts-above=500", "--room", "live:*:signals=all"}, ""},
		"a room of nonsense":      {[]string{"--room", "live:*"}, "--room: \"live:*\" is not PATTERN:setting=value"},
		"a room's thresholds":     {[]string{"--counts-below", "100", "--room", "a*:counts-above=99"}, "counts-below 100 is more than counts-above 99"},
		"level":                   {[]string{"--log-level", "loud"}, "--log-level"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := settle(t, nil, "", append([]string{"serve", "--guests"}, tt.args...)...)
			if tt.want == "" && err == nil {
				return
			}
			var f *failure
			if !errors.As(err, &f) || f.code != exitUsage || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRoomsThatDiffer(t *testing.T) {
	base := rollcall.RoomSettings{Modes: rollcall.DefaultModes()}
	tests := map[string]struct {
		env  map[string]string
		file string
		args []string
	}{
		"flags":       {args: []string{"--room", "live:*:counts-above=500", "--room", `a\,b:signals=all`}},
		"environment": {env: map[string]string{"ROLLCALL_ROOM": `live:*:counts-above=500,a\,b:signals=all`}},
		"a list":      {file: "room:\n  - live:*:counts-above=500\n  - a,b:signals=all"},
		"a mapping":   {file: "room:\n  live:*:counts-above: 500\n  a,b:signals: all"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := settle(t, tt.env, tt.file, append([]string{"serve", "--guests"}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.rules.Of("live:1", base).Modes.Above; got != 500 {
				t.Errorf("live:1 counts above %d, want 500", got)
			}
			if got := c.rules.Of("a,b", base).Signals; got != rollcall.SignalsAll {
				t.Errorf("signals of a,b: %d, want all", got)
			}
		})
	}
}

func TestDevStaysOnThisMachine(t *testing.T) {
	for listen, want := range map[string]string{
		":0": "127.0.0.1:0", "localhost:80": "localhost:80", "[::1]:1": "[::1]:1", "127.1.2.3:4": "127.1.2.3:4",
		"0.0.0.0:1": "", "[::]:1": "", "192.0.2.1:1": "", "example.com:1": "", "8080": "",
	} {
		c, err := settle(t, nil, "", "dev", "--listen", listen)
		switch {
		case (err == nil) != (want != ""):
			t.Errorf("%s: error %v", listen, err)
		case err == nil && c.Listen != want:
			t.Errorf("%s: listens on %s, want %s", listen, c.Listen, want)
		}
	}
}

func TestDevSaysWhatIsNotShared(t *testing.T) {
	for args, want := range map[string]bool{
		"dev": false, "dev --store redis://h": true, "serve --guests --store redis://h": false,
	} {
		c, err := settle(t, nil, "", strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(c.doubts, "\n"), "of this server alone"); got != want {
			t.Errorf("%s: says so: %t, want %t", args, got, want)
		}
	}
}

func TestWhoMayComeIn(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	token, err := auth.Mint([]byte(secret), auth.Claims{User: "ana", Rooms: []string{"r"}})
	if err != nil {
		t.Fatal(err)
	}
	guest, user := auth.Credentials{}, auth.Credentials{Token: token, From: auth.Header}
	key := auth.Credentials{Token: "sk_one", From: auth.Header}
	tests := map[string]struct {
		args             []string
		guest, user, key bool
	}{
		"dev":      {[]string{"dev"}, true, false, false},
		"guests":   {[]string{"serve", "--guests"}, true, false, false},
		"tokens":   {[]string{"serve", "--jwt-secret", secret}, false, true, false},
		"both":     {[]string{"serve", "--guests", "--jwt-secret", secret}, true, true, false},
		"with key": {[]string{"serve", "--jwt-secret", secret, "--api-key", "one=sk_one"}, false, true, true},
	}
	for name, tt := range tests {
		c, err := settle(t, nil, "", tt.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for what, who := range map[string]struct {
			credentials auth.Credentials
			want        bool
		}{"guest": {guest, tt.guest}, "user": {user, tt.user}, "key": {key, tt.key}} {
			if _, err := c.auth.Authenticate(t.Context(), who.credentials); (err == nil) != who.want {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
	}
	// A key alone lets back ends in and nobody to be present.
	if _, err := settle(t, nil, "", "serve", "--api-key", "one=sk_one"); err == nil {
		t.Error("serves without anybody who could come in")
	}
}

func TestPlainTextHasNoEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"ana": "ana", "Ána 🙂 x": "Ána 🙂 x", "a\x1b[31mb": `a\x1b[31mb`, "a\nb": `a\nb`, "a\u202eb": `a\u202eb`, "": "",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNearestFlag(t *testing.T) {
	words := []string{"listen", "lease", "close-grace", "api-key"}
	for in, want := range map[string]string{"lisen": "listen", "close_grace": "close-grace", "API-KEY": "api-key", "apikey": "api-key", "zzz": "", "closegrace": "close-grace"} {
		if got := nearest(in, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHintsAreWordsOfAShell(t *testing.T) {
	for in, want := range map[string]string{"doc:42": "doc:42", "doc:*": "'doc:*'", "it's": `'it'\''s'`, "": "''"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestEveryRefusalSaysWhatToTry(t *testing.T) {
	r := &remote{URL: "http://x"}
	for _, code := range []rollcall.Code{rollcall.CodeUnauthorized, rollcall.CodeForbidden, rollcall.CodeRateLimited, rollcall.CodeUnavailable} {
		var f *failure
		if err := r.explain(rollcall.Errorf(code, "no"), "r"); !errors.As(err, &f) || f.hint == "" || f.code != exitFailed {
			t.Errorf("%s: %+v", code, f)
		}
	}
}
