package main

import (
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// operating is the guide for operators.
func operating(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/guides/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestGuideHasEveryFlagAndItsDefault: the table of the guide is that of the
// program.
func TestGuideHasEveryFlagAndItsDefault(t *testing.T) {
	text := operating(t)
	parser, err := newParser(new(cli), &console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, command := range parser.Model.Children {
		if command.Name != "serve" {
			continue
		}
		for _, f := range command.Flags {
			known = append(known, f.Name)
			if f.Name == "help" {
				continue
			}
			row := regexp.MustCompile(`(?m)^\|[^|]*` + "`--" + regexp.QuoteMeta(f.Name) + "`" + `[^|]*\|([^|]*)\|`).FindStringSubmatch(text)
			switch {
			case row == nil:
				t.Errorf("--%s is in no table of the guide", f.Name)
			case f.HasDefault && !strings.Contains(row[1], sameDefault(f.Default)):
				t.Errorf("--%s: the guide says %q, and the default is %q", f.Name, row[1], f.Default)
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `--.*").FindAllString(text, -1) {
		for _, named := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(strings.SplitN(row, "|", 3)[1], -1) {
			if !slices.Contains(known, named[1]) {
				t.Errorf("the guide has --%s, and the program does not", named[1])
			}
		}
	}
}

// sameDefault is a default as it stands in the guide.
func sameDefault(text string) string {
	if text == "true" {
		return "on"
	}
	if d, err := time.ParseDuration(text); err == nil && d.String() != text {
		return d.String()
	}
	return text
}

func TestGuideHasEveryMetric(t *testing.T) {
	text := operating(t)
	c, err := settle(t, nil, "", "serve", "--guests")
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	all, err := n.presence.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	process := false
	names := namesInSource(t)
	for _, family := range all {
		name := family.GetName()
		process = process || name == "go_goroutines"
		if strings.HasPrefix(name, "rollcall_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !regexp.MustCompile("(?m)^\\|[^|]*`" + name + "[`{]").MatchString(text) {
			t.Errorf("%s is in no table of the guide", name)
		}
	}
	if !process || len(names) < 20 {
		t.Errorf("metrics of the process: %v, of presence: %q", process, names)
	}
}

// namesInSource are the metrics that stand in the source: one with labels is not
// gathered before it has moved.
func namesInSource(t *testing.T) (names []string) {
	t.Helper()
	raw, err := os.ReadFile("../../server/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"rollcall_([a-z_]+[a-z])"|\b(?:counter|gauge|histogram)\("([a-z_]+)"`).FindAllStringSubmatch(string(raw), -1) {
		names = append(names, "rollcall_"+m[1]+m[2])
	}
	return names
}

// TestDeployingNamesWhatIsThere: the unit, the image and the manifest of the guide
// set flags that serve has, and the manifest is YAML.
func TestDeployingNamesWhatIsThere(t *testing.T) {
	raw, err := os.ReadFile("../../docs/guides/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := newParser(new(cli), &console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, command := range parser.Model.Children {
		if command.Name != "serve" {
			continue
		}
		for _, f := range command.Flags {
			known["--"+f.Name] = true
			for _, name := range f.Envs {
				known[name] = true
			}
		}
	}
	blocks := 0
	for _, block := range regexp.MustCompile("(?ms)^```(ini|dockerfile|yaml)\n(.*?)^```").FindAllStringSubmatch(string(raw), -1) {
		blocks++
		settings := regexp.MustCompile(`ROLLCALL_[A-Z_]+`).FindAllString(block[2], -1)
		for _, line := range regexp.MustCompile(`(?m)^ExecStart=.*`).FindAllString(block[2], -1) {
			settings = append(settings, regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1)...)
		}
		if len(settings) == 0 {
			t.Errorf("a block of %s sets nothing", block[1])
		}
		for _, s := range settings {
			if !known[s] {
				t.Errorf("serve has no %s", s)
			}
		}
		if block[1] == "yaml" {
			for object := range strings.SplitSeq(block[2], "---\n") {
				var parsed map[string]any
				if err := yaml.Unmarshal([]byte(object), &parsed); err != nil || parsed["kind"] == nil {
					t.Errorf("no object of Kubernetes: %v\n%s", err, object)
				}
			}
		}
	}
	if blocks != 3 {
		t.Errorf("the guide has %d blocks of settings, want a unit, an image and a manifest", blocks)
	}
}
