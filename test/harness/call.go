package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Call is one HTTP request.
type Call struct {
	Method string // GET
	Path   string // from / on, with its query
	Base   string // instead of the server's URL: that of a proxy
	Body   string
	Token  string // a bearer token; the APIKey in a server with tokens if it is ""
	Nobody bool   // no token at all
	Resume string
	Type   string // of the body; application/json
	Header http.Header
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // the request failed; Status is 0
}

// Problem is the body of a refusal.
type Problem struct {
	Type, Title, Detail, RequestID string
	Status, Limit                  int
	Code                           string
}

// Problem reads the answer as a refusal; its zero value if it is none.
func (a *Answer) Problem() (p Problem) {
	if strings.HasPrefix(a.Header.Get("Content-Type"), "application/problem+json") {
		json.Unmarshal(a.Body, &p)
	}
	return p
}

// JSON reads the body.
func (a *Answer) JSON(into any) error { return json.Unmarshal(a.Body, into) }

// Do makes a request. It fails no test.
func (s *Server) Do(c Call) *Answer {
	if c.Method == "" {
		c.Method = "GET"
	}
	if c.Base == "" {
		c.Base = s.URL
	}
	req, err := http.NewRequest(c.Method, c.Base+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return &Answer{Err: err}
	}
	for k, v := range c.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	switch {
	case c.Nobody:
	case c.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.Token)
	case s.Tokens && c.Resume == "":
		req.Header.Set("Authorization", "Bearer "+APIKey)
	}
	if c.Resume != "" {
		req.Header.Set("Rollcall-Resume", c.Resume)
	}
	if c.Body != "" {
		if c.Type == "" {
			c.Type = "application/json"
		}
		req.Header.Set("Content-Type", c.Type)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return &Answer{Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
}

// Get makes a GET and fails the test if the status is not 200.
func (s *Server) Get(path string) *Answer {
	s.t.Helper()
	a := s.Do(Call{Path: path})
	if a.Err != nil || a.Status != 200 {
		s.t.Fatalf("GET %s: status %d, %v, %s", path, a.Status, a.Err, a.Body)
	}
	return a
}

// RoomPath is the path of a room, with what follows.
func RoomPath(room, rest string) string { return "/v1/rooms/" + url.PathEscape(room) + rest }

// ConnectionPath is the path of a connection in a room.
func ConnectionPath(room, connection string) string {
	return RoomPath(room, "/connections/"+url.PathEscape(connection))
}

// Room is the answer of GET /v1/rooms/{room}.
type Room struct {
	Room, Mode         string
	Count, Connections int
	Epoch              string
	Version            int64
}

// Room asks for the numbers of a room.
func (s *Server) Room(room string) (r Room) {
	s.t.Helper()
	a := s.Get(RoomPath(room, ""))
	if err := a.JSON(&r); err != nil {
		s.t.Fatalf("room %q: %v: %s", room, err, a.Body)
	}
	return r
}

// Count is the number of members of a room, as /v1/counts says.
func (s *Server) Count(room string) int {
	s.t.Helper()
	body, _ := json.Marshal(map[string][]string{"rooms": {room}})
	a := s.Do(Call{Method: "POST", Path: "/v1/counts", Body: string(body)})
	var counts struct{ Counts map[string]int }
	if a.Status != 200 || a.JSON(&counts) != nil {
		s.t.Fatalf("counts of %q: status %d, %v, %s", room, a.Status, a.Err, a.Body)
	}
	n, ok := counts.Counts[room]
	if !ok {
		s.t.Fatalf("counts of %q: it is not among %s", room, a.Body)
	}
	return n
}

// Member is a member as the protocol writes it.
type Member struct {
	User        string          `json:"user"`
	Info        json.RawMessage `json:"info,omitempty"`
	Status      string          `json:"status"`
	Connections int             `json:"connections"`
	Since       int64           `json:"since"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// Same compares by value, byte for byte.
func (m Member) Same(o Member) bool {
	return m.User == o.User && m.Status == o.Status && m.Connections == o.Connections && m.Since == o.Since &&
		bytes.Equal(m.Info, o.Info) && bytes.Equal(m.Data, o.Data)
}

// Roster reads all pages of the members of a room, newest join first.
func (s *Server) Roster(room string) []Member {
	s.t.Helper()
	var all []Member
	cursor := ""
	for {
		var page struct {
			Members    []Member
			NextCursor string
		}
		a := s.Get(RoomPath(room, "/members?limit=200&cursor="+url.QueryEscape(cursor)))
		if err := a.JSON(&page); err != nil {
			s.t.Fatalf("members of %q: %v: %s", room, err, a.Body)
		}
		all = append(all, page.Members...)
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
}

// Users is the users of a roster.
func (s *Server) Users(room string) []string {
	s.t.Helper()
	users := []string{}
	for _, m := range s.Roster(room) {
		users = append(users, m.User)
	}
	return users
}

// Present reports whether a user is on the roster.
func (s *Server) Present(room, user string) bool {
	s.t.Helper()
	_, ok := s.Member(room, user)
	return ok
}

// Member is one member of a room.
func (s *Server) Member(room, user string) (m Member, ok bool) {
	s.t.Helper()
	a := s.Do(Call{Path: RoomPath(room, "/members/"+url.PathEscape(user))})
	switch a.Status {
	case 200:
		if err := a.JSON(&m); err != nil {
			s.t.Fatalf("member %q of %q: %v: %s", user, room, err, a.Body)
		}
		return m, true
	case 404:
		return m, false
	}
	s.t.Fatalf("member %q of %q: status %d, %v, %s", user, room, a.Status, a.Err, a.Body)
	return m, false
}

// Metric is the sum of a metric over the label sets that contain labels, such as
// `transport="sse"`; and over the nodes of a pair.
func (s *Server) Metric(name string, labels ...string) float64 {
	s.t.Helper()
	n := s.metric(name, labels)
	if s.far == nil {
		return n
	}
	return n + s.far.metric(name, labels)
}

func (s *Server) metric(name string, labels []string) float64 {
	s.t.Helper()
	req, err := http.NewRequest("GET", s.Admin+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity") // who measures memory does not cause any
	res, err := s.http.Do(req)
	if err != nil {
		s.t.Errorf("metrics: %v", err)
		return -1
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("metrics: %v", err)
		return -1
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || key != name && !strings.HasPrefix(key, name+"{") || !containsAll(key, labels) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Errorf("metric %s: %v", line, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		s.t.Errorf("there is no metric %s %v", name, labels)
	}
	return sum
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
