package wire

import (
	"strconv"
	"strings"

	"rollcall"
)

// Since is the state of a room that a client holds.
type Since struct {
	Epoch   rollcall.Epoch
	Version rollcall.Version
}

// String is the form of the query parameter, epoch.version.
func (s Since) String() string {
	return string(s.Epoch) + "." + strconv.FormatInt(int64(s.Version), 10)
}

// ParseSince reads the query parameter. An epoch is opaque and may have a dot of
// its own; a version has none.
func ParseSince(s string) (Since, error) {
	dot := strings.LastIndexByte(s, '.')
	if dot > 0 {
		if n, ok := parseInteger([]byte(s[dot+1:])); ok {
			return Since{rollcall.Epoch(s[:dot]), rollcall.Version(n)}, nil
		}
	}
	return Since{}, rollcall.Errorf(rollcall.CodeBadRequest, "since must be epoch.version")
}

// since reads the object of a message.
func (f *fields) since(to **Since) {
	if f.value[0] != '{' {
		f.fail("a JSON object")
		return
	}
	var (
		epoch, version = "", int64(-1)
		in             = newFields(f.value)
	)
	in.path = f.path + string(f.key) + "."
	for in.next() {
		switch string(in.key) {
		case "epoch":
			in.text(&epoch)
		case "version":
			in.integer(&version)
		}
	}
	in.need("epoch", epoch != "")
	in.need("version", version >= 0)
	f.err = in.err
	*to = &Since{rollcall.Epoch(epoch), rollcall.Version(version)}
}
