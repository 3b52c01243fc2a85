// Package doctor examines a deployment: from outside, as browsers see it through
// whatever is in between, and from inside, at the store and at a node's admin
// listener. It judges what it sees and tells what to do.
//
// It is a guest that leaves nothing behind: it observes one room that it makes
// up, is present there for moments, and closes everything.
package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"
)

// Verdict is how good what was seen is.
type Verdict string

// The verdicts, the best first.
const (
	OK     Verdict = "ok"
	Advice Verdict = "advice" // it works, and could be better; or it was not looked at
	Wrong  Verdict = "wrong"
)

// Finding is what one check found.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
	Do      string  `json:"do,omitempty"`
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: OK, Seen: fmt.Sprintf(format, args...)}
}

func advice(check, do, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Advice, Seen: fmt.Sprintf(format, args...), Do: do}
}

func wrong(check, do, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Wrong, Seen: fmt.Sprintf(format, args...), Do: do}
}

// Options say what to examine: whatever is not "".
type Options struct {
	URL     string   // as clients use it
	Token   string   // of a user, or an sk_ key; "" for a guest
	Room    string   // to try things in; "" is one that the token allows, made up
	Origins []string // web origins that should be allowed
	// Hold is how long to hold a quiet stream; 0 is until its first beat, which
	// is awaited for 12 s.
	Hold time.Duration

	Store string // redis://...
	Admin string // http://host:port of the admin listener

	// Note is told what takes long; may be nil.
	Note func(text string)
}

// Any reports whether anything is wrong.
func Any(findings []Finding) bool {
	for _, f := range findings {
		if f.Verdict == Wrong {
			return true
		}
	}
	return false
}

// Run makes all checks and hands over each finding when it is there. The error is
// that of ctx, or of an option.
func Run(ctx context.Context, o Options, found func(Finding)) error {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Store != "" {
		examineStore(ctx, o.Store, found)
	}
	if o.Admin != "" {
		examineAdmin(ctx, o.Admin, found)
	}
	if o.URL != "" {
		v, err := newVisit(o)
		if err != nil {
			return err
		}
		defer v.close()
		v.examine(ctx, found)
	}
	return ctx.Err()
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is no URL", text)
	case u.Scheme == "ws":
		u.Scheme = "http"
	case u.Scheme == "wss":
		u.Scheme = "https"
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q must begin with http:// or https:// and have a host", u.Redacted())
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	return u, nil
}

func random() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// short is a duration for people.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// quantile of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
