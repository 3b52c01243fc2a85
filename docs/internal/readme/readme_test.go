//go:build unix

package main

import "testing"

func TestLinesMatchByTheirPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, line string
		want          bool
	}{
		{"count", "count", true},
		{"count", "counts", false},
		{"… join  ana", "18:41:00 join  ana", true},
		{`{"count":2,…}`, `{"count":2,"version":17}`, true},
		{`{"count":2,…}`, `{"count":3,"version":17}`, false},
		{"a…a", "a", false},
		{"a…b…c", "a1b2c", true},
		{"a…b…c", "a1c2", false},
	} {
		if got := matches(test.pattern, test.line); got != test.want {
			t.Errorf("matches(%q, %q) = %v, want %v", test.pattern, test.line, got, test.want)
		}
	}
}

func TestExpectedLinesComeInOrder(t *testing.T) {
	got := []string{"one", "two", "three", "two"}
	var m matcher
	if err := m.find("one\n…\n\nthree\n", got); err != nil {
		t.Fatal(err)
	}
	if err := m.find("one\n", got); err == nil {
		t.Error("a line that was used up is found again")
	}
	if err := m.find("two\n", got); err != nil {
		t.Errorf("after a failure nothing is used up: %v", err)
	}
}

func TestBlocksKeepTheirWords(t *testing.T) {
	blocks, err := parseBlocks("a.md", "x\n```sh run=watch\nls\n```\n\n1. y\n   ```text out\n   z\n     w\n   ```\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 2 {
		t.Fatalf("got %d blocks, want 2", len(blocks))
	}
	if name, ok := blocks[0].word("run"); !ok || name != "watch" || blocks[0].language != "sh" || blocks[0].where != "a.md:2" {
		t.Errorf("got %+v", blocks[0])
	}
	if _, ok := blocks[1].word("out"); !ok || blocks[1].text != "z\n  w\n" {
		t.Errorf("got %+v", blocks[1])
	}
	if _, err := parseBlocks("a.md", "```sh\nls\n"); err == nil {
		t.Error("a block without an end is no error")
	}
}
