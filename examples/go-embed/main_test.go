package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"rollcall"
	"rollcall/client"
)

// start serves the application until the end of the test.
func start(t *testing.T) (*application, string) {
	t.Helper()
	a, err := newApplication()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.handler())
	t.Cleanup(func() {
		a.close()
		web.Close()
	})
	return a, web.URL
}

// logIn is an HTTP client with the session of a user.
func logIn(t *testing.T, address, name string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	response, err := browser.PostForm(address+"/login", url.Values{"name": {name}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(body), "Hello, "+name) {
		t.Fatalf("after the login: %s", body)
	}
	return browser
}

func next(t *testing.T, said <-chan string) string {
	t.Helper()
	select {
	case s := <-said:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was said")
		return ""
	}
}

func TestSessionIsPresence(t *testing.T) {
	a, address := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 8)
	watched := make(chan error, 1)
	go func() { watched <- a.watch(ctx, address, func(s string) { said <- s }) }()

	browser := logIn(t, address, "Ana")
	c, err := client.New(client.Options{URL: address, HTTPClient: browser})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waitForWatcher(t, a)
	room, err := c.Enter(ctx, documentRoom, client.EnterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.User(); got != "ana" {
		t.Errorf("the session makes us %q, want ana", got)
	}
	if got, want := next(t, said), "Ana has come, 1 here"; got != want {
		t.Errorf("the watcher said %q, want %q", got, want)
	}
	if err := room.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := next(t, said), "Ana is gone (left), 0 here"; got != want {
		t.Errorf("the watcher said %q, want %q", got, want)
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

// waitForWatcher waits until the watcher has its stream.
func waitForWatcher(t *testing.T, a *application) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		families, err := a.presence.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "rollcall_watched_rooms" && f.Metric[0].GetGauge().GetValue() > 0 {
				return
			}
		}
		time.Sleep(10 * time.Millisecond) // a real server and a real socket
	}
	t.Fatal("nobody watches")
}

func TestWhoIsNotLoggedInStaysOutside(t *testing.T) {
	_, address := start(t)
	response, err := http.Get(address + "/v1/rooms/" + documentRoom + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a session: %s, want 401", response.Status)
	}

	c, err := client.New(client.Options{URL: address, HTTPClient: logIn(t, address, "Ben")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Room(t.Context(), "secret:1")
	var refused *rollcall.Error
	if !errors.As(err, &refused) || refused.Code != rollcall.CodeForbidden {
		t.Errorf("in another room: %v, want forbidden", err)
	}
}

func TestServesAndDrains(t *testing.T) {
	stop, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(stop, "127.0.0.1:0") }()
	time.AfterFunc(200*time.Millisecond, cancel)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
}
