package keynote

import (
	"fmt"
	"sync/atomic"
	"time"

	"rollcall/bench/load"
)

// Goals of 10,000 members in a minute, of one node in memory.
const (
	goalFillCPU     = 10 * time.Second
	goalFillWrites  = 400_000
	goalMemoryMiB   = 120
	goalChurnCPU    = 250 * time.Millisecond // a second
	goalReturn      = 4 * time.Second
	goalReturnCPU   = 3 * time.Second
	goalReturnWrite = 40_000
	goalDip         = 0.01 // of the members
	goalDipFor      = time.Second
)

// judge says what was kept and what was met.
func (p *play) judge(r *Report) {
	promise := func(what string, ok bool, goal, format string, args ...any) {
		verdict := met
		if !ok {
			verdict = missed
		}
		r.Checks = append(r.Checks, Check{what, fmt.Sprintf(format, args...), goal, verdict, true})
	}
	p.judgeFill(promise)
	p.judgeReturn(promise)
	p.judgeCosts(r)
}

type promiser func(what string, ok bool, goal, format string, args ...any)

func (p *play) judgeFill(promise promiser) {
	s, fill, churn := p.crowd.series, p.span("fill"), p.span("churn")
	in := s.sum(fill.from, fill.to.Add(slotTime), func(s *slot) *atomic.Int64 { return &s.entered })
	promise("members in", in == p.Members, "all", "%s of %s", grouped(in), grouped(p.Members))
	dropped := s.sum(fill.from, p.killed, endedOf)
	promise("dropped before the node was killed", dropped == 0, "0", "%d", dropped)
	if p.crowded() {
		rate, length := p.steady(fill)
		promise("counts to a member, a second, above the threshold", paced(rate, length), "<= 1", "%.2f over %.0f s", rate, length.Seconds())
	}
	if churn.to.IsZero() {
		return
	}
	if p.crowded() {
		n := s.sum(churn.from, churn.to, func(s *slot) *atomic.Int64 { return &s.messages }) -
			s.sum(churn.from, churn.to, func(s *slot) *atomic.Int64 { return &s.entered })
		if p.Transport == "sse" {
			n = s.sum(churn.from, churn.to, func(s *slot) *atomic.Int64 { return &s.counts }) // without what a rotation begins with
		}
		rate := float64(n) / float64(p.Members) / churn.length().Seconds()
		promise("messages to a member, a second, in churn", paced(rate, churn.length()), "<= 1", "%.2f", rate)
	}
}

// paced reports whether a rate over a time is that of at most one a second, of
// which one more than there are seconds may fall into it.
func paced(rate float64, length time.Duration) bool {
	return rate*length.Seconds() <= length.Seconds()*1.02+1
}

// crowded reports whether the room is large enough to be in counts mode for good.
func (p *play) crowded() bool { return p.Members >= threshold*5/4 }

// steady is how many counts a second each member was sent from when the room has
// passed the threshold until all were in.
func (p *play) steady(fill *span) (rate float64, length time.Duration) {
	s := p.crowd.series
	inside, counts, sum := 0, 0, 0.0
	for i := s.index(fill.from); i < s.index(fill.to); i++ {
		inside += int(s.slots[i].entered.Load())
		if inside <= threshold*11/10 {
			continue
		}
		counts += int(s.slots[i].counts.Load())
		sum += float64(inside) * slotTime.Seconds()
		length += slotTime
	}
	if sum == 0 {
		return 0, 0
	}
	return float64(counts) / sum, length
}

// still is when nobody left, from the kill until end: all of it but the race, of
// which the last leaves are told with the count that follows.
func (p *play) still(end time.Time) []span {
	race := p.span("race")
	if race.to.IsZero() {
		return []span{{from: p.killed, to: end}}
	}
	return []span{{from: p.killed, to: race.from}, {from: race.to.Add(2 * time.Second), to: end}}
}

