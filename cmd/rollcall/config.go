package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Every flag of dev and serve is also ROLLCALL_<FLAG> in the environment and a
// key of the file of --config. Flags beat the environment, the environment beats
// the file, the file beats the defaults.

const envPrefix = "ROLLCALL_"

// envOf is the name of a flag in the environment.
func envOf(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// nameEnvironment gives the flags of dev and serve their names in the
// environment. The other commands name theirs themselves: few make sense there.
func nameEnvironment(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		if command.Name != "dev" && command.Name != "serve" {
			continue
		}
		for _, f := range command.Flags {
			if len(f.Envs) == 0 && f.Name != "help" {
				f.Envs = []string{envOf(f.Name)}
				f.Tag.Envs = f.Envs
			}
			// Compose files and the like set what they leave out to nothing.
			for _, name := range f.Tag.Envs {
				if os.Getenv(name) == "" {
					os.Unsetenv(name)
				}
			}
		}
	}
	return nil
}

// source is where a flag got its value from, the weakest first.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

func sourceOf(ctx *kong.Context, name string) source {
	from := fromDefault
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == name {
			if !p.Resolved {
				return fromFlag
			}
			from = fromFile
		}
	}
	for _, f := range ctx.Flags() {
		if f.Name == name && inEnvironment(f) {
			from = fromEnvironment
		}
	}
	return from
}

func inEnvironment(f *kong.Flag) bool {
	return slices.ContainsFunc(f.Tag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}

// secret is a setting that may also stand in a file of its own, so that it is in
// no list of processes: --NAME or --NAME-file, whichever comes from the stronger
// source. "" if neither is given.
func secret(ctx *kong.Context, name, value, file string) (string, error) {
	direct, filed := sourceOf(ctx, name), sourceOf(ctx, name+"-file")
	switch {
	case filed == fromDefault || filed < direct:
		return value, nil
	case filed == direct:
		return "", wrong(fmt.Sprintf("give --%s-file alone; a file shows in no list of processes", name),
			"both --%s and --%s-file are given", name, name)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", wrong("", "--%s-file: %w", name, err)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", wrong("", "--%s-file: %s is empty", name, file)
	}
	return text, nil
}

// configFile is the flag --config.
type configFile string

// BeforeResolve adds the file to where flags get their values from.
func (configFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path := string(ctx.FlagValue(trace.Flag).(configFile))
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return wrong("", "config: %w", err)
	}
	values, err := readConfig(path, raw, flagNames(ctx.Selected()))
	if err != nil {
		return err
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
		if inEnvironment(f) {
			return nil, nil
		}
		return values[f.Name], nil
	}))
	return nil
}

// flagNames is the keys that a file may have.
func flagNames(command *kong.Node) (names []string) {
	for _, f := range command.Flags {
		if f.Name != "help" && f.Name != "config" {
			names = append(names, f.Name)
		}
	}
	return names
}

// readConfig reads a YAML file: a mapping from known keys to texts, or lists of
// texts. A text is taken as it is written, so that 0123 stays what it is.
func readConfig(path string, raw []byte, known []string) (map[string]any, error) {
	file, err := parser.ParseBytes(raw, 0)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, wrong("", "config %s: %s", path, first)
	}
	values := make(map[string]any)
	for _, doc := range file.Docs {
		entries, ok := mapping(doc.Body)
		if !ok {
			return nil, wrong("", "config %s: must be a list of `key: value`", path)
		}
		for _, e := range entries {
			key := e.Key.GetToken().Value
			where := fmt.Sprintf("config %s:%d", path, e.Key.GetToken().Position.Line)
			if !slices.Contains(known, key) {
				return nil, wrong(unknownKeyHint(key, known), "%s: unknown key %q", where, key)
			}
			if _, twice := values[key]; twice {
				return nil, wrong("", "%s: %q is there twice", where, key)
			}
			v, ok := configValue(e.Value)
			if !ok {
				return nil, wrong("", "%s: %q must be a value, or a list of values", where, key)
			}
			values[key] = v
		}
	}
	return values, nil
}

func unknownKeyHint(key string, known []string) string {
	if key == "config" {
		return "a config file cannot name another one"
	}
	if n := nearest(key, known); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "the keys are the flags of `rollcall serve --help`, without the dashes before them"
}

// mapping is the entries of a mapping; none for an empty document.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil, true
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// configValue is a text, a list of texts, or nil for nothing. A mapping is the
// list of its KEY=VALUE.
func configValue(n ast.Node) (any, bool) {
	switch n := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range n.Values {
			text, ok := configText(item)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	}
	if entries, ok := mapping(n); ok {
		list := []any{}
		for _, e := range entries {
			text, ok := configText(e.Value)
			if !ok {
				return nil, false
			}
			list = append(list, e.Key.GetToken().Value+"="+text)
		}
		return list, true
	}
	text, ok := configText(n)
	return text, ok
}

func configText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
