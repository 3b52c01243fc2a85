package doctor

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// evil is a web origin that nobody has.
const evil = "https://rollcall-doctor.invalid"

// examineOrigins asks as pages of several origins do: of a stranger, of the
// server's own, and of those that should be allowed.
func (v *visit) examineOrigins(ctx context.Context, found func(Finding)) {
	found(v.checkStranger(ctx))
	if v.upward {
		found(v.checkOwnOrigin(ctx))
	}
	for _, origin := range v.o.Origins {
		found(v.checkOrigin(ctx, strings.TrimSuffix(origin, "/")))
	}
}

// allowance is what an answer lets a page of an origin do.
func allowance(h http.Header, origin string) (allowed, cookies bool) {
	list := h.Values("Access-Control-Allow-Origin")
	return len(list) == 1 && (list[0] == origin || list[0] == "*"), h.Get("Access-Control-Allow-Credentials") == "true"
}

func (v *visit) checkStranger(ctx context.Context) Finding {
	const name = "strangers"
	a, err := v.call(ctx, "GET", v.at(nil, "rooms", v.room), nil, http.Header{"Origin": {evil}})
	if err != nil {
		return wrong(name, "", "%v", err)
	}
	allowed, cookies := allowance(a.header, evil)
	if allowed && cookies {
		return wrong(name, "let the server alone set the Access-Control- headers, and list origins with --allowed-origin", "pages of any web site may use the cookies of their visitors here (Origin: %s)", evil)
	}
	v.any = allowed
	if !v.upward {
		if allowed {
			return advice(name, "list the origins of your pages with --allowed-origin", "pages of any web site may read here")
		}
		return ok(name, "pages of other web sites may not read here")
	}
	conn, refused := v.dial(ctx, evil, false)
	if conn != nil {
		conn.CloseNow()
	}
	switch {
	case conn != nil && allowed:
		return advice(name, "list the origins of your pages with --allowed-origin, in place of *", "pages of any web site may connect, without cookies")
	case conn != nil:
		return wrong(name, "let the proxy pass the Origin header on as it is", "a WebSocket of a page of %s is let in", evil)
	case refused.answer != nil && refused.status == http.StatusForbidden:
		return ok(name, "a page of another web site is refused")
	}
	return advice(name, "", "a WebSocket of a page of %s gets no clear answer: %v", evil, refused)
}

// checkOwnOrigin asks as a page does that comes from the very same address.
func (v *visit) checkOwnOrigin(ctx context.Context) Finding {
	const name = "own origin"
	origin := v.base.Scheme + "://" + v.base.Host
	conn, refused := v.dial(ctx, origin, false)
	if conn != nil {
		conn.CloseNow()
		return ok(name, "pages of %s may connect", origin)
	}
	return advice(name, "let the proxy pass the Host header on (nginx: proxy_set_header Host $http_host), or list the origin with --allowed-origin", "pages of %s may not connect: %v", origin, refused)
}

// checkOrigin asks as a page of an origin that should be allowed.
func (v *visit) checkOrigin(ctx context.Context, origin string) Finding {
	name := "origin " + origin
	const list = "list it with --allowed-origin, exactly as browsers write it: scheme, host, and the port if it is not the usual one"
	a, err := v.call(ctx, "GET", v.at(nil, "rooms", v.room), nil, http.Header{"Origin": {origin}})
	if err != nil {
		return wrong(name, "", "%v", err)
	}
	allowed, cookies := allowance(a.header, origin)
	switch {
	case len(a.header.Values("Access-Control-Allow-Origin")) > 1:
		return wrong(name, "let the server alone set the Access-Control- headers", "the answer has Access-Control-Allow-Origin %d times, and a browser takes it only once", len(a.header.Values("Access-Control-Allow-Origin")))
	case !allowed:
		return wrong(name, list, "it is not allowed")
	case !cookies:
		return advice(name, list, "it is allowed as all are, without cookies")
	case !varies(a.header):
		return wrong(name, "let the proxy leave the Vary header alone, or a cache gives one origin the answer for another", "the answer does not say Vary: Origin")
	}
	before, err := v.call(ctx, "OPTIONS", v.at(nil, "rooms", v.room, "connections"), nil, http.Header{
		"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"},
	})
	if err != nil {
		return wrong(name, "", "%v", err)
	}
	if allowed, _ := allowance(before.header, origin); !allowed || before.status/100 != 2 {
		return wrong(name, "let the proxy pass OPTIONS on", "it is allowed, but the question before a POST (OPTIONS) is answered by %d", before.status)
	}
	if v.upward {
		conn, refused := v.dial(ctx, origin, false)
		if conn == nil {
			return wrong(name, list, "it may read, and its WebSockets may not connect: %v", refused)
		}
		conn.CloseNow()
	}
	return ok(name, "allowed, with cookies")
}

func varies(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Vary"), func(value string) bool {
		return slices.ContainsFunc(strings.Split(value, ","), func(name string) bool {
			name = strings.TrimSpace(name)
			return name == "*" || strings.EqualFold(name, "Origin")
		})
	})
}
