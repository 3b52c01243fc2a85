package server

import (
	"testing"

	"rollcall"
	"rollcall/wire"
)

func TestLastEventIDsSayWhatTheyMean(t *testing.T) {
	since := func(epoch rollcall.Epoch, v rollcall.Version) wire.Since { return wire.Since{Epoch: epoch, Version: v} }
	for id, want := range map[string]lastEvent{
		"":                {},
		"r":               {resume: "r"},
		"r~":              {resume: "r"},
		"r~dead.7":        {resume: "r", since: since("dead", 7)}, // no digest, though it begins with a d
		"r~e.7~~a":        {resume: "r", since: since("e", 7), asked: 10},
		"r~~xyz":          {resume: "r", digest: "xyz"},
		"r~~xyz~10":       {resume: "r", digest: "xyz", asked: 36},
		"r~nonsense~d~??": {resume: "r", digest: "d"},
		"r~a.1~b~c~d~e":   {resume: "r", since: since("a", 1), digest: "b", asked: 12},
	} {
		if got := parseLastEvent(id); got != want {
			t.Errorf("%q: got %+v, want %+v", id, got, want)
		}
	}
}
