package main

import "testing"

func TestAddressesAreToldWithoutPasswords(t *testing.T) {
	for address, want := range map[string]string{
		"redis://ana:hidden@h:1/2":                                     "redis://h:1/2",
		"rediss://:hid%40den@h1:1,h2:2?ca=/f":                          "rediss://h1:1,h2:2",
		"redis+sentinel://u:hidden@h1/m?sentinelPassword=hid@den&db=3": "redis+sentinel://h1/m",
		"memory": "(no address)",
	} {
		if got := redacted(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
