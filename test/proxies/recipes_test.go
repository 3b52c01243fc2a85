//go:build faults && linux

package proxies

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rollcall"
	"rollcall/test/harness"
)

const room = "doc/42 ü"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		harness.RemoveProgram()
		if path, err := program(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
		if c, err := theCertificate(); err == nil {
			os.RemoveAll(filepath.Dir(c.cert))
		}
		os.Exit(code)
	}))
}

// program is the program, for its doctor.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rollcall-proxies-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "rollcall")
	if out, err := exec.Command("go", "build", "-o", path, "rollcall/cmd/rollcall").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// finding is what the doctor found.
type finding struct{ Check, Verdict, Seen, Do string }

// doctor examines a proxy.
func doctor(t testing.TB, p *proxy, args ...string) (exit int, found map[string]finding) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c, err := theCertificate()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"doctor", p.url, "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+c.cert)
	var stderr output
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var answer struct{ Findings []finding }
	if e := json.Unmarshal(out, &answer); e != nil {
		t.Fatalf("doctor: %v, %v: %s%s", err, e, out, stderr.String())
	}
	found = make(map[string]finding)
	for _, f := range answer.Findings {
		found[f.Check] = f
	}
	return cmd.ProcessState.ExitCode(), found
}

// content fails the test unless the doctor finds everything good.
func content(t testing.TB, exit int, found map[string]finding) {
	t.Helper()
	for _, name := range []string{"server", "token", "http", "stream", "headers", "events", "idle", "clock", "websocket", "strangers", "own origin"} {
		if _, ok := found[name]; !ok {
			t.Errorf("doctor did not look at %s", name)
		}
	}
	for _, f := range found {
		if f.Verdict != "ok" {
			t.Errorf("doctor: %s: %s: %s -> %s", f.Check, f.Verdict, f.Seen, f.Do)
		}
	}
	if exit != 0 {
		t.Errorf("doctor exits with %d", exit)
	}
}

// lease has a user come, by the key of a back end and past the proxy.
func lease(t testing.TB, s *harness.Server, user, data string) (leave func()) {
	t.Helper()
	s.Know(room, user)
	a := s.Do(harness.Call{Method: "POST", Path: harness.RoomPath(room, "/connections"),
		Body: fmt.Sprintf(`{"user":%q,"data":%s,"ttlMs":60000}`, user, data)})
	var l struct{ Connection, Resume string }
	if err := a.JSON(&l); a.Status != 201 || err != nil {
		t.Fatalf("POST: %d %v %s", a.Status, err, a.Body)
	}
	return func() {
		s.Do(harness.Call{Method: "DELETE", Path: harness.ConnectionPath(room, l.Connection), Resume: l.Resume})
	}
}

func token(s *harness.Server, user string) string {
	return s.Token(harness.Claims{User: rollcall.UserID(user), Expires: time.Now().Add(time.Hour), Rooms: []string{"*"}})
}

// TestRecipes runs the recipes of the guide: what stands there is what is run, but
// for ports, names, and limits of 60 s that are 3 s here.
func TestRecipes(t *testing.T) {
	for name, setup := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t, harness.Config{Tokens: true, Process: true, Origins: []string{"https://app.test"}})
			p := setup(t, s, "3s")
			for _, over := range []harness.Transport{harness.SSE, harness.WS} {
				t.Run(over.String(), func(t *testing.T) {
					t.Run("EventsPassAtOnce", func(t *testing.T) { eventsPassAtOnce(t, s, p, over) })
					t.Run("SilenceDoesNotCut", func(t *testing.T) { silenceDoesNotCut(t, s, p, over) })
					t.Run("EndIsSeen", func(t *testing.T) { endIsSeen(t, s, p, over) })
					t.Run("LargeEventsPass", func(t *testing.T) { largeEventsPass(t, s, p, over) })
				})
			}
			exit, found := doctor(t, p, "--token", token(s, "doc"), "--origin", "https://app.test")
			content(t, exit, found)
			if f := found["origin https://app.test"]; f.Verdict != "ok" {
				t.Errorf("doctor on a listed origin: %+v", f)
			}
		})
	}
}

