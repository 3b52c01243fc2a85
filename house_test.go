package rollcall_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The floors of the house: what the packages of a folder, and of those below it,
// may import of ours. The model is "". Tests stand outside of the house.
var floors = map[string][]string{
	"examples":        {"", "wire", "store", "server/...", "client", "rollcall", "examples/..."},
	"":                nil,
	"wire":            {""},
	"store":           {""},
	"store/storetest": {"", "store"},
	"store/redis":     {"", "store", "store/redis/..."},
	"server":          {"", "wire", "store", "server/..."},
	"client":          {"", "wire"},
	"web":             {""},
	"cmd":             {"", "wire", "store", "store/redis/...", "server/...", "client", "web", "bench/...", "cmd/..."},
	"bench":           {"", "wire", "store", "store/redis/...", "server/...", "client", "web", "bench/..."},
	"test":            {"", "wire", "store", "store/...", "server/...", "client", "web", "test/..."},
	"docs":            {"", "wire", "store", "server/...", "client", "web", "docs/..."},
}

// modelImports is what the model may know of the world: nothing that has a
// clock, a lock, a socket, a file or a log.
var modelImports = []string{
	"bytes", "cmp", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// clockCalls are what the model may not ask of package time.
var clockCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}

const longestFile = 600

type sourceFile struct {
	dir, name string // dir is "" in the root
	lines     int
	test      bool
	syntax    *ast.File
	set       *token.FileSet
}

func (f *sourceFile) path() string { return path.Join(f.dir, f.name) }

func (f *sourceFile) line(n ast.Node) int { return f.set.Position(n.Pos()).Line }

// imports are the paths that the file imports.
func (f *sourceFile) imports() []string {
	var paths []string
	for _, i := range f.syntax.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// sourceFiles parses every Go file of the project.
func sourceFiles(t *testing.T) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base == "node_modules" || base == "testdata" || base[0] == '.' || base[0] == '_') {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := &sourceFile{set: token.NewFileSet(), lines: strings.Count(string(text), "\n"), test: strings.HasSuffix(name, "_test.go")}
		if f.syntax, err = parser.ParseFile(f.set, name, text, parser.ParseComments); err != nil {
			return err
		}
		f.dir, f.name = path.Split(filepath.ToSlash(name))
		f.dir = strings.TrimSuffix(f.dir, "/")
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d Go files: not the whole project", len(files))
	}
	return files
}

// floorOf is the floor of a folder: the nearest that is named.
func floorOf(dir string) (floor string, ok bool) {
	for ; dir != "" && dir != "."; dir = path.Dir(dir) {
		if _, ok := floors[dir]; ok {
			return dir, true
		}
	}
	return "", dir == ""
}

func mayImport(floor, imported string) bool {
	for _, allowed := range floors[floor] {
		below, all := strings.CutSuffix(allowed, "/...")
		if imported == below || all && strings.HasPrefix(imported, below+"/") {
			return true
		}
	}
	return false
}

func TestImportsGoDownAFloorOnly(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test {
			continue
		}
		floor, ok := floorOf(f.dir)
		if !ok {
			t.Errorf("%s: the folder is on no floor of the house", f.path())
			continue
		}
		for _, i := range f.imports() {
			ours, isOurs := strings.CutPrefix(i+"/", "rollcall/")
			if ours = strings.TrimSuffix(ours, "/"); isOurs && !mayImport(floor, ours) {
				t.Errorf("%s imports %s, which is not below it", f.path(), i)
			}
		}
	}
}

// The floors are of use only if they refuse what they should.
func TestFloorsRefuse(t *testing.T) {
	for _, test := range []struct {
		dir, imported string
		want          bool
	}{
		{"server", "store/redis", false}, {"server/auth", "store/redis", false}, {"server", "store", true},
		{"server/auth", "server/transport", true}, {"server", "store/storetest", false}, {"server", "cmd/rollcall", false},
		{"wire", "store", false}, {"store", "wire", false}, {"store", "store/redis", false}, {"store/redis", "store", true},
		{"store/redis", "server", false}, {"", "wire", false}, {"client", "server", false}, {"client", "wire", true},
		{"cmd/rollcall", "store/redis", true}, {"cmd/rollcall", "test/harness", false},
	} {
		floor, ok := floorOf(test.dir)
		if got := ok && mayImport(floor, test.imported); got != test.want {
			t.Errorf("%q may import %q: %v, want %v", test.dir, test.imported, got, test.want)
		}
	}
	if _, ok := floorOf("somewhere/else"); ok {
		t.Error("a folder that nobody has named is on a floor")
	}
}

