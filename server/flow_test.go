package server

import (
	"testing"
	"time"

	"rollcall/wire"
)

func TestAFlowIsDenseWhileEveryTickHasSignals(t *testing.T) {
	var f flow
	ticks := func(n, signals int, every time.Duration) bool {
		for range n {
			f.heard.Add(int64(signals))
			f.turn(every)
		}
		return f.dense.Load()
	}
	if ticks(200, 1, tickEvery) {
		t.Error("one signal a tick is dense")
	}
	if ticks(200, 10, 10*tickEvery) {
		t.Error("ten signals that come once in ten ticks are dense")
	}
	if !ticks(40, 4, tickEvery) {
		t.Error("four signals a tick are not dense")
	}
	if !ticks(200, 2, tickEvery) {
		t.Error("two signals a tick have ended it")
	}
	if ticks(30, 0, tickEvery) {
		t.Error("it is dense though nothing comes")
	}
}

func TestOnlyWhoSendsSignalsAndNothingElseIsSteady(t *testing.T) {
	var f flow
	var s steadiness
	now := instant(1000)
	send := func(types ...string) bool {
		var messages []wire.Message
		for _, kind := range types {
			messages = append(messages, wire.Message{Type: kind})
		}
		now = now.add(100 * time.Millisecond)
		s.take(messages, now, &f)
		return s.goesOn(now)
	}
	for i := range steadyFrom {
		if send(wire.MessageSignal) != (i == steadyFrom-1) {
			t.Errorf("after %d signals: %v", i+1, i != steadyFrom-1)
		}
	}
	if send(wire.MessageSignal, wire.MessageSet) {
		t.Error("who sets too is steady")
	}
	for range steadyFrom {
		send(wire.MessageSignal)
	}
	if s.goesOn(now.add(steadyPause + time.Millisecond)) {
		t.Error("who has paused is steady")
	}
	now = now.add(2 * steadyPause)
	if send(wire.MessageSignal) {
		t.Error("who begins again is steady at once")
	}
}