// within is how late an event may be. The middle of several tries counts, since
// the machine may be busy.
const within = 500 * time.Millisecond

func eventsPassAtOnce(t *testing.T, s *harness.Server, p *proxy, over harness.Transport) {
	c := p.open(t, over, room, token(s, "viewer"), true)
	var took []time.Duration
	for i := range 5 {
		user := fmt.Sprintf("ana%d", i)
		at := time.Now()
		leave := lease(t, s, user, "{}")
		took = append(took, c.await(5*time.Second, user+" joins", names("join", user)).at.Sub(at))
		leave()
		c.await(5*time.Second, user+" leaves", names("leave", user))
	}
	slices.Sort(took)
	if took[len(took)/2] > within {
		t.Errorf("joins arrive after %v, want less than %v", took, within)
	}
}

func silenceDoesNotCut(t *testing.T, s *harness.Server, p *proxy, over harness.Transport) {
	user := "quiet" + over.String()
	s.Know(room, user)
	c := p.open(t, over, room, token(s, user), false)
	time.Sleep(silence*2 + silence/2) // more than twice the proxy's limit
	if err := c.over(); err != nil {
		t.Errorf("the stream ended: %v", err)
	}
	if n := s.Count(room); n != 1 {
		t.Errorf("%d are in the room, want 1", n)
	}
	c.close()
	harness.Eventually(t, 5*time.Second, user+" is gone", func() bool { return s.Count(room) == 0 })
}

func endIsSeen(t *testing.T, s *harness.Server, p *proxy, over harness.Transport) {
	user := "bob" + over.String()
	s.Know(room, user)
	w := s.Open(t, over, harness.Options{Rooms: []string{room}, Observe: true, Token: token(s, "watcher")})
	c := p.open(t, over, room, token(s, user), false)
	w.Until(5*time.Second, user+" joins", func() bool { return w.Has(room, user) })
	c.close()
	w.Until(5*time.Second, user+" leaves", func() bool { return len(w.Leaves(room, user)) == 1 })
	if e := w.Leaves(room, user)[0]; e.Reason != "closed" {
		t.Errorf("the leave says %q, want closed", e.Reason)
	}
	w.Close()
}

// largeEventsPass: a snapshot that is larger than any buffer of these proxies.
func largeEventsPass(t *testing.T, s *harness.Server, p *proxy, over harness.Transport) {
	data := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1000))
	const n = 120
	for i := range n {
		defer lease(t, s, fmt.Sprintf("member%d", i), data)()
	}
	c := p.open(t, over, room, token(s, "viewer"), true)
	e := c.await(10*time.Second, "a large snapshot", func(e told) bool { return e.name == "snapshot" })
	if len(e.data) < n*1000 || !json.Valid(e.data) {
		t.Errorf("a snapshot of %d bytes", len(e.data))
	}
	c.close()
}

// TestDoctorFindsTheLimitOfAProxy: a proxy that waits for less than a beat cuts
// streams, and the doctor says so.
func TestDoctorFindsTheLimitOfAProxy(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t, harness.Config{Tokens: true, Process: true, Lease: 30 * time.Second, Beat: 9 * time.Second})
			p := programs[name](t, s, "3s")
			exit, found := doctor(t, p, "--token", token(s, "doc"))
			if f := found["idle"]; exit != 1 || f.Verdict != "wrong" || !strings.Contains(f.Seen, "cut after") || f.Do == "" {
				t.Errorf("exit %d, %+v", exit, f)
			}
			if f := found["events"]; f.Verdict != "ok" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// plain runs nginx with a location as people write it first.
func plain(t testing.TB, s *harness.Server, more string) *proxy {
	port := freePort(t)
	site := fmt.Sprintf("server {\n\tlisten 127.0.0.1:%s;\n\tlocation / { proxy_pass %s; %s }\n}", port, s.URL, more)
	return startNginx(t, site, "http://127.0.0.1:"+port, port)
}

