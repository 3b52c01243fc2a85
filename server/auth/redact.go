package auth

import (
	"net/url"
	"strings"
)

// redacted stands in the place of a secret.
const redacted = "REDACTED"

// secretNames are the query parameters that carry a secret, in lower case.
var secretNames = map[string]bool{QueryName: true, "resume": true}

// RedactURL is a URL for logs: the values of access_token and resume, and a
// password, are replaced by REDACTED, and nothing else is changed. u is not
// changed. nil gives "".
func RedactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	if u.RawQuery == "" {
		return u.Redacted()
	}
	clean := *u
	clean.RawQuery = redactQuery(u.RawQuery)
	return clean.Redacted()
}

// redactQuery hides rather too much than too little: a name counts in any case
// and with any escapes, and a semicolon separates too, although the standard
// library takes no parameter that holds one.
func redactQuery(query string) string {
	var b strings.Builder
	for len(query) > 0 {
		pair, separator := query, ""
		if i := strings.IndexAny(query, "&;"); i >= 0 {
			pair, separator = query[:i], query[i:i+1]
		}
		query = query[len(pair)+len(separator):]
		name, value, ok := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); ok && value != "" && (err != nil || secretNames[strings.ToLower(plain)]) {
			b.WriteString(name + "=" + redacted)
		} else {
			b.WriteString(pair)
		}
		b.WriteString(separator)
	}
	return b.String()
}
