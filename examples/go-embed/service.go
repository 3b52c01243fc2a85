package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"rollcall"
	"rollcall/client"
	"rollcall/server/auth"
)

// documentRoom is the room of the one document of this application.
const documentRoom = "doc:1"

// services are parts of the application that are no browsers. They show tokens,
// signed with a secret that nobody else knows.
type services struct{ secret []byte }

func newServices() *services {
	s := &services{secret: make([]byte, auth.MinSecret)}
	rand.Read(s.secret) // never fails
	return s
}

// authenticator knows the tokens of the services.
func (s *services) authenticator() (auth.Authenticator, error) {
	keys, err := auth.NewKeys(auth.SecretKey("", s.secret))
	if err != nil {
		return nil, fmt.Errorf("keys of the services: %w", err)
	}
	return auth.NewJWT(auth.JWTOptions{Keys: keys})
}

// token is a token for a service that may look into every document.
func (s *services) token(context.Context) (string, error) {
	return auth.Mint(s.secret, auth.Claims{
		User:    "watcher",
		Grants:  map[string][]auth.Capability{"doc:*": {auth.Read}},
		Expires: time.Now().Add(time.Hour),
	})
}

// watch tells who comes to the document and who goes, until ctx ends. Nobody
// sees it watch.
func (a *application) watch(ctx context.Context, url string, say func(string)) error {
	c, err := client.New(client.Options{URL: url, TokenFunc: a.services.token})
	if err != nil {
		return err
	}
	defer c.Close()
	room, err := c.Enter(ctx, documentRoom, client.EnterOptions{Observe: true})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for {
		select {
		case change, open := <-room.Changes():
			if !open {
				_, err := room.State()
				return err
			}
			switch change.Kind {
			case client.KindJoin:
				say(fmt.Sprintf("%s has come, %d here", nameOf(change.Member), change.Count))
			case client.KindLeave:
				say(fmt.Sprintf("%s is gone (%s), %d here", nameOf(change.Member), change.Reason, change.Count))
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// nameOf is the name in the profile of a member.
func nameOf(m *rollcall.Member) string {
	var info struct{ Name string }
	if json.Unmarshal(m.Info, &info) != nil || info.Name == "" {
		return string(m.User)
	}
	return info.Name
}
