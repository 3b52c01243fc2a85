package main

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// numbers calls fn with every flag that is a number or a time, the command that it
// belongs to, and the parser.
func numbers(t *testing.T, fn func(parser *kong.Kong, command string, f *kong.Flag)) {
	t.Helper()
	parser, err := newParser(new(cli), &console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok {
			for _, f := range n.Flags {
				kind := f.Target.Type()
				if kind.Kind() == reflect.Slice {
					kind = kind.Elem()
				}
				if kind.Kind() == reflect.Int || kind.Kind() == reflect.Int64 || kind.Kind() == reflect.Float64 {
					fn(parser, n.FullPath(), f)
				}
			}
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoNumberIsNonsense(t *testing.T) {
	seen := 0
	numbers(t, func(parser *kong.Kong, command string, f *kong.Flag) {
		seen++
		least, most := f.Tag.Get("least"), f.Tag.Get("most")
		for _, value := range []string{"-1", "-1s", "1e99", "9999999999999", "2562047h", "nan", "x"} {
			args := append(strings.Fields(command)[1:], "--"+f.Name, value)
			_, err := parser.Parse(args)
			var failed *failure
			switch {
			case err == nil:
				t.Errorf("%q is allowed", args)
				continue
			case !errors.As(misuse(args, err), &failed) || failed.code != exitUsage:
				t.Errorf("%q: %v is no misuse", args, err)
			}
			said := strings.ReplaceAll(err.Error(), `"`, "")
			if !strings.Contains(said, "--"+f.Name+": "+value+" is not ") ||
				!strings.Contains(said, "is not a") && !strings.Contains(said, "is not between "+least+" and "+most) {
				t.Errorf("%q: %q does not tell flag, value and limits", args, said)
			}
		}
		if f.Help != "" && !strings.HasSuffix(f.Help, " From "+least+" to "+most+".") {
			t.Errorf("%s --%s: help does not tell the limits: %s", command, f.Name, f.Help)
		}
	})
	if seen < 30 {
		t.Errorf("only %d numbers were looked at", seen)
	}
}

func TestWhatANumberIsMissingIsTold(t *testing.T) {
	_, err := settle(t, nil, "", "serve", "--guests", "--lease")
	if err == nil || !strings.Contains(err.Error(), "--lease: a time such as 500ms, 30s or 1h30m is missing") {
		t.Errorf("error %v", err)
	}
	_, err = settle(t, map[string]string{"ROLLCALL_LEASE": "0s"}, "", "serve", "--guests")
	if err == nil || !strings.Contains(err.Error(), `--lease: 0s is not between 200ms and 24h (from envar ROLLCALL_LEASE="0s")`) {
		t.Errorf("in the environment: error %v", err)
	}
	_, err = settle(t, nil, "lease: 0s", "serve", "--guests")
	if err == nil || !strings.Contains(err.Error(), "--lease: 0s is not between 200ms and 24h") {
		t.Errorf("in the config: error %v", err)
	}
}
