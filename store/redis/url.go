package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// parameters are what the query of a URL may have; the files are read at the start.
var parameters = []string{
	"db",                               // the number of the database
	"sentinelUser", "sentinelPassword", // for the sentinels; those before the @ are for the servers of the data
	"ca",          // file of certificates that sign the server's, in place of those that the machine trusts
	"cert", "key", // files of our own certificate and its key, for servers that ask for one
	"skip_verify", // whoever the server is, for tests
}

// topologyEvery is how often the sentinels are asked who the master is, in case
// their word of a change was missed.
const topologyEvery = 5 * time.Second

// option is how to connect to the store of a URL.
func option(text string, timeout time.Duration) (rueidis.ClientOption, error) {
	o, err := parseURL(text)
	o.ConnWriteTimeout, o.Dialer.Timeout, o.Sentinel.Dialer.Timeout = timeout, timeout, timeout
	o.DisableCache = true // nothing is tracked
	return o, err
}

// CheckURL finds what is wrong with the URL of a store, without connecting to it.
// The error has no password.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// parseURL reads where the store is. Errors never contain a password.
func parseURL(text string) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return rueidis.ClientOption{}, errors.New("this is no address of a store, such as redis://HOST:PORT, rediss://... or redis+sentinel://...")
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
	rest, raw, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(raw)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("what follows the ? in the address of the store cannot be read")
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			return rueidis.ClientOption{}, fmt.Errorf("the address of the store has no %q; it has %s", name, strings.Join(parameters, ", "))
		}
	}
	hosts, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		hosts, path = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	list := strings.Split(hosts, ",")
	for i := range list {
		list[i] = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(list[i], "redis://"), "rediss://"), "//")
		if list[i], err = hostPort(list[i]); err != nil {
			return rueidis.ClientOption{}, err
		}
	}
	master := ""
	if sentinel {
		if master, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil || master == "" {
			return rueidis.ClientOption{}, fmt.Errorf("the name of the master is missing: redis+sentinel://HOST:PORT,.../MASTER")
		}
		path = ""
	}
	o, err := rueidis.ParseURL(scheme + "://" + user + list[0] + path + "?" + url.Values{"db": query["db"], "skip_verify": query["skip_verify"]}.Encode())
	if err != nil {
		return o, badURL(err)
	}
	o.InitAddress = list
	if err := secure(&o, query); err != nil {
		return o, err
	}
	if sentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: master, TLSConfig: o.TLSConfig, TopologyRefreshInterval: topologyEvery,
			Username: query.Get("sentinelUser"), Password: query.Get("sentinelPassword"),
		}
	} else if query.Has("sentinelUser") || query.Has("sentinelPassword") {
		return o, fmt.Errorf("sentinelUser and sentinelPassword are for redis+sentinel://")
	}
	return o, nil
}

// hostPort is HOST:PORT of one host of a URL, whose port may be left out. What is
// wrong may be part of a password that was not encoded, so it is not told.
func hostPort(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		text += ":6379"
		host, port, err = net.SplitHostPort(text)
	}
	if err != nil {
		return "", errors.New("a host of the store is not HOST:PORT")
	}
	if host == "" {
		return "", errors.New("the address of the store names no host")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errors.New("the port of the store is not between 1 and 65535")
	}
	return text, nil
}

// secure reads the certificates that a URL names.
func secure(o *rueidis.ClientOption, query url.Values) error {
	ca, cert, key := query.Get("ca"), query.Get("cert"), query.Get("key")
	if o.TLSConfig == nil {
		if ca+cert+key != "" {
			return fmt.Errorf("ca, cert and key are for rediss://")
		}
		return nil
	}
	o.TLSConfig.ServerName = "" // that of each host
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("the ca of the store: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("the ca of the store: %s has no certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("the cert and key for the store: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// badURL keeps the text of the URL, which may have a password, out of an error.
func badURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fmt.Errorf("the address of the store cannot be read: %w", err)
}
