package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	maxCrowd   = 1_000
	maxCrowds  = 4 // each in a room of its own
	crowdStays = 10 * time.Minute
	// Every so often one of the crowd goes and comes back, and one changes.
	crowdMoves = 400 * time.Millisecond
)

// crowds are invented members of some rooms. They come and go by the same API that
// everybody else has: leases without a stream. Safe for concurrent use.
type crowds struct {
	api http.Handler // static after Handler.Serve

	mu  sync.Mutex
	all []crowd // guarded by mu; the oldest first, one a room
}

// crowd is who was brought into one room.
type crowd struct {
	room    string
	stop    context.CancelFunc
	stopped chan struct{} // closed by the crowd's goroutine when everybody has left
}

// extra is one of the crowd. Owned by the crowd's goroutine.
type extra struct {
	user, name         string
	connection, resume string // empty while away
}

// start brings n members into a room; the crowd that was there before leaves, and
// the oldest one if there are too many. It returns when all are in.
func (c *crowds) start(room string, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(room)
	if len(c.all) == maxCrowds {
		c.end(c.all[0].room)
	}
	ctx, cancel := context.WithTimeout(context.Background(), crowdStays)
	stopped := make(chan struct{})
	c.all = append(c.all, crowd{room, cancel, stopped})
	in := make(chan error, 1)
	go func() {
		defer close(stopped)
		c.live(ctx, room, n, in)
	}()
	return <-in
}

// leave ends the crowd of a room, if it has one.
func (c *crowds) leave(room string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(room)
}

// close ends all of them.
func (c *crowds) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.all) > 0 {
		c.end(c.all[0].room)
	}
}

// end makes the crowd of a room leave and waits for it. The caller holds mu.
func (c *crowds) end(room string) {
	for i, one := range c.all {
		if one.room == room {
			one.stop()
			<-one.stopped
			c.all = slices.Delete(c.all, i, i+1)
			return
		}
	}
}

// live is the life of a crowd. in is told when all are there.
func (c *crowds) live(ctx context.Context, room string, n int, in chan<- error) {
	all := make([]extra, n)
	for i := range all {
		// The page knows them by the beginning of their ids.
		all[i] = extra{user: fmt.Sprintf("extra-%04d", i+1), name: nameOf(i)}
	}
	defer func() {
		for i := range all {
			c.depart(room, &all[i])
		}
	}()
	for i := range all {
		if ctx.Err() != nil {
			break
		}
		if err := c.come(room, &all[i]); err != nil {
			in <- err
			return
		}
	}
	in <- nil
	move := time.NewTicker(crowdMoves)
	defer move.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-move.C:
		}
		one, other := &all[rand.IntN(n)], &all[rand.IntN(n)]
		if one.connection == "" {
			c.come(room, one)
		} else if rand.IntN(2) == 0 {
			c.depart(room, one)
		}
		if other.connection != "" {
			c.set(room, other)
		}
	}
}

func (c *crowds) come(room string, e *extra) error {
	var granted struct{ Connection, Resume string }
	query := url.Values{"user": {e.user}, "name": {e.name}}.Encode()
	body := map[string]any{"ttlMs": crowdStays.Milliseconds(), "status": someStatus()}
	if err := c.call("POST", roomPath(room, "")+"?"+query, "", body, &granted); err != nil {
		return err
	}
	e.connection, e.resume = granted.Connection, granted.Resume
	return nil
}

func (c *crowds) set(room string, e *extra) {
	c.call("PATCH", roomPath(room, e.connection), e.resume, map[string]any{"status": someStatus()}, nil)
}

func (c *crowds) depart(room string, e *extra) {
	if e.connection == "" {
		return
	}
	c.call("DELETE", roomPath(room, e.connection), e.resume, nil, nil)
	e.connection, e.resume = "", ""
}

func roomPath(room, connection string) string {
	p := "/v1/rooms/" + url.PathEscape(room) + "/connections"
	if connection != "" {
		p += "/" + url.PathEscape(connection)
	}
	return p
}

// call makes one call of the API, without a socket. into may be nil.
func (c *crowds) call(method, path, resume string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	r.RemoteAddr = "127.0.0.1:0"
	r.Header.Set("Content-Type", "application/json")
	if resume != "" {
		r.Header.Set("Rollcall-Resume", resume)
	}
	var w answer
	c.api.ServeHTTP(&w, r)
	if w.status >= 300 {
		return fmt.Errorf("%s %s: %d %s", method, path, w.status, w.body.String())
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(&w.body).Decode(into)
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func someStatus() string {
	switch rand.IntN(6) {
	case 0:
		return "idle"
	case 1:
		return "away"
	}
	return "active"
}

var (
	firstNames = []string{"Ada", "Amir", "Anouk", "Bao", "Carla", "Chidi", "Dilan", "Emil", "Esra", "Farah", "Goran", "Hana", "Ines",
		"Jonas", "Kaito", "Lena", "Malik", "Mira", "Noor", "Oskar", "Paula", "Quinn", "Rosa", "Samir", "Thea", "Uma", "Viktor", "Wei",
		"Xenia", "Yusuf", "Zoë"}
	lastNames = []string{"Abbott", "Bianchi", "Cohen", "Dahl", "Eze", "Fuchs", "García", "Haddad", "Ito", "Jansen", "Kovač", "Lind",
		"Moreau", "Novák", "Okafor", "Park", "Quiroga", "Rossi", "Sato", "Tanaka", "Ueda", "Vogel", "Wójcik", "Xu", "Yilmaz", "Zhou"}
)

// nameOf is the name of the i-th of the crowd: no two alike below 806.
func nameOf(i int) string {
	return firstNames[i%len(firstNames)] + " " + lastNames[(i+i/len(firstNames))%len(lastNames)]
}
