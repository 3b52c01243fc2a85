package demo

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

const (
	maxLinks = 256 // the oldest is forgotten
	maxLink  = 64  // bytes of a name
)

// links are connections that the page wants cut, which no page can do to its own:
// a WebSocket that ends without a close frame. Safe for concurrent use.
type links struct {
	mu    sync.Mutex
	conns map[string]net.Conn // Guarded by mu.
	order []string            // Guarded by mu. Oldest first.
}

// watch notes the connections of requests that name one: /v1/ws?link=NAME.
func (l *links) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ws" {
			if name := r.URL.Query().Get("link"); name != "" && len(name) <= maxLink {
				w = &watchedWriter{w, l, name}
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (l *links) add(name string, c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.conns[name]; !known {
		l.order = append(l.order, name)
	}
	l.conns[name] = c
	if len(l.order) > maxLinks {
		delete(l.conns, l.order[0])
		l.order = l.order[1:]
	}
}

// cut ends a connection as a broken cable does: nothing is said, and for the
// server it has ended in the middle of nowhere.
func (l *links) cut(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	c := l.conns[r.URL.Query().Get("link")]
	l.mu.Unlock()
	if half, ok := c.(interface{ CloseRead() error }); ok {
		half.CloseRead()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Error(w, "there is no such link", http.StatusNotFound)
}

// watchedWriter tells which connection is taken over.
type watchedWriter struct {
	http.ResponseWriter
	links *links
	name  string
}

// Unwrap is for [http.ResponseController].
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.links.add(w.name, c)
	}
	return c, rw, err
}
