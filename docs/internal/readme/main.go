//go:build unix

// Command readme runs what the README and the guides tell people to run, and
// checks that what they say comes out. script/readme starts it, in the root of
// the repository.
//
// A fenced block takes part by the words after its language:
//
//	sh server      a command that starts a server; the blocks after it talk to that
//	sh run         commands of the document's one shell; what they set stays set
//	sh run=NAME    a command of a terminal of its own, which goes on
//	go run, js run a whole program, run from the root of the repository
//	ts check       part of a program that must pass the type checker
//	... out        what the last `run` prints: its lines, in this order, among others
//	... out=NAME   what the terminal NAME prints from here on
//
// In an `out` block, `…` stands for anything within a line, or, alone on a line,
// for any lines. The addresses 127.0.0.1:8080 and 127.0.0.1:9090 stand for those
// of the running server, which takes ports that are free; `rollcall` and
// `go run ./cmd/rollcall` stand for the program, which is built once.
//
// Besides, links to files must lead somewhere, and a test that a document names
// must exist.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

func main() {
	failed, err := run(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme: error:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run checks the repository at root and returns how many checks failed.
func run(root string) (failed int, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	bin, err := os.MkdirTemp("", "rollcall-readme-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(bin)
	documents, err := findDocuments(root)
	if err != nil {
		return 0, err
	}
	r := &report{}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { checkExamples(root, r) })
	running.Go(func() { checkTypes(root, documents, r) })
	running.Go(func() { checkReferences(root, documents, r) })
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "rollcall"), "./cmd/rollcall")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	for _, d := range documents {
		running.Go(func() { (&session{root: root, bin: bin, report: r, doc: d}).run() })
	}
	running.Wait()
	fmt.Printf("readme: %d passed, %d failed\n", r.passed, r.failed)
	return r.failed, nil
}

// report counts the checks. Safe for concurrent use.
type report struct {
	mu             sync.Mutex
	passed, failed int // Guarded by mu.
}

func (r *report) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
}

// fail tells what is wrong at a place of a document.
func (r *report) fail(where, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprintf(os.Stderr, "%s: %s\n", where, fmt.Sprintf(format, args...))
}

// check passes if err is nil.
func (r *report) check(where string, err error) {
	if err != nil {
		r.fail(where, "%v", err)
		return
	}
	r.pass()
}
