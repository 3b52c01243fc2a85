package main

import (
	"errors"
	"fmt"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// failure is an error with advice.
type failure struct {
	err  error
	hint string // what to try next; "" if nobody knows
	code int    // exit code; 0 is exitFailed
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// wrong is a failure of who called.
func wrong(hint, format string, args ...any) *failure {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, code: exitUsage}
}

// failed is a failure of something else.
func failed(hint, format string, args ...any) *failure {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, code: exitFailed}
}

// fail tells people what went wrong; the result is the exit code.
func (c *console) fail(err error) int {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{err: err}
	}
	c.say("error: %v", plain(err.Error()))
	if f.hint != "" {
		c.say("hint: %s", f.hint)
	}
	if f.code == 0 {
		return exitFailed
	}
	return f.code
}
