//go:build unix

package departures

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The times that the table runs with: a tenth of the usual, but for the grace.
const (
	lease = 3 * time.Second
	beat  = 900 * time.Millisecond
	grace = time.Second
)

// server is a running `rollcall serve`.
type server struct {
	*child
	url   string // http://HOST:PORT, as 127.0.0.1
	port  string
	extra []string
}

// startServer starts a server on all addresses of port ("0": any).
func startServer(ctx context.Context, t testing.TB, port string, extra ...string) (*server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	s := &server{extra: extra}
	var listening atomic.Pointer[string]
	args := slices.Concat([]string{
		path, "serve", "--guests", "--listen", "0.0.0.0:" + port, "--admin-listen", "127.0.0.1:0",
		"--lease", lease.String(), "--beat", beat.String(), "--close-grace", grace.String(),
	}, extra)
	s.child, err = start(t, launch{args: args, err: func(line string) {
		if at, ok := strings.CutPrefix(line, "rollcall: listening on "); ok {
			listening.Store(&at)
		}
	}})
	if err != nil {
		return nil, err
	}
	if !s.await(ctx, func() bool { return listening.Load() != nil || s.gone() }) || listening.Load() == nil {
		return nil, fmt.Errorf("the server does not listen:\n%s", s.stderr())
	}
	u, err := url.Parse(*listening.Load())
	if err != nil {
		return nil, err
	}
	s.port = u.Port()
	s.url = "http://127.0.0.1:" + s.port
	return s, nil
}

// polls is the client of everybody who reads over HTTP in this process.
var polls = &http.Client{
	Timeout:   15 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 8},
}

// get reads JSON.
func get(ctx context.Context, url string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	res, err := polls.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != 200 {
		return nil, fmt.Errorf("GET %s: %s: %s", url, res.Status, body)
	}
	return res.Header, json.Unmarshal(body, into)
}

// member is a member as the protocol writes it.
type member struct {
	User        string `json:"user"`
	Connections int    `json:"connections"`
}

// roster is the members of a room, and the count that came with them.
func roster(ctx context.Context, base, room string) (members []member, count int, settling string, err error) {
	var page struct {
		Members    []member
		Count      int
		NextCursor string
	}
	header, err := get(ctx, base+roomPath(room)+"/members?limit=200", &page)
	if err == nil && page.NextCursor != "" {
		err = fmt.Errorf("room %s has more than one page", room)
	}
	if err != nil {
		return nil, 0, "", err
	}
	return page.Members, page.Count, header.Get("Rollcall-Settling"), nil
}

// counts is the numbers of members and connections of a room.
func counts(ctx context.Context, base, room string) (members, connections int, err error) {
	var answer struct{ Count, Connections int }
	_, err = get(ctx, base+roomPath(room), &answer)
	return answer.Count, answer.Connections, err
}

func roomPath(room string) string { return "/v1/rooms/" + url.PathEscape(room) }
