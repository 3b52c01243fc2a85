package wire

import (
	"math"
	"strconv"
	"unicode/utf8"

	"rollcall"
)

// scanner reads one JSON text strictly, token by token, and writes its compact
// form: the same tokens, byte for byte, with nothing between them. It keeps its
// own stack, so that nesting costs no stack of the goroutine.
type scanner struct {
	in    []byte
	pos   int
	out   []byte
	limit int // most bytes of out; 0: none
	depth int // most open containers
	stack []level
	keys  keys
}

// level is one open container.
type level struct {
	close byte // ] or }
	items int
	first int                 // the first of its keys in scanner.keys
	seen  map[string]struct{} // its keys, once they are many
}

// scan checks that raw is one JSON value and returns its compact form, which is
// a new slice.
func scan(raw []byte, limit, depth int) ([]byte, *rollcall.Error) {
	if !utf8.Valid(raw) {
		return nil, rollcall.Errorf(rollcall.CodeBadRequest, "is not valid UTF-8")
	}
	size := len(raw)
	if limit > 0 {
		size = min(size, limit)
	}
	s := scanner{
		in: raw, limit: limit, depth: depth, out: make([]byte, 0, size),
		stack: make([]level, 0, 4), keys: make(keys, 0, 8),
	}
	err := s.value()
	for err == nil && len(s.stack) > 0 {
		err = s.item()
	}
	if err != nil {
		return nil, err
	}
	if s.space(); s.pos < len(s.in) {
		return nil, s.unexpected()
	}
	return s.out, nil
}

// value reads a scalar or opens a container.
func (s *scanner) value() *rollcall.Error {
	s.space()
	if s.pos == len(s.in) {
		return s.unexpected()
	}
	switch c := s.in[s.pos]; {
	case c == '{':
		return s.open('}')
	case c == '[':
		return s.open(']')
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.word()
}

// item reads the next item of the innermost container, or its end.
func (s *scanner) item() *rollcall.Error {
	top := &s.stack[len(s.stack)-1]
	s.space()
	if s.at(top.close) {
		s.keys = s.keys[:top.first]
		s.stack = s.stack[:len(s.stack)-1]
		return s.token(s.pos + 1)
	}
	if top.items > 0 {
		if !s.at(',') {
			return s.unexpected()
		}
		if err := s.token(s.pos + 1); err != nil {
			return err
		}
	}
	top.items++
	if top.close == '}' {
		if err := s.key(top); err != nil {
			return err
		}
	}
	return s.value()
}

// key reads a key and its colon.
func (s *scanner) key(top *level) *rollcall.Error {
	s.space()
	if !s.at('"') {
		return s.unexpected()
	}
	start := s.pos
	key, err := s.text()
	if err != nil {
		return err
	}
	if !s.keys.add(top, unquoted(key)) {
		return rollcall.Errorf(rollcall.CodeBadRequest, "has a key twice in one object, at byte %d", start)
	}
	if s.space(); !s.at(':') {
		return s.unexpected()
	}
	return s.token(s.pos + 1)
}

func (s *scanner) open(close byte) *rollcall.Error {
	if len(s.stack) >= s.depth {
		return rollcall.LimitError(rollcall.CodeTooLarge, rollcall.MaxDepth, "is nested deeper than %d levels", rollcall.MaxDepth)
	}
	s.stack = append(s.stack, level{close: close, first: len(s.keys)})
	return s.token(s.pos + 1)
}

// word reads true, false or null; any other word is told by its name, because
// NaN and Infinity are what programs write most.
func (s *scanner) word() *rollcall.Error {
	end := s.pos
	for end < len(s.in) && (s.in[end]|0x20 >= 'a' && s.in[end]|0x20 <= 'z') {
		end++
	}
	switch w := s.in[s.pos:end]; string(w) {
	case "true", "false", "null":
		return s.token(end)
	case "":
		return s.unexpected()
	default:
		return rollcall.Errorf(rollcall.CodeBadRequest, "has the bare word %.16s at byte %d, which is not JSON", w, s.pos)
	}
}

// number reads a number, which stays as it is written.
func (s *scanner) number() *rollcall.Error {
	end := s.pos
	digits := func() bool {
		from := end
		for end < len(s.in) && s.in[end] >= '0' && s.in[end] <= '9' {
			end++
		}
		return end > from
	}
	is := func(set string) bool {
		for i := 0; end < len(s.in) && i < len(set); i++ {
			if s.in[end] == set[i] {
				end++
				return true
			}
		}
		return false
	}
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		ok = digits()
	}
	exponent := false
	if ok && is("eE") {
		exponent = true
		is("+-")
		ok = digits()
	}
	if !ok {
		return rollcall.Errorf(rollcall.CodeBadRequest, "has a malformed number at byte %d", s.pos)
	}
	if exponent || end-s.pos > 300 { // only these can pass 1.8e308
		if f, _ := strconv.ParseFloat(string(s.in[s.pos:end]), 64); math.IsInf(f, 0) {
			return rollcall.Errorf(rollcall.CodeBadRequest, "has a number at byte %d that is too large for a float64", s.pos)
		}
	}
	return s.token(end)
}

// token writes what is read up to end.
func (s *scanner) token(end int) *rollcall.Error {
	if s.limit > 0 && len(s.out)+end-s.pos > s.limit {
		return rollcall.LimitError(rollcall.CodeTooLarge, s.limit, "is larger than %d bytes", s.limit)
	}
	s.out = append(s.out, s.in[s.pos:end]...)
	s.pos = end
	return nil
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.in) && s.in[s.pos] == c }

func (s *scanner) space() { s.pos = space(s.in, s.pos) }

func (s *scanner) unexpected() *rollcall.Error {
	if s.pos >= len(s.in) {
		return rollcall.Errorf(rollcall.CodeBadRequest, "is not JSON: it ends at byte %d", s.pos)
	}
	return rollcall.Errorf(rollcall.CodeBadRequest, "is not JSON: unexpected character at byte %d", s.pos)
}

// space is the position of the first byte from pos on that is not white space.
func space(in []byte, pos int) int {
	for pos < len(in) && (in[pos] == ' ' || in[pos] == '\n' || in[pos] == '\r' || in[pos] == '\t') {
		pos++
	}
	return pos
}
