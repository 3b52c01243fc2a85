package redis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLs(t *testing.T) {
	type where struct {
		Hosts                              []string
		User, Password                     string
		DB                                 int
		TLS                                bool
		Master, SentinelUser, SentinelPass string
	}
	for text, want := range map[string]where{
		"redis://h":                            {Hosts: []string{"h:6379"}},
		"valkey://h:1/3":                       {Hosts: []string{"h:1"}, DB: 3},
		"rediss://ana:p%40%3F%2F@h:1?db=2":     {Hosts: []string{"h:1"}, User: "ana", Password: "p@?/", DB: 2, TLS: true},
		"redis://[::1]":                        {Hosts: []string{"[::1]:6379"}},
		"redis://:p@h1:1,h2,h3:3":              {Hosts: []string{"h1:1", "h2:6379", "h3:3"}, Password: "p"},
		"redis+sentinel://h1:1,h2:2/the%20one": {Hosts: []string{"h1:1", "h2:2"}, Master: "the one"},
		"rediss+sentinel://u:p@h1:1/m?sentinelUser=su&sentinelPassword=s%26p&db=4": {
			Hosts: []string{"h1:1"}, User: "u", Password: "p", DB: 4, TLS: true, Master: "m", SentinelUser: "su", SentinelPass: "s&p",
		},
		"redis+sentinel://u:p@h1:1/m": {Hosts: []string{"h1:1"}, User: "u", Password: "p", Master: "m"},
	} {
		o, err := parseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := where{o.InitAddress, o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, o.Sentinel.MasterSet, o.Sentinel.Username, o.Sentinel.Password}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
		if got.Master != "" && got.TLS != (o.Sentinel.TLSConfig != nil) {
			t.Errorf("%s: the sentinels are spoken to otherwise than the servers", text)
		}
	}
	for text, want := range map[string]string{
		"memory":                        "redis://HOST:PORT",
		"redis://":                      "names no host",
		"redis://h,:1":                  "names no host",
		"redis://h:65536":               "between 1 and 65535",
		"redis://u:hidden/more@h":       "between 1 and 65535",
		"redis://::1":                   "not HOST:PORT",
		"http://u:hidden@h":             `"http" is not known`,
		"redis+sentinel://u:hidden@h:1": "name of the master",
		"redis://u:hidden@h:1?sentinelPassword=hidden": "for redis+sentinel://",
		"redis://u:hidden@h:1?passwort=hidden":         `no "passwort"`,
		"redis://u:hidden@h:1?ca=/hidden":              "for rediss://",
		"rediss://u:hidden@h:1?ca=/none":               "no such file",
		"rediss://u:hidden@h:1?cert=/none":             "no such file",
		"redis://u:hidden@h:1?db=x":                    "database number",
		"redis://u:hid%zzden@h:1":                      "cannot be read",
		"redis://u:hidden@h:1?db=%zzhidden":            "cannot be read",
	} {
		if _, err := parseURL(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") && !strings.Contains(text, "ca=/hidden") {
			t.Errorf("%s: got %v, want %q and no password", text, err, want)
		}
	}
}
