package wire

import (
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
	b = appendString(b, problemTitle(e.Code))
	b = append(b, `,"status":`...)
	b = appendNumber(b, int64(e.Code.Status()))
	b = append(b, `,"detail":`...)
	b = appendString(b, e.Detail)
	b = append(b, `,"code":`...)
	b = appendString(b, string(e.Code))
	b = appendLimit(b, e.Limit)
	b = append(b, `,"requestId":`...)
	b = appendString(b, requestID)
	return append(b, '}')
}

// problemTitle is the phrase of the status of a code (RFC 9110).
func problemTitle(c rollcall.Code) string {
	switch c {
	case rollcall.CodeBadRequest:
		return "Bad Request"
	case rollcall.CodeUnauthorized:
		return "Unauthorized"
	case rollcall.CodeForbidden:
		return "Forbidden"
	case rollcall.CodeNotFound:
		return "Not Found"
	case rollcall.CodeConflict:
		return "Conflict"
	case rollcall.CodeGone:
		return "Gone"
	case rollcall.CodeTooLarge:
		return "Content Too Large"
	case rollcall.CodeRateLimited:
		return "Too Many Requests"
	case rollcall.CodeUnavailable:
		return "Service Unavailable"
	}
	return "Internal Server Error"
}