// TestModelIsPure: the model takes the time as an argument, and does nothing
// that a test could not repeat.
func TestModelIsPure(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.dir != "" || f.test {
			continue
		}
		for _, i := range f.imports() {
			if !slices.Contains(modelImports, i) {
				t.Errorf("%s imports %s", f.path(), i)
			}
		}
		for _, fault := range impurities(f) {
			t.Error(fault)
		}
	}
}

func impurities(f *sourceFile) (faults []string) {
	fault := func(n ast.Node, what string) {
		faults = append(faults, f.path()+":"+strconv.Itoa(f.line(n))+": "+what)
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n, "starts a goroutine")
		case *ast.ChanType:
			fault(n, "has a channel")
		case *ast.SelectStmt:
			fault(n, "waits")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
				fault(n, "calls time."+n.Sel.Name)
			}
		}
		return true
	})
	for _, i := range f.syntax.Imports {
		if i.Name != nil {
			fault(i, "renames an import, which hides what it calls")
		}
	}
	return faults
}

func TestImpuritiesAreFound(t *testing.T) {
	const source = `package p
import ("time"; t2 "time")
var c = make(chan int)
func f() { go f(); select {}; _ = time.Now(); time.Sleep(1); g := time.Since; _ = g; _ = t2.Now }
`
	f := &sourceFile{set: token.NewFileSet(), name: "p.go"}
	var err error
	if f.syntax, err = parser.ParseFile(f.set, "p.go", source, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	if got := impurities(f); len(got) != 7 {
		t.Errorf("found %q, want 7 faults", got)
	}
}

func TestFilesAreShortAndPackagesHaveNames(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if !f.test && f.lines > longestFile {
			t.Errorf("%s has %d lines, more than %d", f.path(), f.lines, longestFile)
		}
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		for _, empty := range []string{"util", "utils", "common", "helper", "helpers", "manager", "types", "misc", "shared"} {
			if name == empty || path.Base(f.dir) == empty {
				t.Errorf("%s: package %s says nothing", f.path(), name)
			}
		}
	}
}

// TestTestsDoNotSkipOrSleep: a test that skips proves nothing, and one that
// sleeps is slow and still loses its race some day. In a bubble of synctest sleep
// is virtual; the whole-system tests in test/ live in real time; anywhere else
// only a poll may sleep, for 10 ms at most, and what is longer needs a reason, in
// a comment on its line or above it.
func TestTestsDoNotSkipOrSleep(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if !f.test {
			continue
		}
		virtual := slices.Contains(f.imports(), "testing/synctest") || f.dir == "test" || strings.HasPrefix(f.dir, "test/")
		commented := make(map[int]bool)
		for _, group := range f.syntax.Comments {
			commented[f.line(group)] = true
			commented[f.set.Position(group.End()).Line] = true
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, _ := selector.X.(*ast.Ident)
			line := f.line(call)
			switch name := selector.Sel.Name; {
			case x != nil && (name == "Skip" || name == "Skipf" || name == "SkipNow"):
				t.Errorf("%s:%d skips", f.path(), line)
			case x != nil && x.Name == "time" && name == "Sleep" && !virtual && !commented[line] && !commented[line-1] && !isPoll(call):
				t.Errorf("%s:%d sleeps in real time without a reason", f.path(), line)
			}
			return true
		})
	}
}

// isPoll reports whether a sleep is of at most 10 ms, as between two looks at
// something that is about to happen.
func isPoll(sleep *ast.CallExpr) bool {
	isMillisecond := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Millisecond" || s.Sel.Name == "Microsecond")
	}
	product, ok := sleep.Args[0].(*ast.BinaryExpr)
	if !ok {
		return isMillisecond(sleep.Args[0])
	}
	factor, ok := product.X.(*ast.BasicLit)
	if !ok || product.Op != token.MUL {
		return false
	}
	n, err := strconv.Atoi(factor.Value)
	return err == nil && n <= 10 && isMillisecond(product.Y)
}
