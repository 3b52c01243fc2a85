package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"rollcall/store/redis"
)

// checkURL finds what cannot be the URL of a server before anybody is asked. name
// is the flag that it was given by, and example a URL as it should be. What is
// told has no password.
func checkURL(name, text, example string, schemes ...string) error {
	hint := name + " " + example
	if !strings.Contains(text, "://") {
		if text != "" && !strings.ContainsAny(text, "@ ") {
			hint = fmt.Sprintf("%s %s://%s", name, schemes[0], text)
		}
		return wrong(hint, "%s %s does not begin with %s://", name, quoted(text), strings.Join(schemes, ":// or "))
	}
	u, err := url.Parse(text)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the text
		}
		return wrong(hint, "%s %s: %w", name, quoted(text), err)
	}
	if !slices.Contains(schemes, u.Scheme) {
		return wrong(hint, "%s %s does not begin with %s://", name, quoted(text), strings.Join(schemes, ":// or "))
	}
	if u.Hostname() == "" {
		return wrong(hint, "%s %s names no host", name, quoted(text))
	}
	if u.Port() != "" {
		if _, err := net.LookupPort("tcp", u.Port()); err != nil || u.Port() == "0" {
			return wrong(hint, "%s %s: port %s is not between 1 and 65535", name, quoted(text), u.Port())
		}
	}
	return nil
}

// quoted is an address in quotes, if it certainly has no password.
func quoted(text string) string {
	if strings.Contains(text, "@") {
		return "(not shown, since it may have a password)"
	}
	return fmt.Sprintf("%q", text)
}

// checkShared finds what cannot be the address of a shared store.
func checkShared(address string) error {
	if err := redis.CheckURL(address); err != nil {
		where := address
		if scheme, _, ok := strings.Cut(address, "://"); ok && strings.ContainsAny(address, "@?") {
			where = scheme + "://..."
		}
		return wrong("write it as redis://HOST:PORT, rediss://HOST:PORT with TLS, redis://H1:P1,H2:P2 for a cluster, or redis+sentinel://H1:P1,H2:P2/MASTER",
			"--store %s: %w", quoted(where), err)
	}
	return nil
}

// checkListen finds what cannot be listened at; the results are its parts.
func checkListen(flag, address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil || port == "" {
		return "", "", wrong("write it as 127.0.0.1:8080, or [::1]:8080, or :8080 for every address", "%s %q is not HOST:PORT", flag, address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", "", wrong(fmt.Sprintf("%s HOST:0 takes any port that is free", flag), "%s %q: port %s is not between 0 and 65535", flag, address, port)
	}
	return host, port, nil
}
