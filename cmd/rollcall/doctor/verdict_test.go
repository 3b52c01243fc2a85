package doctor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rollcall/store/redis"
)

func server(pairs ...string) *redis.Server {
	s := &redis.Server{Name: "Redis", Version: "7.2.0", Fit: true, Info: make(map[string]string), PubSubLimit: "33554432 8388608 60"}
	for i := 0; i < len(pairs); i += 2 {
		s.Info[pairs[i]] = pairs[i+1]
	}
	return s
}

// TestVerdictsOnAStore: what harms is wrong, what may come to harm is advice, and
// both say what to do.
func TestVerdictsOnAStore(t *testing.T) {
	one := &redis.Examination{Kind: "standalone"}
	limit := func(text string) *redis.Server { s := server(); s.PubSubLimit = text; return s }
	cluster := func(state string) Finding {
		s := server()
		s.Slots = state
		return checkCluster(&redis.Examination{Kind: "cluster", Servers: []redis.Server{*s}})
	}
	pings := func(d time.Duration) Finding {
		return checkLatency(&redis.Examination{Pings: []time.Duration{d, d, d}})
	}
	for name, tt := range map[string]struct {
		got  Finding
		want Verdict
	}{
		"noeviction":                {checkEviction(one, server("maxmemory_policy", "noeviction", "maxmemory", "1000")), OK},
		"evicts":                    {checkEviction(one, server("maxmemory_policy", "allkeys-lru", "maxmemory", "1000")), Wrong},
		"would evict":               {checkEviction(one, server("maxmemory_policy", "allkeys-lru", "maxmemory", "0")), Advice},
		"does not tell":             {checkEviction(one, server()), Advice},
		"memory nearly full":        {checkMemory(one, server("used_memory", "900", "maxmemory", "1000")), Advice},
		"memory free":               {checkMemory(one, server("used_memory", "100", "maxmemory", "1000")), OK},
		"subscribers cut early":     {checkOutput(one, limit("1048576 1048576 60")), Advice},
		"subscribers without limit": {checkOutput(one, limit("0 0 0")), OK},
		"limit not told":            {checkOutput(one, limit("")), Advice},
		"replica":                   {checkRole(one, server("role", "slave", "master_host", "m", "master_port", "1")), Wrong},
		"disk full":                 {checkPersistence(one, server("aof_enabled", "1", "aof_last_write_status", "err")), Wrong},
		"snapshot failed":           {checkPersistence(one, server("rdb_last_bgsave_status", "err")), Wrong},
		"keeps nothing":             {checkPersistence(one, server("aof_enabled", "0", "rdb_last_bgsave_status", "ok")), OK},
		"cluster whole":             {cluster("ok"), OK},
		"cluster with a hole":       {cluster("fail"), Wrong},
		"near":                      {pings(time.Millisecond), OK},
		"far":                       {pings(20 * time.Millisecond), Advice},
		"stalls":                    {pings(200 * time.Millisecond), Wrong},
		"clock steady":              {checkStoreClock(&redis.Examination{}), OK},
		"clock jumped":              {checkStoreClock(&redis.Examination{Jump: time.Second}), Advice},
		"clock off":                 {checkStoreClock(&redis.Examination{Ahead: -time.Hour}), Advice},
		"no scripts":                {checkScript(&redis.Examination{ScriptErr: errors.New("x")}), Wrong},
		"no feed":                   {checkEcho(&redis.Examination{EchoErr: context.DeadlineExceeded}), Wrong},
	} {
		if tt.got.Verdict != tt.want {
			t.Errorf("%s: %+v, want %s", name, tt.got, tt.want)
		}
		if tt.got.Verdict != OK && tt.got.Do == "" {
			t.Errorf("%s: nothing to do: %+v", name, tt.got)
		}
	}
}

func TestOpenFilesMustSufficeForTheConnections(t *testing.T) {
	for _, tt := range []struct {
		files, connections int
		want               Verdict
	}{{1000, 1000, Wrong}, {1064, 1000, Advice}, {2000, 1000, OK}, {0, 1000, Advice}} {
		text := fmt.Sprintf("# HELP x\nrollcall_max_connections %d\n", tt.connections)
		if tt.files > 0 {
			text += fmt.Sprintf("process_max_fds %d\n", tt.files)
		}
		if f := checkFiles(readMetrics(text)); f.Verdict != tt.want {
			t.Errorf("%d files, %d connections: %+v, want %s", tt.files, tt.connections, f, tt.want)
		}
	}
	m := readMetrics("rollcall_connections{transport=\"sse\"} 3\nrollcall_connections{transport=\"ws\"} 4\nrollcall_max_connections 8\n")
	if f := checkLoad(m); f.Verdict != Advice || f.Seen != "7 of 8" {
		t.Errorf("%+v", f)
	}
}

