//go:build faults && linux

package departures

import (
	"fmt"
	"time"
)

func init() {
	rows = append(rows,
		row{way: "link cut without FIN", run: linkCut},
		row{way: "killed behind nginx", run: killedBehindNginx},
		row{way: "killed behind nginx that ignores it", run: killedBehindDeafNginx},
		row{way: "link cut in front of nginx", run: linkCutBeforeNginx},
		row{way: "nginx reloaded in front of 500 streams", run: nginxReloaded, heavy: true},
	)
}

// far starts a client of each kind on the other side of a wire, which speaks to
// port of this machine.
func (r *rig) far(port string) (*link, []*client) {
	r.t.Helper()
	l, err := newLink(r.t)
	r.must(err)
	r.must(l.up(r.ctx))
	var clients []*client
	for _, k := range kinds {
		clients = append(clients, r.clientUnder(l.within(), k, "http://"+l.host+":"+port, k.short()))
	}
	return l, clients
}

// cutAll cuts the wire and waits until every viewer is told of each client.
func (r *rig) cutAll(l *link, clients []*client) {
	r.t.Helper()
	at := time.Now()
	r.must(l.cut())
	for _, c := range clients {
		r.departed(c.Kind, c.Users[0], runsOut, at, func() time.Time { return c.proof(c.Users[0]) })
	}
}

func linkCut(r *rig) {
	r.serve()
	l, clients := r.far(r.server.port)
	r.assembled()
	r.cutAll(l, clients)
}

// linkCutBeforeNginx leaves nginx with clients that it cannot know are gone.
func linkCutBeforeNginx(r *rig) {
	r.serve()
	n, err := startNginx(r.ctx, r.t, r.server, "")
	r.must(err)
	l, clients := r.far(n.port)
	r.assembled()
	r.cutAll(l, clients)
}

// killedBehindNginx has nginx end its side to the server, as it does by default:
// as if the client were connected itself.
func killedBehindNginx(r *rig) {
	r.serve()
	n, err := startNginx(r.ctx, r.t, r.server, "")
	r.must(err)
	clients := r.one(kinds, n.url)
	r.assembled()
	r.depart(clients, (*client).kill, socketEnds)
}

// killedBehindDeafNginx has nginx keep its side open for as long as it has
// nothing to write to the client, or for good: at most until the lease ends.
func killedBehindDeafNginx(r *rig) {
	r.serve()
	n, err := startNginx(r.ctx, r.t, r.server, "proxy_ignore_client_abort on;")
	r.must(err)
	clients := r.one(kinds, n.url)
	r.assembled()
	r.depart(clients, (*client).kill, func(k kind) promise {
		if k == kindLease {
			return runsOut
		}
		return atMostLease
	})
}

// nginxReloaded drops 500 plain streams at once, which come back through nginx.
// Nobody leaves and nobody joins, in any of their five rooms. The lease is twice
// that of the other rows, since 500 that rotate every second or two, with nginx
// and the viewers, are more than a small machine does in time.
func nginxReloaded(r *rig) {
	const processes, each = 5, 100
	r.lease, r.every = 2*lease, 5*pollEvery
	r.note = fmt.Sprintf("lease %v", r.lease)
	r.serve("--lease", r.lease.String(), "--beat", (2 * beat).String())
	n, err := startNginx(r.ctx, r.t, r.server, "")
	r.must(err)
	rooms := []*rig{}
	for i := range processes {
		room := *r
		room.room = fmt.Sprintf("%s/%d", r.room, i)
		room.known, room.cast, room.clients = make(map[string]bool), nil, nil
		room.watch()
		var users []string
		for j := range each {
			users = append(users, fmt.Sprintf("reader-%d-%d", i, j))
		}
		room.client(kindPlain, n.url, users...)
		rooms = append(rooms, &room)
	}
	for _, room := range rooms {
		room.assembled()
	}
	r.assembled()
	before := 0
	for _, room := range rooms {
		before += room.clients[0].dropped()
	}
	from := time.Now()
	r.must(n.reload())
	for i, room := range rooms {
		if i == 0 {
			room.unnoticed(from, kindPlain, "no leave, no join", room.cast...)
			continue
		}
		for _, v := range room.viewers {
			if s := v.since(from); len(s) > 0 {
				r.t.Errorf("room %d: %s was told: %v", i, v.name, s)
			}
		}
	}
	dropped := -before
	for _, room := range rooms {
		dropped += room.clients[0].dropped()
		room.rest()
	}
	// Some are between two streams at the moment.
	if most := processes * each * 3 / 4; dropped < most {
		r.t.Errorf("nginx dropped %d streams, want more than %d", dropped, most)
	}
	r.t.Logf("nginx dropped %d of %d streams", dropped, processes*each)
}
