//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// checkExamples builds and tests the examples.
func checkExamples(root string, r *report) {
	test := exec.Command("go", "test", "-count=1", "./examples/...")
	test.Dir = root
	out, err := test.CombinedOutput()
	if err != nil {
		r.fail("examples", "%v\n%s", err, out)
		return
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok") {
			r.pass()
		}
	}
}

// checkTypes type-checks the `ts check` blocks: those of one document are one
// program, in their order.
func checkTypes(root string, documents []*document, r *report) {
	dir, err := os.MkdirTemp("", "rollcall-readme-types-")
	if err != nil {
		r.fail("types", "%v", err)
		return
	}
	defer os.RemoveAll(dir)
	var files, places []string
	for _, d := range documents {
		program := ""
		for i := range d.blocks {
			if b := &d.blocks[i]; b.language == "ts" {
				if _, ok := b.word("check"); ok {
					program += "// " + b.where + "\n" + b.text
					places = append(places, b.where)
				}
			}
		}
		if program == "" {
			continue
		}
		file := filepath.Join(dir, strings.NewReplacer("/", "_", ".md", ".ts").Replace(d.path))
		if err := os.WriteFile(file, []byte(program+"export {}\n"), 0o600); err != nil {
			r.fail(d.path, "%v", err)
			return
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return
	}
	config, err := json.Marshal(map[string]any{
		"extends": filepath.Join(root, "js", "tsconfig.json"),
		"compilerOptions": map[string]any{
			"noEmit": true, "types": []string{}, "noUnusedLocals": false, "noUnusedParameters": false,
			"paths": map[string][]string{"@rollcall/client": {filepath.Join(root, "js", "src", "index.ts")}},
		},
		"files": files, "include": []string{},
	})
	if err != nil {
		r.fail("types", "%v", err)
		return
	}
	project := filepath.Join(dir, "tsconfig.json")
	if err := os.WriteFile(project, config, 0o600); err != nil {
		r.fail("types", "%v", err)
		return
	}
	out, err := exec.Command(filepath.Join(root, "js", "node_modules", ".bin", "tsc"), "-p", project).CombinedOutput()
	if err != nil {
		r.fail(strings.Join(places, ", "), "%v\n%s", err, out)
		return
	}
	for range places {
		r.pass()
	}
}

var (
	links     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	testNames = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	testFuncs = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
	headings  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInLink = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// checkReferences finds links to files and headings that are not there, and
// names of tests that do not exist.
func checkReferences(root string, documents []*document, r *report) {
	tests, err := findTests(root)
	if err != nil {
		r.fail("tests", "%v", err)
		return
	}
	for _, d := range documents {
		for _, m := range links.FindAllStringSubmatch(d.text, -1) {
			r.check(d.path, checkLink(root, d.path, m[1]))
		}
		for _, m := range testNames.FindAllStringSubmatch(d.text, -1) {
			if !tests[m[1]] {
				r.fail(d.path, "there is no test %s", m[1])
				continue
			}
			r.pass()
		}
	}
}

func findTests(root string) (map[string]bool, error) {
	tests := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		for _, m := range testFuncs.FindAllSubmatch(raw, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	return tests, err
}

func checkLink(root, from, link string) error {
	if strings.Contains(link, "://") {
		return nil // not ours
	}
	file, heading, _ := strings.Cut(link, "#")
	path := filepath.Join(root, from)
	if file != "" {
		path = filepath.Join(filepath.Dir(path), file)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the link %s leads nowhere", link)
	}
	if heading == "" || info.IsDir() {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, m := range headings.FindAllStringSubmatch(string(raw), -1) {
		anchor := strings.ReplaceAll(notInLink.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if anchor == heading {
			return nil
		}
	}
	return fmt.Errorf("the link %s names a heading that is not there", link)
}
