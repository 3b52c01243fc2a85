//go:build unix

package departures

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// session is one connection of a client process. It comes back when its stream
// ends, as clients do.
type session struct {
	*clientConfig
	user string
	out  *reporter
	http *http.Client
	wake chan struct{} // capacity 1; a lease without a stream has something to do

	mu     sync.Mutex
	ready  ready         // Guarded by mu. Of the newest stream.
	lastID string        // Guarded by mu.
	retry  time.Duration // Guarded by mu.
	end    func()        // Guarded by mu. Ends the stream as the page's end does; nil while there is none.
	sock   *socket       // Guarded by mu. The WebSocket; nil while there is none.
	muted  bool          // Guarded by mu.
	over   bool          // Guarded by mu. It does not come back.
}

func newSession(c *clientConfig, user string, out *reporter) *session {
	return &session{
		clientConfig: c, user: user, out: out, retry: 200 * time.Millisecond, wake: make(chan struct{}, 1),
		http: &http.Client{Timeout: dialWithin, Transport: &http.Transport{MaxIdleConnsPerHost: 2}},
	}
}

// run keeps the connection open until it is over.
func (s *session) run() {
	for {
		err := map[kind]func() error{
			kindSSE: s.stream, kindPlain: s.stream, kindWS: s.webSocket, kindLease: s.renew,
		}[s.Kind]()
		s.mu.Lock()
		s.end, s.sock = nil, nil
		over, retry := s.over || s.muted, s.retry
		s.mu.Unlock()
		if over {
			if s.muted {
				select {} // the process goes on
			}
			return
		}
		if err != nil {
			s.out.report(reportError, s.user, time.Now(), err.Error())
		}
		time.Sleep(retry)
	}
}

func (s *session) proved(at time.Time) { s.out.report(reportProof, s.user, at, "") }

func (s *session) isMuted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.muted
}

// begin notes the beginning of a stream.
func (s *session) begin(data []byte) ready {
	s.mu.Lock()
	defer s.mu.Unlock()
	json.Unmarshal(data, &s.ready)
	return s.ready
}

// stream is an event stream, from its opening to its end.
func (s *session) stream() error {
	s.mu.Lock()
	lastID := s.lastID
	s.mu.Unlock()
	beats := ""
	if s.Kind == kindSSE {
		beats = "1"
	}
	st, err := dialSSE(s.URL, roomPath(s.Room)+"/stream?"+query("user", s.user, "beat", beats), lastID)
	if err != nil {
		return err
	}
	defer st.conn.Close()
	s.mu.Lock()
	s.end = func() { st.conn.Close() }
	s.mu.Unlock()
	told := false
	for {
		e, err := st.next()
		if err != nil {
			if !told {
				s.out.report(reportDropped, s.user, time.Now(), err.Error())
			}
			return nil // it has ended, as streams do
		}
		at := time.Now()
		s.mu.Lock()
		if e.ID != "" {
			s.lastID = e.ID
		}
		if e.Retry != 0 {
			s.retry = e.Retry
		}
		s.mu.Unlock()
		switch e.Name {
		case "ready":
			s.begin(e.Data)
			s.out.report(reportReady, s.user, at, "")
			s.proved(at)
		case "beat":
			s.beat(e.Data, at)
		case "bye":
			told = true
			s.out.report(reportBye, s.user, at, string(e.Data))
		}
	}
}

// beat answers a beat, as a page does that can.
func (s *session) beat(data []byte, at time.Time) {
	s.mu.Lock()
	r, muted := s.ready, s.muted
	s.mu.Unlock()
	if s.Kind != kindSSE || muted {
		return
	}
	if err := r.answer(context.Background(), s.http, s.URL, data); err != nil {
		s.out.report(reportError, s.user, at, err.Error())
		return
	}
	s.proved(at)
}

// webSocket is a WebSocket, from its opening to its end.
func (s *session) webSocket() error {
	s.mu.Lock()
	resume := s.ready.Resume
	s.mu.Unlock()
	sock, err := dialWS(s.URL, query("user", s.user, "resume", resume))
	if err != nil {
		return err
	}
	defer sock.conn.Close()
	s.mu.Lock()
	s.sock = sock
	s.end = func() { sock.close(ws.StatusGoingAway) }
	s.mu.Unlock()
	for {
		f, events, err := sock.next()
		if err != nil {
			return nil
		}
		at := time.Now()
		switch f.Header.OpCode {
		case ws.OpPing:
			if !s.isMuted() && sock.pong(f.Payload) == nil {
				s.proved(at)
			}
		case ws.OpClose:
			s.out.report(reportBye, s.user, at, "close frame")
			sock.close(ws.StatusNormalClosure)
			return nil
		}
		for _, e := range events {
			switch e.Name {
			case "ready":
				s.begin(e.Data)
				sock.send(map[string]any{"type": "join", "room": s.Room})
			case "snapshot", "resumed":
				s.out.report(reportReady, s.user, at, "")
				s.proved(at)
			case "bye":
				s.out.report(reportBye, s.user, at, string(e.Data))
			}
		}
	}
}

// renew is a lease without a stream, from its grant until it is refused.
func (s *session) renew() error {
	at := time.Now()
	var r ready
	base := s.URL + roomPath(s.Room) + "/connections"
	if err := do(context.Background(), s.http, "POST", base+"?"+query("user", s.user), "", "{}", &r); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = r
	s.mu.Unlock()
	s.out.report(reportReady, s.user, time.Now(), "")
	s.proved(at)
	for {
		select { // a client of this kind has nothing but its own clock
		case <-time.After(beat):
		case <-s.wake:
		}
		s.mu.Lock()
		over, muted := s.over || s.ready != r, s.muted
		s.mu.Unlock()
		if over || muted {
			return nil
		}
		at := time.Now()
		err := do(context.Background(), s.http, "PUT", base+"/"+r.Connection, r.Resume, "{}", nil)
		var refused *refusal
		switch {
		case err == nil:
			s.proved(at)
		case errors.As(err, &refused):
			return err // it has ended: a new one
		}
	}
}

// obey carries out a command.
func (s *session) obey(command string) {
	s.mu.Lock()
	r, end, sock := s.ready, s.end, s.sock
	switch command {
	case sayMute:
		s.muted = true
	case sayReload:
		s.ready, s.lastID = ready{}, "" // the new page knows nothing of the old one
	default:
		s.over = true
	}
	s.mu.Unlock()
	s.out.report(reportDoing, s.user, time.Now(), command)
	ctx := context.Background()
	var err error
	switch {
	case command == sayMute:
	case command == sayLeave && s.Kind == kindWS:
		err = sock.send(map[string]any{"type": "leave", "room": s.Room})
	case command == sayLeave && s.Kind == kindLease:
		err = do(ctx, s.http, "DELETE", s.URL+roomPath(s.Room)+"/connections/"+r.Connection, r.Resume, "", nil)
	case command == sayLeave:
		err = r.post(ctx, s.http, s.URL, "/release", `{}`)
		end()
	case s.Kind == kindLease:
		err = r.post(ctx, s.http, s.URL, "/release", `{"closing":true,"resume":"`+r.Resume+`"}`)
	case command == sayBeacon:
		err = r.post(ctx, s.http, s.URL, "/release", `{"closing":true,"resume":"`+r.Resume+`"}`)
		if c := sock; c != nil {
			end = func() { c.conn.Close() }
		}
		end()
	default:
		end()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		s.out.report(reportError, s.user, time.Now(), command+": "+err.Error())
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
