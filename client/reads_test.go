package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall"
	"rollcall/wire"
)

func TestReads(t *testing.T) {
	var asked string
	answers := map[string]string{
		"GET /v1/rooms/doc%2F42 ":                                       `{"room":"doc/42","mode":"full","count":2,"connections":3,"epoch":"e","version":9}`,
		"GET /v1/rooms/doc%2F42/members?cursor=x&limit=2 ":              `{"members":[{"user":"ana"}],"nextCursor":"y","count":2,"version":9}`,
		"GET /v1/rooms/doc%2F42/members ":                               `{"members":[],"nextCursor":null,"count":0,"version":9}`,
		"GET /v1/rooms/doc%2F42/members/a%2Fb ":                         `{"user":"a/b"}`,
		`POST /v1/rooms/doc%2F42/members/lookup {"users":["ana","bo"]}`: `{"present":[{"user":"ana"}]}`,
		"GET /v1/rooms?cursor=x&limit=2&prefix=doc%2F ":                 `{"rooms":[{"room":"doc/42","count":3,"mode":"counts"}],"nextCursor":"y"}`,
		"GET /v1/rooms/doc%2F42/audience?windowMs=60000 ":               `{"estimate":1000,"standardError":0.01625,"windowMs":60000}`,
		"GET /v1/rooms/doc%2F42/audience ":                              `{"estimate":3,"standardError":0,"windowMs":300000}`,
		"GET /v1/rooms ":                                                `{"rooms":[],"nextCursor":null}`,
		`POST /v1/counts {"rooms":["a","b"]}`:                           `{"counts":{"a":1,"b":0}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.RequestURI() + " " + string(body)
		switch answer, ok := answers[asked]; {
		case r.Header.Get("Authorization") != "Bearer sk_1":
			w.WriteHeader(http.StatusBadGateway)
		case ok:
			io.WriteString(w, answer)
		default:
			w.WriteHeader(http.StatusNotFound)
			w.Write(wire.AppendProblem(nil, rollcall.LimitError(rollcall.CodeNotFound, 7, "not here"), "id"))
		}
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/", APIKey: "sk_1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()

	if got, err := c.Room(ctx, "doc/42"); err != nil || got.Count != 2 || got.Connections != 3 {
		t.Errorf("room %+v, %v", got, err)
	}
	if got, err := c.Members(ctx, "doc/42", "x", 2); err != nil || got.NextCursor != "y" || got.Members[0].User != "ana" {
		t.Errorf("members %+v, %v", got, err)
	}
	if got, err := c.Members(ctx, "doc/42", "", 0); err != nil || got.NextCursor != "" {
		t.Errorf("members %+v, %v", got, err)
	}
	want := RoomsPage{Rooms: []rollcall.RoomSummary{{Room: "doc/42", Count: 3, Mode: rollcall.ModeCounts}}, NextCursor: "y"}
	if got, err := c.Rooms(ctx, "doc/", "x", 2); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("rooms %+v, %v", got, err)
	}
	if got, err := c.Audience(ctx, "doc/42", time.Minute); err != nil || got != (Audience{Estimate: 1000, StandardError: 0.01625, Window: time.Minute}) {
		t.Errorf("audience %+v, %v", got, err)
	}
	if got, err := c.Audience(ctx, "doc/42", 0); err != nil || got != (Audience{Estimate: 3, Window: 5 * time.Minute}) {
		t.Errorf("audience %+v, %v", got, err)
	}
	if got, err := c.Rooms(ctx, "", "", 0); err != nil || got.NextCursor != "" || len(got.Rooms) != 0 {
		t.Errorf("rooms %+v, %v", got, err)
	}
	if got, err := c.Member(ctx, "doc/42", "a/b"); err != nil || got.User != "a/b" {
		t.Errorf("member %+v, %v", got, err)
	}
	if got, err := c.Lookup(ctx, "doc/42", "ana", "bo"); err != nil || len(got) != 1 {
		t.Errorf("lookup %+v, %v", got, err)
	}
	got, err := c.Counts(ctx, "a", "b")
	if d := cmp.Diff(map[rollcall.RoomID]int{"a": 1, "b": 0}, got); d != "" || err != nil {
		t.Errorf("counts %v: %s", err, d)
	}

	var refused *rollcall.Error
	if _, err := c.Member(ctx, "doc/42", "zoe"); !errors.As(err, &refused) || refused.Code != rollcall.CodeNotFound || refused.Limit != 7 {
		t.Errorf("absent member: %v", err)
	}
	if _, err := c.Room(ctx, ".."); !errors.As(err, &refused) || refused.Code != rollcall.CodeBadRequest {
		t.Errorf("bad id: %v", err)
	}
	other, _ := New(Options{URL: server.URL})
	defer other.Close()
	if _, err := other.Room(ctx, "r"); err == nil || errors.As(err, &refused) && refused.Code == rollcall.CodeNotFound {
		t.Errorf("an answer that is not ours: %v", err)
	}
}
