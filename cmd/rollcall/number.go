package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// Every number and every time of the command line has limits. They stand in the
// tags of its flag, least and most, and both are allowed. A flag that is not given
// and has no default is not looked at.

// readNumbers are the options of a parser that keeps to the limits.
func readNumbers() []kong.Option {
	return []kong.Option{
		kong.KindMapper(reflect.Int, number("a whole number", strconv.Atoi)),
		kong.KindMapper(reflect.Float64, number("a number", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), number("a time such as 500ms, 30s or 1h30m", time.ParseDuration)),
		kong.PostBuild(tellLimits),
	}
}

// number reads what a flag of the kind is given, and refuses what is out of its
// limits. must says how such a number is written.
func number[T int | float64 | time.Duration](must string, parse func(string) (T, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		token := ctx.Scan.Pop()
		if token.IsEOL() {
			return fmt.Errorf("%s is missing", must)
		}
		// What begins with a dash is a number below 0, or else no number.
		text := fmt.Sprint(token.Value)
		n, err := parse(text)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // which is out of the limits, too
			return fmt.Errorf("%q is not %s", text, must)
		}
		limits := make([]T, 2)
		for i, name := range []string{"least", "most"} {
			if limits[i], err = parse(ctx.Value.Tag.Get(name)); err != nil {
				return fmt.Errorf("its tag %s: %w", name, err)
			}
		}
		if !(n >= limits[0] && n <= limits[1]) { // neither is NaN
			return fmt.Errorf("%s is not between %s and %s", text, ctx.Value.Tag.Get("least"), ctx.Value.Tag.Get("most"))
		}
		target.Set(reflect.ValueOf(n))
		return nil
	}
}

// tellLimits has the help of every number say what its limits are.
func tellLimits(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && f.Tag.Has("least") {
			f.Help += fmt.Sprintf(" From %s to %s.", f.Tag.Get("least"), f.Tag.Get("most"))
		}
		return next(nil)
	})
}
