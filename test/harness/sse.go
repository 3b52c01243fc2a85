package harness

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// dialSSE makes the request of a stream.
func (c *Client) dialSSE(no int, first bool) (*stream, *Answer) {
	q := c.query()
	path := "/v1/stream"
	if len(c.o.Rooms) == 1 && !c.o.Multi {
		path = RoomPath(c.o.Rooms[0], "/stream")
	} else {
		q["room"] = c.o.Rooms
	}
	set := func(name, value string, when bool) {
		if when && value != "" {
			q.Set(name, value)
		}
	}
	set("beat", "1", !c.o.Plain)
	set("observe", "1", c.o.Observe)
	// An EventSource comes back with the very same URL.
	set("status", c.o.Status, true)
	set("data", c.o.Data, true)
	set("resume", c.o.Resume, true)
	set("since", c.o.Since, true)
	req, err := http.NewRequestWithContext(c.ctx, "GET", c.base()+path+"?"+q.Encode(), nil)
	if err != nil {
		return nil, &Answer{Err: err}
	}
	req.Header = c.header()
	req.Header.Set("Accept", "text/event-stream")
	if id := c.LastEventID(); id != "" {
		req.Header.Set("Last-Event-ID", id)
	}
	before := c.linkCount()
	rt := &http.Transport{
		DialContext: c.dial, DisableCompression: true, DisableKeepAlives: !c.s.TLS,
		TLSClientConfig: c.s.tls.Clone(), ForceAttemptHTTP2: c.s.TLS,
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return nil, &Answer{Err: err}
	}
	l := c.linkAt(before)
	if res.StatusCode != http.StatusOK {
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		l.Close()
		return nil, &Answer{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
	}
	return &stream{no: no, link: l, res: res, over: make(chan struct{})}, nil
}

func (c *Client) linkCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.links)
}

func (c *Client) linkAt(i int) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[i]
}

// Head is the header of the answer of the newest stream.
func (c *Client) Head() http.Header {
	if st := c.current(); st != nil && st.res != nil {
		return st.res.Header
	}
	return nil
}

// Proto is the protocol of the newest stream, such as HTTP/2.0.
func (c *Client) Proto() string { return c.current().res.Proto }

// Comments is how many comments have come.
func (c *Client) Comments() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comment
}

// readSSE reads events as the standard of EventSource says.
func (c *Client) readSSE(st *stream) {
	defer st.link.Close()
	in := bufio.NewReader(st.res.Body)
	var name, data, id string
	var hasData, hasID bool
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			c.finished(st, End{Err: err})
			return
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if hasID {
				c.noteID(st, id)
			}
			if hasData {
				c.record(st, name, []byte(data))
			}
			name, data, id, hasData, hasID = "", "", "", false, false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			c.mu.Lock()
			c.comment++
			c.mu.Unlock()
		case "event":
			name = value
		case "data":
			if hasData {
				data += "\n"
			}
			data, hasData = data+value, true
		case "id":
			id, hasID = value, true
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				c.mu.Lock()
				c.retry = time.Duration(ms) * time.Millisecond
				c.mu.Unlock()
			}
		}
	}
}

func (c *Client) noteID(st *stream, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.no == c.opened {
		c.lastID = id
		c.signalLocked()
	}
}

// Query is one query parameter.
func Query(name, value string) url.Values { return url.Values{name: {value}} }