// TestPlainNginxPassesEvents: with nothing but a proxy_pass, server-sent events
// come at once and last; and the doctor says what does not work.
func TestPlainNginxPassesEvents(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true, Process: true})
	p := plain(t, s, "")
	t.Run("EventsPassAtOnce", func(t *testing.T) { eventsPassAtOnce(t, s, p, harness.SSE) })
	t.Run("EndIsSeen", func(t *testing.T) { endIsSeen(t, s, p, harness.SSE) })
	t.Run("LargeEventsPass", func(t *testing.T) { largeEventsPass(t, s, p, harness.SSE) })
	exit, found := doctor(t, p, "--token", token(s, "doc"))
	for check, verdict := range map[string]string{"stream": "ok", "headers": "ok", "events": "ok", "idle": "ok", "http": "advice", "websocket": "wrong"} {
		if found[check].Verdict != verdict {
			t.Errorf("doctor on %s: got %+v, want %s", check, found[check], verdict)
		}
	}
	if exit != 1 || !strings.Contains(found["websocket"].Do, "proxy_http_version 1.1") {
		t.Errorf("exit %d; %+v", exit, found["websocket"])
	}
}

// TestPlainNginxHoldsAQuietStream, in real time: the default limit of nginx is
// 60 s, and a beat comes every 9 s.
func TestPlainNginxHoldsAQuietStream(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true, Process: true, Lease: 30 * time.Second, Beat: 9 * time.Second})
	_, found := doctor(t, plain(t, s, ""), "--token", token(s, "doc"), "--hold", "70s")
	if f := found["idle"]; f.Verdict != "ok" || !strings.HasPrefix(f.Seen, "held for 1m10s; beats: 7") && !strings.HasPrefix(f.Seen, "held for 1m10s; beats: 8") {
		t.Errorf("%+v", f)
	}
}

// TestDoctorFindsWhatHarmsAStream: proxies that collect, compress, or pass on too
// little.
func TestDoctorFindsWhatHarmsAStream(t *testing.T) {
	t.Parallel()
	const upgrade = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; "
	const host = "proxy_set_header Host $http_host; "
	tests := map[string]struct{ more, check, verdict, do string }{
		"Compresses":     {upgrade + host + "gzip on; gzip_proxied any; gzip_types text/event-stream;", "headers", "wrong", "compresses"},
		"Buffers":        {upgrade + host + "proxy_ignore_headers X-Accel-Buffering;", "stream", "wrong", "buffering"},
		"ReplacesHost":   {upgrade, "own origin", "advice", "$http_host"},
		"TakesOriginOff": {upgrade + host + `proxy_set_header Origin "";`, "strangers", "wrong", "Origin"},
		"AnswersCORS": {upgrade + host + `add_header Access-Control-Allow-Origin $http_origin always; add_header Access-Control-Allow-Credentials true always;`,
			"strangers", "wrong", "Access-Control"},
		"SaysCORSTwice": {upgrade + host + `add_header Access-Control-Allow-Origin https://app.test always;`, "origin https://app.test", "wrong", "Access-Control"},
	}
	s := harness.Start(t, harness.Config{Tokens: true, Process: true, Origins: []string{"https://app.test"}})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			exit, found := doctor(t, plain(t, s, tt.more), "--token", token(s, "doc"), "--origin", "https://app.test")
			f := found[tt.check]
			if f.Verdict != tt.verdict || !strings.Contains(f.Do, tt.do) || (exit == 1) != (tt.verdict == "wrong") {
				t.Errorf("exit %d; %s: %+v; all: %+v", exit, tt.check, f, found)
			}
		})
	}
}

// TestDoctorFindsTheCompressionOfCaddy, which lets short answers pass.
func TestDoctorFindsTheCompressionOfCaddy(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{Tokens: true, Process: true})
	exit, found := doctor(t, startCaddy(t, s, "encode gzip"), "--token", token(s, "doc"))
	if f := found["headers"]; exit != 1 || f.Verdict != "wrong" || !strings.Contains(f.Seen, "gzip") {
		t.Errorf("exit %d; %+v", exit, found)
	}
}
