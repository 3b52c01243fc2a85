//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Where a server of the documents is said to be.
const (
	writtenMain  = "127.0.0.1:8080"
	writtenAdmin = "127.0.0.1:9090"
)

const (
	startWait = 15 * time.Second // for a server to listen
	blockWait = 25 * time.Second // for a block to end
	printWait = 15 * time.Second // for a terminal to print something: a beat may take 9.5 s
)

// session runs one document, block by block. Owned by one goroutine.
type session struct {
	root, bin string
	report    *report
	doc       *document

	main, admin string // addresses of the server; "" before there is one
	started     []*process
	shell       *process
	terminals   map[string]*terminal
	last        terminal // of the last block that ran to its end
}

// terminal is what a process printed, and how far it has been compared.
type terminal struct {
	process *process // nil: lines is all there is
	lines   []string
	matcher matcher
}

func (s *session) run() {
	s.terminals = make(map[string]*terminal)
	defer func() {
		// The server last: it has nobody to send away then.
		for _, p := range slices.Backward(s.started) {
			p.stop()
		}
	}()
	for i := range s.doc.blocks {
		b := &s.doc.blocks[i]
		if err, took := s.step(b); took {
			s.report.check(b.where, err)
			if err != nil {
				return // what follows builds on it
			}
		}
	}
}

// step does what a block asks for; took is false if it asks for nothing.
func (s *session) step(b *block) (err error, took bool) {
	name, isRun := b.word("run")
	_, isServer := b.word("server")
	terminal, isOut := b.word("out")
	switch {
	case isServer:
		return s.serve(b), true
	case isRun && b.language == "sh" && name != "":
		return s.open(name, b), true
	case isRun && b.language == "sh":
		return s.runShell(b), true
	case isRun && b.language == "go":
		return s.runProgram(b, "main.go", "go", "run"), true
	case isRun && b.language == "js":
		return s.runProgram(b, "main.mjs", "node"), true
	case isRun:
		return fmt.Errorf("nobody knows how to run %q", b.language), true
	case isOut:
		return s.compare(terminal, b.text), true
	}
	return nil, false
}

// real puts the addresses of the running server in the place of those that are
// written, and the program in the place of `go run`.
func (s *session) real(text string) string {
	text = strings.ReplaceAll(text, "go run ./cmd/rollcall", "rollcall")
	if s.main == "" {
		return text
	}
	return strings.NewReplacer(writtenMain, s.main, writtenAdmin, s.admin).Replace(text)
}

// written is the way back.
func (s *session) written(text string) string {
	if s.main == "" {
		return text
	}
	return strings.NewReplacer(s.main, writtenMain, s.admin, writtenAdmin).Replace(text)
}

// start starts a process that ends with the session.
func (s *session) start(name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"ROLLCALL_LISTEN=127.0.0.1:0", "ROLLCALL_ADMIN_LISTEN=127.0.0.1:0",
		"TMPDIR="+s.bin, "TZ=UTC", "NO_COLOR=1")
	if s.main != "" {
		cmd.Env = append(cmd.Env, "ROLLCALL_URL=http://"+s.main)
	}
	p, err := startProcess(cmd)
	if err == nil {
		s.started = append(s.started, p)
	}
	return p, err
}

var listening = regexp.MustCompile(`(admin|listening) on https?://(\S+)`)

// serve starts a server and waits until it listens.
func (s *session) serve(b *block) error {
	p, err := s.start("bash", "-c", s.real(b.text))
	if err != nil {
		return err
	}
	found := p.wait(startWait, func(lines []string) bool {
		for _, line := range lines {
			if m := listening.FindStringSubmatch(line); m != nil && m[1] == "admin" {
				s.admin = m[2]
			} else if m != nil {
				s.main = m[2]
				return true
			}
		}
		return false
	})
	s.last = terminal{process: p}
	if !found {
		return fmt.Errorf("no server came up:\n%s", strings.Join(p.lines(), "\n"))
	}
	if s.shell != nil {
		return s.shell.say("export ROLLCALL_URL=http://" + s.main + "\n")
	}
	return nil
}

// open runs a block in a terminal of its own, which goes on.
func (s *session) open(name string, b *block) error {
	p, err := s.start("bash", "-c", s.real(b.text))
	if err != nil {
		return err
	}
	s.terminals[name] = &terminal{process: p}
	return nil
}

// blockEnd is what the shell prints after a block, with the exit code.
const blockEnd = "readme-block-end"

// runShell runs a block in the shell of the document.
func (s *session) runShell(b *block) error {
	if s.shell == nil {
		p, err := s.start("bash")
		if err != nil {
			return err
		}
		s.shell = p
	}
	file, err := os.CreateTemp(s.bin, "block-*.sh")
	if err != nil {
		return err
	}
	if _, err := file.WriteString(s.real(b.text)); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	before := len(s.shell.lines())
	// A new line first, since output may end without one.
	if err := s.shell.say(fmt.Sprintf(". %s </dev/null\nprintf '\\n%s %%d\\n' $?\n", file.Name(), blockEnd)); err != nil {
		return err
	}
	var printed []string
	code := ""
	ended := s.shell.wait(blockWait, func(lines []string) bool {
		for i, line := range lines[before:] {
			if rest, ok := strings.CutPrefix(line, blockEnd+" "); ok {
				printed, code = lines[before:before+i], rest
				return true
			}
		}
		return false
	})
	s.last = terminal{lines: printed}
	switch {
	case !ended:
		return fmt.Errorf("the commands do not end:\n%s", strings.Join(s.shell.lines()[before:], "\n"))
	case code != "0":
		return fmt.Errorf("the commands end with exit code %s:\n%s", code, strings.Join(printed, "\n"))
	}
	return nil
}

// runProgram runs a block as a program of its own.
func (s *session) runProgram(b *block, file, name string, args ...string) error {
	dir, err := os.MkdirTemp(s.bin, "program-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(s.real(b.text)), 0o600); err != nil {
		return err
	}
	p, err := s.start(name, append(args, path)...)
	if err != nil {
		return err
	}
	err = p.ended(blockWait)
	s.last = terminal{lines: p.lines()}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, strings.Join(p.lines(), "\n"))
	}
	return nil
}

// compare looks for expected lines in what a terminal prints, or the last block
// has printed.
func (s *session) compare(name, want string) error {
	t := &s.last
	if name != "" {
		if t = s.terminals[name]; t == nil {
			return fmt.Errorf("there is no terminal %q", name)
		}
	}
	if t.process == nil {
		return t.matcher.find(want, s.writtenLines(t.lines))
	}
	err := errors.New("nothing was printed")
	t.process.wait(printWait, func(lines []string) bool {
		err = t.matcher.find(want, s.writtenLines(lines))
		return err == nil
	})
	return err
}

func (s *session) writtenLines(lines []string) []string {
	written := make([]string, len(lines))
	for i, line := range lines {
		written[i] = s.written(line)
	}
	return written
}
