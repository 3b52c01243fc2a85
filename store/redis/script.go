package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"

	"github.com/redis/rueidis"
)

// lua is a script, which the server knows by its hash once it has run it.
type lua struct{ body, sha string }

func script(body string) *lua {
	body = "#!lua\n" + preludeLua + body
	sum := sha1.Sum([]byte(body))
	return &lua{body: body, sha: hex.EncodeToString(sum[:])}
}

// scriptCall is one run of a script in a partition.
type scriptCall struct {
	p    *partition
	args []string
}

// run runs a script in several partitions, in one round trip; a second one for
// the servers that do not know it yet.
func (s *Store) run(ctx context.Context, l *lua, calls ...scriptCall) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = s.client.B().Evalsha().Sha1(l.sha).Numkeys(1).Key(c.p.head).Arg(c.args...).Build()
	}
	results := s.client.DoMulti(ctx, commands...)
	var unknown []int
	commands = commands[:0]
	for i, res := range results {
		if e, ok := rueidis.IsRedisErr(res.Error()); ok && e.IsNoScript() {
			unknown = append(unknown, i)
			commands = append(commands, s.client.B().Eval().Script(l.body).Numkeys(1).Key(calls[i].p.head).Arg(calls[i].args...).Build())
		}
	}
	if len(unknown) > 0 {
		for i, res := range s.client.DoMulti(ctx, commands...) {
			results[unknown[i]] = res
		}
	}
	for i, res := range results {
		s.noteAway(ctx, calls[i].p, res.Error())
	}
	return results
}

// errAway is the error of a partition that was left out.
var errAway = errors.New("this part of the store failed a moment ago")

// noteAway notes whether a partition can be reached. One that can again is asked
// at once what has been said meanwhile.
func (s *Store) noteAway(ctx context.Context, p *partition, err error) {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return // the caller went away
	case err != nil:
		p.away.Store(true)
	case p.away.Swap(false) && s.feed != nil && s.ctx.Err() == nil:
		s.wg.Go(func() { s.pollOne(p) })
	}
}
