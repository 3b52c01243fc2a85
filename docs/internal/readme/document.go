//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// document is a Markdown file.
type document struct {
	path   string // from the root
	text   string
	blocks []block
}

// block is a fenced block of a document.
type block struct {
	where    string // FILE:LINE of the fence
	language string
	words    map[string]string // the other words of the fence: NAME=VALUE, or NAME
	text     string
}

// word reports whether the fence has a word, and its value.
func (b *block) word(name string) (value string, ok bool) {
	value, ok = b.words[name]
	return value, ok
}

// findDocuments reads what is written for users.
func findDocuments(root string) (documents []*document, err error) {
	paths := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			path, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		d := &document{path: path, text: string(raw)}
		if d.blocks, err = parseBlocks(path, d.text); err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
	return documents, nil
}

const fence = "```"

// parseBlocks finds the fenced blocks. A fence may be indented, as in a list;
// its block then is too.
func parseBlocks(path, text string) (blocks []block, err error) {
	var open *block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(bare, fence):
			indent = line[:len(line)-len(bare)]
			blocks = append(blocks, newBlock(fmt.Sprintf("%s:%d", path, i+1), strings.TrimPrefix(bare, fence)))
			open = &blocks[len(blocks)-1]
		case open != nil && strings.TrimRight(bare, " ") == fence:
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block does not end", open.where)
	}
	return blocks, nil
}

func newBlock(where, info string) block {
	b := block{where: where, words: make(map[string]string)}
	for i, word := range strings.Fields(info) {
		if i == 0 {
			b.language = word
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		b.words[name] = value
	}
	return b
}

// matcher finds expected lines in what is printed, one after the other.
type matcher struct {
	next int // the first line of the output that was not used yet
}

// find looks for the lines of want in the lines of got, in order, and moves on
// past them. The error names the first that is not there; nothing is used up
// then.
func (m *matcher) find(want string, got []string) error {
	at := m.next
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "" || line == "…" {
			continue
		}
		for at < len(got) && !matches(line, strings.TrimSpace(got[at])) {
			at++
		}
		if at == len(got) {
			return fmt.Errorf("this line does not come:\n\t%s\nin:\n\t%s", line, strings.Join(got[min(m.next, len(got)):], "\n\t"))
		}
		at++
	}
	m.next = at
	return nil
}

// matches compares a line with a pattern in which … stands for anything.
func matches(pattern, line string) bool {
	parts := strings.Split(pattern, "…")
	if len(parts) == 1 {
		return pattern == line
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(line, first) || !strings.HasSuffix(line[len(first):], last) {
		return false
	}
	line = line[len(first) : len(line)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(line, part)
		if i < 0 {
			return false
		}
		line = line[i+len(part):]
	}
	return true
}
