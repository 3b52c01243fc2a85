package redis

import (
	"context"
	_ "embed"
	"fmt"

	"rollcall"
	"rollcall/store"
)

//go:embed estimate.lua
var estimateLua string

var estimateScript = script(estimateLua)

var _ store.Estimates = (*Store)(nil)

// Exchange implements [store.Estimates], in one round trip. What another node has
// written that cannot be read is left out, and told as an error along with the rest.
func (s *Store) Exchange(ctx context.Context, node string, own []store.RoomSketch) ([]*rollcall.Sketch, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	calls := make([]scriptCall, len(own))
	for i := range own {
		p := &s.parts[rollcall.PartitionOf(own[i].Room)]
		do, text := "r", ""
		switch sketch := own[i].Sketch; {
		case sketch == nil:
		case sketch.Empty():
			do = "d"
		default:
			do, text = "s", string(sketch.Append(nil))
		}
		calls[i] = scriptCall{p, s.args(p, "", node, micros(s.o.Timing.Lease), audienceName(own[i].Room), do, text)}
	}
	others := make([]*rollcall.Sketch, len(own))
	var foreign error
	for i, res := range s.run(ctx, estimateScript, calls...) {
		answer, _, err := s.answer(calls[i].p, res)
		if err != nil {
			return nil, fmt.Errorf("exchange: %w", err)
		}
		if len(answer) < 1 {
			return nil, fmt.Errorf("exchange: no values where 1 is due")
		}
		list, err := answer[0].ToArray()
		if err != nil {
			return nil, fmt.Errorf("exchange: %w", err)
		}
		others[i] = &rollcall.Sketch{}
		for _, m := range list {
			text, err := m.ToString()
			if err != nil {
				foreign = errForeign
				continue
			}
			sketch, err := rollcall.DecodeSketch([]byte(text))
			if err != nil {
				foreign = fmt.Errorf("%w: %w", errForeign, err)
				continue
			}
			others[i].Merge(sketch)
		}
	}
	return others, foreign
}
