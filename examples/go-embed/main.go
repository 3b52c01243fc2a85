// Command go-embed is a web application that has presence in it: the server of
// Rollcall is mounted beside its own pages, its own logins say who may come in,
// and it watches a room itself with the Go client.
//
//	go run ./examples/go-embed
//
// Then open http://127.0.0.1:8000 in two browsers, or in one window and one
// private window, and log in with two names.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "where to listen")
	flag.Parse()
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(stop, *listen); err != nil {
		log.Fatal(err)
	}
}

// run serves until stop ends.
func run(stop context.Context, listen string) error {
	a, err := newApplication()
	if err != nil {
		return err
	}
	defer a.close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	// No WriteTimeout: streams last, and Rollcall ends those that do not read.
	web := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(l) }()
	log.Printf("listening on http://%s", l.Addr())

	watching := make(chan error, 1)
	watched, leave := context.WithCancel(stop)
	defer leave()
	go func() {
		watching <- a.watch(watched, "http://"+l.Addr().String(), func(said string) { log.Print(said) })
	}()

	select {
	case err := <-failed:
		leave()
		return errors.Join(err, <-watching)
	case <-stop.Done():
	}
	// Clients are told to come back in a moment, and their leases run on: to
	// them a deploy is a reconnect. Then the pages that are still being sent.
	bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(<-watching, a.presence.Drain(bounded, time.Second), web.Shutdown(bounded))
}

// application is pages, logins and presence.
type application struct {
	sessions *sessions
	services *services
	memory   *store.Memory
	presence *server.Server
}

func newApplication() (*application, error) {
	a := &application{sessions: newSessions(), services: newServices()}
	tokens, err := a.services.authenticator()
	if err != nil {
		return nil, err
	}
	a.memory = store.NewMemory(store.MemoryOptions{})
	a.presence, err = server.New(server.Options{
		Store: a.memory,
		// The first that knows what a client shows decides: a session of the
		// browser, or a token of one of our own services.
		Auth: auth.Chain(a.sessions, tokens),
	})
	if err != nil {
		return nil, fmt.Errorf("start presence: %w", err)
	}
	return a, nil
}

// close ends every stream, and then the memory.
func (a *application) close() {
	a.presence.Close()
	a.memory.Close()
}

// handler is the whole application. Presence takes /v1/, and gets the requests
// as they are: a middleware that compresses or buffers has to leave it out.
func (a *application) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", a.presence)
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	return mux
}

func (a *application) home(w http.ResponseWriter, r *http.Request) {
	s, _ := a.sessions.of(r)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, struct{ Name, Room string }{s.name, documentRoom}); err != nil {
		log.Print(err)
	}
}

func (a *application) login(w http.ResponseWriter, r *http.Request) {
	if err := a.sessions.begin(w, r, r.PostFormValue("name")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (a *application) logout(w http.ResponseWriter, r *http.Request) {
	a.sessions.end(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
