//go:build faults && linux && amd64

package cluster

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/test/harness"
)

// startNginx starts nginx before nodes, as people set it up: round robin and the
// usual buffering; a node that failed is not tried for a while, which is a tenth of
// the usual like all times. It returns its URL.
func startNginx(t *testing.T, nodes []string) string {
	t.Helper()
	dir := t.TempDir()
	addr := "127.0.0.1:" + freePort(t)
	write(t, dir+"/nginx.conf", strings.NewReplacer("DIR", dir, "ADDR", addr, "NODES", "server "+strings.Join(nodes, " fail_timeout=1s; server ")+" fail_timeout=1s;").Replace(`
daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
	upstream nodes { NODES }
	server {
		listen ADDR;
		location / {
			proxy_pass http://nodes;
			proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection $connection_upgrade;
		}
	}
}`))
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	cmd := exec.Command(path, "-p", dir, "-c", dir+"/nginx.conf", "-e", dir+"/error.log")
	if err := launch(cmd); err != nil {
		t.Fatalf("%v (this test needs nginx: script/setup)", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	harness.Eventually(t, soon, "nginx listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + addr
}

// TestRollingRestartBehindNginx: every node of three is drained and started again,
// one after the other, while 1,000 members stay in rooms of 20: nobody is shown
// leaving, and every count is steady. Two members of every room look closely at
// all that they are told; the others keep numbers.
func TestRollingRestartBehindNginx(t *testing.T) {
	t.Parallel()
	const members, size, close = 1000, 20, 2
	// On a machine of two cores a second has to do for what a fleet does in ten;
	// with a lease of 3 s it would be a tenth of that.
	long := harness.Config{Lease: 3 * lease, Beat: 3 * beat, Grace: grace, Launch: launch}
	store := startRedis(t)
	nodes := harness.NewNodes(t)
	listen := make([]string, 3)
	running := make([]*harness.Server, 3)
	up := func(i int) {
		c := long
		c.Listen, c.Args = listen[i], []string{"--store", store.url(), "--node-id", fmt.Sprintf("node-%d", i+1), "--drain", "2s"}
		running[i] = nodes.Start(c)
	}
	for i := range running {
		listen[i] = "127.0.0.1:" + freePort(t)
		up(i)
	}
	front := startNginx(t, listen)
	all := newCrowd(t, size, strings.TrimPrefix(front, "http://"))
	hall := func(i int) string { return fmt.Sprintf("hall-%d", i/size) }
	var clients []*harness.Client
	var rooms []string
	for i := range members {
		user, over, plain := fmt.Sprintf("u%03d", i), harness.Transport(i%2), i%4 == 2
		for _, s := range running {
			s.Know(hall(i), user)
		}
		if i%size >= close {
			all.join(0, over, plain, user, hall(i))
			continue
		}
		rooms = append(rooms, hall(i))
		clients = append(clients, running[0].Open(t, over, harness.Options{
			User: user, Rooms: []string{hall(i)}, URL: front, Plain: plain, Reconnect: true,
		}))
	}
	all.complete(t, 3*soon)
	for i, c := range clients {
		c.Until(soon, "all of its room are here", func() bool { l := c.List(rooms[i]); return l != nil && len(l.Members) == size })
		c.Forget()
	}
	all.hush()
	counted := count(t, running[0], front, rooms, size)
	began := time.Now()
	for i := range running {
		running[i].Signal(syscall.SIGTERM)
		if code, said := running[i].Exited(15 * time.Second); code != 0 {
			t.Errorf("node %d ended with %d: %s", i+1, code, said)
		}
		up(i)
		time.Sleep(lease) // until the next
	}
	t.Logf("restarted all within %v", time.Since(began))
	time.Sleep(long.Lease + grace) // who was not renewed would be gone by now
	counted()
	all.check(t)
	moved := all.moved()
	all.complete(t, soon)
	for i, c := range clients {
		for _, ch := range c.Changes("", "") {
			if ch.Kind != "update" {
				t.Errorf("%q was told: %s of %q %s", c.Ready().User, ch.Kind, ch.User, ch.Reason)
			}
		}
		for _, e := range c.Events("snapshot") {
			if !contains(e.Data, fmt.Sprintf(`"count":%d,`, size)) {
				t.Errorf("%q got a snapshot of another size: %.200s", c.Ready().User, e.Data)
			}
		}
		if c.Streams() > 1 {
			moved++
		}
		c.Until(soon, "all of its room are here", func() bool {
			l := c.List(rooms[i])
			return c.Open() && l != nil && len(l.Members) == size
		})
		c.Move(running[i%3])
	}
	if moved < members*9/10 {
		t.Errorf("%d of %d members had to come back, which is no test", moved, members)
	}
	nodes.Agree(soon)
	all.end()
}

// count has somebody count the members of rooms, all the time, through the proxy;
// what it returns ends that and checks what was counted.
func count(t *testing.T, s *harness.Server, front string, rooms []string, size int) (end func()) {
	reads, wrong := 0, 0
	stop, counted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(counted)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // the pace of the reader
			}
			var r harness.Room
			a := s.Do(harness.Call{Base: front, Path: harness.RoomPath(rooms[i%len(rooms)], "")})
			if a.Status == 200 && a.JSON(&r) == nil {
				if reads++; r.Count != size {
					wrong++
				}
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		<-counted
		if reads < 100 || wrong > 0 {
			t.Errorf("%d of %d counts were not %d", wrong, reads, size)
		}
	}
}

// TestStormOfReconnects: a node dies, and all of its members come at once to another
// one, which lets so few in a second that it takes longer than a lease. Whoever is
// turned away keeps the lease: nobody is shown leaving.
func TestStormOfReconnects(t *testing.T) {
	t.Parallel()
	const members, size, accept = 400, 20, 24
	store := startRedis(t)
	nodes := harness.NewNodes(t)
	start := func(accept int) *harness.Server {
		return nodes.Start(harness.Config{
			Lease: 3 * lease, Beat: 3 * beat, Grace: grace, Launch: launch,
			Args: []string{"--store", store.url(), "--max-accept", fmt.Sprint(accept)},
		})
	}
	doomed, other := start(1000), start(accept)
	all := newCrowd(t, size, doomed.Host(), other.Host())
	for i := range members {
		user, hall := fmt.Sprintf("u%03d", i), fmt.Sprintf("hall-%d", i/size)
		other.Know(hall, user)
		at := 0
		if i%size == 0 {
			at = 1 // one of each room sees all of it
		}
		all.join(at, harness.Transport(i%2), false, user, hall) // a plain stream would be a new one every few seconds
	}
	all.complete(t, 3*soon)
	watchers := []*harness.Client{other.Watch(t, harness.SSE, "hall-1"), other.Watch(t, harness.WS, "hall-1")}
	for _, w := range watchers {
		w.Until(soon, "all of the room", func() bool { l := w.List("hall-1"); return l != nil && len(l.Members) == size })
		w.Forget()
	}
	all.hush()
	doomed.Signal(syscall.SIGKILL)
	doomed.Exited(soon)
	began := time.Now()
	harness.Eventually(t, soon, "all have lost their streams", func() bool { return all.moved() >= members-members/size })
	all.complete(t, 6*soon)
	took := time.Since(began)
	t.Logf("all are back after %v; %g were turned away", took, other.Metric("rollcall_streams_refused_total"))
	if took < other.Lease || other.Metric("rollcall_streams_refused_total") < members {
		t.Errorf("all are back after %v, within a lease, which is no test", took)
	}
	all.check(t)
	for _, w := range watchers {
		if n := len(w.Leaves("", "")) + len(w.Joins("", "")); n > 0 {
			t.Errorf("a watcher was told of %d who came or went", n)
		}
	}
	all.end()
}
