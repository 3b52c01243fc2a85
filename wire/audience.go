package wire

import (
	"encoding/json"
	"strconv"
	"time"
)

// Audience is how many distinct users were in a room within a window.
type Audience struct {
	Estimate int
	// StandardError is that of Estimate, as a part of it; 0 if it is exact.
	StandardError float64
	Window        time.Duration
}

// AppendAudience appends {"estimate","standardError","windowMs"}.
func AppendAudience(b []byte, a Audience) []byte {
	b = append(b, `{"estimate":`...)
	b = appendNumber(b, int64(a.Estimate))
	b = append(b, `,"standardError":`...)
	b = appendFraction(b, a.StandardError)
	b = append(b, `,"windowMs":`...)
	return append(appendMillis(b, a.Window), '}')
}

// appendFraction appends a number from 0 to 1.
func appendFraction(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'f', -1, 64) }

// DecodeAudience reads the answer to a read of an audience.
func DecodeAudience(raw []byte) (a Audience, err error) {
	a.Estimate = -1
	f := answer("audience", raw)
	for f.next() {
		switch string(f.key) {
		case "estimate":
			f.count(&a.Estimate)
		case "standardError":
			f.fraction(&a.StandardError)
		case "windowMs":
			f.millis(&a.Window)
		}
	}
	f.need("estimate", a.Estimate >= 0)
	return a, asError(f.err)
}

// fraction reads a number that is not negative.
func (f *fields) fraction(to *float64) {
	if json.Unmarshal(f.value, to) != nil || *to < 0 {
		f.fail("a number that is not negative")
	}
}