func (p *play) judgeReturn(promise promiser) {
	s := p.crowd.series
	end := p.span("after").to
	back := s.sortedReturns()
	ok := p.returnErr == nil
	promise("came back after kill -9", ok, "all", "%s of %s", grouped(min(len(back), p.cut)), grouped(p.cut))
	leaves, falls := s.sum(p.killed, end, leavesOf), 0
	for _, still := range p.still(end) {
		falls += s.sum(still.from, still.to, fallsOf)
	}
	promise("leaves shown of somebody who came back", leaves == 0, "0", "%d", leaves)
	promise("counts that fell, though nobody left", falls == 0, "0", "%d", falls)
	if p.Nodes > 1 {
		race := p.span("race")
		calm := end
		if !race.to.IsZero() {
			calm = race.from
		}
		depth, length := s.dip(p.killed.Add(slotTime), calm, p.beside)
		promise("dip of the count", float64(depth) < goalDip*float64(p.beside), "< 1 %", "%.2f %%", 100*float64(depth)/float64(p.beside))
		promise("length of the dip", length < goalDipFor, "< 1 s", "%.1f s", length.Seconds())
		if p.crowded() && !race.to.IsZero() {
			n := s.sum(race.from, race.to, func(s *slot) *atomic.Int64 { return &s.counts })
			rate := float64(n) / float64(p.Members) / race.length().Seconds()
			promise("counts to a member, a second, in churn with a node less", paced(rate, race.length()), "<= 1", "%.2f", rate)
		}
	}
}

// judgeCosts says what it cost. The goals are those of one node.
func (p *play) judgeCosts(r *Report) {
	judged := p.atScale() && p.Nodes == 1
	add := func(what string, ok bool, goal, format string, args ...any) {
		c := Check{What: what, Measured: fmt.Sprintf(format, args...)}
		if judged && goal != "" {
			c.Goal, c.Verdict = goal, missed
			if ok {
				c.Verdict = met
			}
		}
		r.Checks = append(r.Checks, c)
	}
	add("CPU of a round trip through a socket pair, before and after", true, "", "%.1f us, %.1f us", micros(p.before), micros(load.RoundTrip()))
	fill, full, churn, back := p.span("fill"), p.span("full"), p.span("churn"), p.span("return")
	add("CPU of the joins", fill.nodes <= goalFillCPU, "<= 10 s", "%.2f s", fill.nodes.Seconds())
	messages := p.crowd.series.sum(fill.from, fill.to, messagesOf)
	add("messages of the joins", messages <= goalFillWrites, "<= 400,000", "%s", grouped(messages))
	add("memory of the nodes when all are in", mib(full.resident) <= goalMemoryMiB, "<= 120 MiB", "%.0f MiB", mib(full.resident))
	if !churn.to.IsZero() {
		perSecond := time.Duration(float64(churn.nodes) / churn.length().Seconds())
		add("CPU a second, in churn", perSecond <= goalChurnCPU || p.Churn != 0.02, "<= 250 ms", "%.0f ms", millis(perSecond))
	}
	if gaps := p.crowd.series.sortedGaps("churn"); len(gaps) > 0 {
		// How long one fan-out takes shifts what comes at its end.
		add("time between two counts to a member: median, 1 in 10", true, "", "%.2f s, %.2f s", quantile(gaps, 0.5).Seconds(), quantile(gaps, 0.1).Seconds())
	}
	took := p.returned.Sub(p.killed)
	add("until the last is back", took <= goalReturn, "<= 4 s", "%.1f s (half after %.1f s)", took.Seconds(), quantile(p.crowd.series.sortedReturns(), 0.5).Seconds())
	add("CPU of the return", back.nodes <= goalReturnCPU, "<= 3 s", "%.2f s", back.nodes.Seconds())
	add("writes of the return", back.writes <= goalReturnWrite, "<= 40,000", "%s", grouped(int(back.writes)))
	if p.redis != nil {
		add("CPU of the store in the joins, of each", true, "", "%.0f us", fill.redis.Seconds()*1e6/float64(p.Members))
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
