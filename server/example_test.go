package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"rollcall/client"
	"rollcall/server"
	"rollcall/server/auth"
	"rollcall/store"
)

// A server in a program of its own, and somebody who comes in. auth.Guests lets
// everybody in: an application has an auth.Authenticator that knows its users.
func ExampleNew() {
	memory := store.NewMemory(store.MemoryOptions{Settled: true})
	defer memory.Close()
	presence, err := server.New(server.Options{Store: memory, Auth: auth.Guests{}})
	if err != nil {
		log.Fatal(err)
	}
	defer presence.Close()

	mux := http.NewServeMux()
	mux.Handle("/v1/", presence)
	web := httptest.NewServer(mux)
	defer web.Close()

	c, err := client.New(client.Options{URL: web.URL, User: "ana", Name: "Ana"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	room, err := c.Enter(context.Background(), "doc:42", client.EnterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(room.Count(), "here:", room.Members()[0].User)
	// Output: 1 here: ana
}
