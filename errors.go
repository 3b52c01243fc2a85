package rollcall

import "fmt"

// Code is a stable error code of the protocol.
type Code string

// The codes.
const (
	CodeBadRequest   Code = "bad_request"
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeConflict     Code = "conflict"
	CodeGone         Code = "gone"
	CodeTooLarge     Code = "too_large"
	CodeRateLimited  Code = "rate_limited"
	CodeUnavailable  Code = "unavailable"
)

// Status is the HTTP status of the code; 500 for a code that is not one of ours.
func (c Code) Status() int {
	switch c {
	case CodeBadRequest:
		return 400
	case CodeUnauthorized:
		return 401
	case CodeForbidden:
		return 403
	case CodeNotFound:
		return 404
	case CodeConflict:
		return 409
	case CodeGone:
		return 410
	case CodeTooLarge:
		return 413
	case CodeRateLimited:
		return 429
	case CodeUnavailable:
		return 503
	}
	return 500
}

// Retry reports whether the same request may succeed later.
func (c Code) Retry() bool { return c == CodeRateLimited || c == CodeUnavailable }

// Error is an error that a client is told: a stable code, a sentence for people,
// and the limit that was passed, if one was.
type Error struct {
	Code   Code
	Detail string
	// Limit is the limit that was passed, in the unit that Detail names; 0 if
	// none was.
	Limit int
	// HTTP is the status of the answer where it is not that of the code, such as
	// 405; 0 if it is.
	HTTP int
}

// Status is the HTTP status of the answer.
func (e *Error) Status() int {
	if e.HTTP != 0 {
		return e.HTTP
	}
	return e.Code.Status()
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

// Errorf makes an [Error] without a limit.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// LimitError makes an [Error] that names the limit that was passed.
func LimitError(code Code, limit int, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...), Limit: limit}
}
