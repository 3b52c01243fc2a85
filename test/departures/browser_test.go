//go:build browser && unix

package departures

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

func init() {
	rows = append(rows, row{way: "Chromium", run: inChromium, heavy: true})
}

// page is a page of a stranger's: it speaks the protocol with what browsers have.
const page = `<!doctype html><title>present</title><script>
const q = new URLSearchParams(location.search), api = q.get('api'), room = q.get('room'), kind = q.get('kind')
const user = 'user=' + encodeURIComponent(q.get('user'))
const post = (r, call, body) => [api + '/v1/connections/' + r.connection + call, JSON.stringify({...body, resume: r.resume})]
if (kind === 'ws') {
  const socket = new WebSocket(api.replace('http', 'ws') + '/v1/ws?' + user, ['rollcall.v1'])
  socket.onopen = () => socket.send(JSON.stringify({type: 'join', room}))
} else {
  let ready
  window.opened = -1e9
  const stream = new EventSource(api + '/v1/rooms/' + encodeURIComponent(room) + '/stream?' + user + (kind === 'sse' ? '&beat=1' : ''))
  stream.addEventListener('ready', e => { ready = JSON.parse(e.data); opened = performance.now() })
  if (kind === 'sse') {
    stream.addEventListener('beat', e => {
      const [url, body] = post(ready, '/beat', {n: JSON.parse(e.data).n})
      fetch(url, {method: 'POST', body})
    })
    addEventListener('pagehide', () => navigator.sendBeacon(...post(ready, '/release', {closing: true})))
  }
}
</script>`

// servePage serves the page on every address of this machine, and returns the
// port.
func (r *rig) servePage() string {
	r.t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	r.must(err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	})}
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }()
	r.t.Cleanup(func() { s.Close(); <-done })
	_, port, err := net.SplitHostPort(l.Addr().String())
	r.must(err)
	return port
}

// browserTakes is what a browser may take to end a tab and its processes.
const browserTakes = time.Second

var (
	tabEnds = promise{
		text: "grace + 0.1 s, once the browser has closed it", least: grace, most: grace + 100*time.Millisecond + browserTakes,
		reason: "closed",
	}
	// tabCut dates from the fault, since pages do not tell when they gave a sign
	// of life: a beat before it at most.
	tabCut = promise{
		text: "lease to lease + 1 s after the last sign of life", least: lease - beat*19/18, most: lease + time.Second + browserTakes,
		reason: "expired",
	}
	tabCrashes = promise{text: "at most lease + 1 s", most: lease + time.Second + browserTakes}
)

// inChromium is tabs of a real browser: one of two closed, the last one closed,
// one that crashes, and the browser killed.
func inChromium(r *rig) {
	r.serve("--allowed-origin", "*")
	pages := r.servePage()
	b, err := startChromium(r.ctx, r.t)
	r.must(err)
	tabs := 0
	open := func(k kind, user string) string {
		tabs++
		// A host of its own: a browser opens six connections to one, and gives
		// sites processes of their own.
		host := fmt.Sprintf("http://127.0.1.%d:", tabs)
		target, err := b.open(r.ctx, host+pages+"/?"+query("api", host+r.server.port, "room", r.room, "kind", k.short(), "user", user))
		r.must(err)
		if !r.known[user] {
			r.known[user] = true
			r.cast = append(r.cast, user)
		}
		return target
	}
	both := []kind{kindSSE, kindWS}
	streams := []kind{kindSSE, kindPlain, kindWS}
	first, second, crashing := map[kind]string{}, map[kind]string{}, map[kind]string{}
	for _, k := range both {
		first[k], second[k] = open(k, "pair-"+k.short()), open(k, "pair-"+k.short())
		crashing[k] = open(k, "crash-"+k.short())
	}
	single := open(kindPlain, "single-plain")
	last := map[kind]string{}
	for _, k := range streams {
		last[k] = open(k, "killed-"+k.short())
	}
	r.assembled()
	r.connections(1 + tabs)
	unknown := func() time.Time { return time.Time{} }

	r.row.way = "Chromium: one tab of two closed"
	from := time.Now()
	for _, k := range both {
		r.must(b.close(r.ctx, first[k]))
	}
	for _, k := range both {
		r.unnoticed(from, k, "no leave", "pair-"+k.short())
	}
	r.row.way = "Chromium: left alone, in tabs that are hidden"
	for _, k := range streams {
		r.unnoticed(from, k, "no leave", "killed-"+k.short())
	}

	r.row.way = "Chromium: tab closed"
	at := map[kind]time.Time{}
	for _, k := range streams {
		target := second[k]
		if k == kindPlain {
			target = single
			r.freshlyOpen(b, target)
		}
		at[k] = time.Now()
		r.must(b.close(r.ctx, target))
	}
	r.departed(kindSSE, "pair-sse", tabEnds, at[kindSSE], unknown)
	r.departed(kindPlain, "single-plain", tabEnds, at[kindPlain], unknown)
	r.departed(kindWS, "pair-ws", tabEnds, at[kindWS], unknown)

	r.row.way = "Chromium: renderer crashes"
	for _, k := range both {
		at[k] = time.Now()
		r.must(b.crash(r.ctx, crashing[k]))
	}
	for _, k := range both {
		r.departed(k, "crash-"+k.short(), tabCrashes, at[k], unknown)
	}

	r.row.way = "Chromium: killed with all its processes"
	r.freshlyOpen(b, last[kindPlain])
	killed := time.Now()
	r.must(b.killAll())
	r.departed(kindSSE, "killed-sse", tabEnds, killed, unknown)
	r.departed(kindPlain, "killed-plain", tabEnds, killed, unknown)
	r.departed(kindWS, "killed-ws", tabCut, killed, unknown)
}

// freshlyOpen waits until the plain stream of a tab has just come back from a
// rotation.
func (r *rig) freshlyOpen(b *chromium, target string) {
	r.t.Helper()
	session, err := b.attach(r.ctx, target)
	r.must(err)
	for {
		age, err := b.number(r.ctx, session, "performance.now() - opened")
		r.must(err)
		if age < float64(lease.Milliseconds())/5 {
			return
		}
		if !pause(r.ctx, pollEvery) {
			r.t.Fatal("the stream does not come back")
		}
	}
}

// connections waits until there are that many in the room.
func (r *rig) connections(want int) {
	r.t.Helper()
	for {
		_, got, err := counts(r.ctx, r.server.url, r.room)
		r.must(err)
		if got == want {
			return
		}
		if !pause(r.ctx, pollEvery) {
			r.t.Fatalf("%d connections, want %d", got, want)
		}
	}
}
