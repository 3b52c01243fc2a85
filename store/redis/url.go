package redis

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// parseURL reads where the store is. Errors never contain the password.
func parseURL(text string) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return rueidis.ClientOption{}, fmt.Errorf("the store is redis://HOST:PORT, rediss://... or redis+sentinel://...")
	}
	sentinel := false
	switch scheme {
	case "redis", "rediss", "valkey", "valkeys":
		scheme = strings.Replace(scheme, "valkey", "redis", 1)
	case "redis+sentinel", "rediss+sentinel":
		sentinel = true
		scheme = strings.TrimSuffix(scheme, "+sentinel")
	default:
		return rueidis.ClientOption{}, fmt.Errorf("a store of kind %q is not known; it is redis, rediss or redis+sentinel", scheme)
	}
	hosts, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, path = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	list := strings.Split(hosts, ",")
	for i := range list {
		list[i] = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(list[i], "redis://"), "rediss://"), "//")
		if !strings.Contains(list[i], ":") {
			list[i] += ":6379"
		}
	}
	if sentinel {
		return sentinelOption(scheme, user, list, path)
	}
	option, err := rueidis.ParseURL(scheme + "://" + user + list[0] + path)
	if err != nil {
		return option, badURL(err)
	}
	option.InitAddress = list
	return option, nil
}

func sentinelOption(scheme, user string, hosts []string, path string) (rueidis.ClientOption, error) {
	master, query, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
	if master == "" {
		return rueidis.ClientOption{}, fmt.Errorf("the name of the master is missing: redis+sentinel://HOST:PORT,.../MASTER")
	}
	name, err := url.PathUnescape(master)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("the name of the master cannot be read")
	}
	text := scheme + "://" + user + hosts[0]
	if query != "" {
		text += "?" + query
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		return option, badURL(err)
	}
	option.InitAddress = hosts
	option.Sentinel = rueidis.SentinelOption{MasterSet: name, TLSConfig: option.TLSConfig}
	return option, nil
}

// badURL keeps the text of the URL, which may have a password, out of an error.
func badURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		err = u.Err
	}
	return fmt.Errorf("the address of the store cannot be read: %w", err)
}
