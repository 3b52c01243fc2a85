package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall"
	"rollcall/client"
)

func usersOf(members []*rollcall.Member) (users string) {
	for _, m := range members {
		users += string(m.User) + " "
	}
	return users
}

func TestPagesAndContactsAreKept(t *testing.T) {
	n := newNode(t)
	ana, wires := n.client(t, "ana")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	atAna := enter(t, ana, "r", client.EnterOptions{Observe: true})
	changes := atAna.Changes()
	until(t, changes, client.KindSnapshot, "")
	join := func(user rollcall.UserID) *client.Room {
		c, _ := n.client(t, user)
		return enter(t, c, "r", client.EnterOptions{})
	}
	bob := join("bob")
	join("cleo")

	p, err := atAna.OpenPage(ctx, "top", "", 2)
	if err != nil || usersOf(p.Members) != "cleo bob " || p.Count != 2 || p.NextCursor != "" {
		t.Fatalf("page: %+v, %v", p, err)
	}
	here, err := atAna.SetContacts(ctx, "dan", "bob", "nobody")
	if err != nil || usersOf(here) != "bob " {
		t.Fatalf("contacts: %s, %v", usersOf(here), err)
	}
	shown := func(page, contacts string) {
		t.Helper()
		for ctx.Err() == nil {
			p, open := atAna.Page("top")
			if open && usersOf(p.Members) == page && usersOf(atAna.Contacts()) == contacts {
				return
			}
			<-changes
		}
		p, _ := atAna.Page("top")
		t.Fatalf("page %s and contacts %s, want %s and %s", usersOf(p.Members), usersOf(atAna.Contacts()), page, contacts)
	}
	join("dan")
	shown("dan cleo ", "bob dan ")
	if p, _ := atAna.Page("top"); p.NextCursor == "" {
		t.Error("bob is on the next page, and there is none")
	}

	// On a new stream they are opened again.
	wires.cut()
	if err := bob.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	shown("dan cleo ", "dan ")

	atAna.ClosePage("top")
	if _, open := atAna.Page("top"); open {
		t.Error("a page that was closed is open")
	}
	if here, err := atAna.SetContacts(ctx); err != nil || len(here) != 0 {
		t.Errorf("no contacts: %v, %v", here, err)
	}
	var refused *rollcall.Error
	if _, err := atAna.OpenPage(ctx, "p", "nonsense", 0); !errors.As(err, &refused) || refused.Code != rollcall.CodeBadRequest {
		t.Errorf("a cursor of nobody: %v", err)
	}
	for i := range 5 {
		if _, err = atAna.OpenPage(ctx, string(rune('a'+i)), "", 0); err != nil {
			break
		}
	}
	if !errors.As(err, &refused) || refused.Code != rollcall.CodeRateLimited || refused.Limit != 4 {
		t.Errorf("a fifth page: %v", err)
	}
	if _, open := atAna.Page("e"); open {
		t.Error("a page that was refused is open")
	}
}
