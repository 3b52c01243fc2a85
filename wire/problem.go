package wire

import (
	"net/http"

	"rollcall"
)

// ProblemType is the content type of a problem (RFC 9457).
const ProblemType = "application/problem+json"

// AppendProblem appends the body of an HTTP error:
//
//	{"type":"about:blank","title","status","detail","code","limit"?,"requestId"}
//
// The title is that of the status; what tells errors apart is the code.
func AppendProblem(b []byte, e *rollcall.Error, requestID string) []byte {
	b = append(b, `{"type":"about:blank","title":`...)
	b = appendString(b, problemTitle(e.Status()))
	b = append(b, `,"status":`...)
	b = appendNumber(b, int64(e.Status()))
	b = append(b, `,"detail":`...)
	b = appendString(b, e.Detail)
	b = append(b, `,"code":`...)
	b = appendString(b, string(e.Code))
	b = appendLimit(b, e.Limit)
	b = append(b, `,"requestId":`...)
	b = appendString(b, requestID)
	return append(b, '}')
}

// problemTitle is the phrase of a status (RFC 9110).
func problemTitle(status int) string {
	if title := http.StatusText(status); title != "" && status != http.StatusRequestEntityTooLarge {
		return title
	}
	if status == http.StatusRequestEntityTooLarge {
		return "Content Too Large" // its name since RFC 9110
	}
	return "Error"
}