func claims(text string) string {
	return "x." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".x"
}

// TestTokenTroubleHasItsReason: a token may be refused for its end, for a clock,
// for its rooms, or for its signature.
func TestTokenTroubleHasItsReason(t *testing.T) {
	in := func(d time.Duration) string {
		return claims(fmt.Sprintf(`{"sub":"ana","exp":%d,"rooms":["doc:*"]}`, time.Now().Add(d).Unix()))
	}
	refused := func(code int) *answer {
		return &answer{status: code, body: []byte(`{"detail":"because"}`)}
	}
	for name, tt := range map[string]struct {
		token   string
		refused *answer
		ahead   time.Duration
		verdict Verdict
		seen    string
	}{
		"good":        {in(time.Hour), nil, 0, OK, `"ana", for another`},
		"ends soon":   {in(20 * time.Second), nil, 0, Advice, `"ana"`},
		"ended":       {in(-time.Hour), refused(401), 0, Wrong, "it ended 1h0m"},
		"clock ahead": {in(time.Minute), refused(401), time.Hour, Wrong, "by the server's it has ended"},
		"forged":      {in(time.Hour), refused(401), 0, Wrong, "the server refuses it: because"},
		"other room":  {in(time.Hour), refused(403), 0, Wrong, "not for the room"},
		"none":        {"", nil, 0, Advice, "guests"},
	} {
		v := &visit{token: readToken(tt.token), ahead: tt.ahead, clock: true, let: tt.refused == nil}
		v.token.refused = tt.refused
		if f := v.checkToken(); f.Verdict != tt.verdict || !strings.Contains(f.Seen, tt.seen) || strings.Contains(f.Seen, tt.token) && tt.token != "" {
			t.Errorf("%s: %+v, want %s, %q", name, f, tt.verdict, tt.seen)
		}
	}
}

func TestRoomIsMadeUpWithinTheToken(t *testing.T) {
	for rooms, want := range map[string]string{
		`["doc:*"]`:          "doc:rollcall-doctor-",
		`["lobby","team/*"]`: "team/rollcall-doctor-",
		`{"a*":["read"],"b*":["presence","signal"]}`: "brollcall-doctor-",
		`{"a*":["read"]}`: "arollcall-doctor-",
		`["lobby"]`:       "lobby",
		`["price\\*"]`:    "price*",
		`[]`:              "rollcall-doctor-",
	} {
		token := readToken(claims(`{"sub":"ana","exp":1,"rooms":` + rooms + `}`))
		if got := token.madeUpRoom(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", rooms, got, want)
		}
	}
}

func TestClocksMayDifferByLittle(t *testing.T) {
	for _, tt := range []struct {
		ahead time.Duration
		exact bool
		want  Verdict
	}{{time.Second, true, OK}, {-8 * time.Second, true, Advice}, {5 * time.Second, false, OK}, {time.Minute, true, Wrong}, {-time.Minute, false, Wrong}} {
		v := &visit{clock: true, ahead: tt.ahead, exact: tt.exact}
		if f := v.checkClock(); f.Verdict != tt.want {
			t.Errorf("%v: %+v, want %s", tt.ahead, f, tt.want)
		}
	}
}

func TestHeadersOfAStream(t *testing.T) {
	good := http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-store, no-transform"}, "X-Accel-Buffering": {"no"}}
	for name, tt := range map[string]struct {
		field, value string
		want         Verdict
	}{
		"as they are":   {"X-Other", "1", OK},
		"compressed":    {"Content-Encoding", "br", Wrong},
		"another type":  {"Content-Type", "text/plain", Wrong},
		"collected":     {"Content-Length", "1000", Wrong},
		"buffering":     {"X-Accel-Buffering", "yes", Wrong},
		"may transform": {"Cache-Control", "no-cache", Advice},
	} {
		h := good.Clone()
		h.Set(tt.field, tt.value)
		s := &stream{res: &http.Response{Header: h}}
		if f := s.checkHeaders(); f.Verdict != tt.want {
			t.Errorf("%s: %+v, want %s", name, f, tt.want)
		}
	}
}
