package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"rollcall"
	"rollcall/wire"
)

// RoomsPage is one page of the list of rooms.
type RoomsPage = wire.RoomsPage

// Rooms reads a page of limit rooms with members (1 to 200; 0: as many as the
// server likes) whose names begin with prefix, in the byte order of their names.
// cursor is "" for the first page, and then the NextCursor of the page before; ""
// there tells that it was the last. A room that has members all the while is told
// exactly once over the pages. It takes a server key.
func (c *Client) Rooms(ctx context.Context, prefix, cursor string, limit int) (RoomsPage, error) {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	raw, err := c.call(ctx, c.endpoint.at(query, "rooms"), nil)
	if err != nil {
		return RoomsPage{}, fmt.Errorf("list rooms: %w", err)
	}
	page, err := wire.DecodeRoomsPage(raw)
	if err != nil {
		return RoomsPage{}, fmt.Errorf("list rooms: %w", err)
	}
	return page, nil
}

// Audience is how many distinct users were in a room within a window.
type Audience = wire.Audience

// Audience reads how many distinct users held a lease in a room at any time within
// a window until now (0: that of the server, 5 min; it has a least and a most). A
// small audience is exact, and its StandardError 0.
func (c *Client) Audience(ctx context.Context, room rollcall.RoomID, window time.Duration) (Audience, error) {
	query := url.Values{}
	if window > 0 {
		query.Set("windowMs", strconv.FormatInt(max(window.Milliseconds(), 1), 10))
	}
	return read(c, ctx, "read audience of room", room, query, nil, wire.DecodeAudience, "audience")
}

// Happening is one event of the feed for back ends: occupied, vacated, join, leave,
// reset, or bye.
type Happening = wire.Happening

// Events hears who comes and goes in every room whose name begins with prefix, and
// hands it to fn, one at a time. It comes back by itself when the stream ends, and
// returns when ctx ends, with an error that trying again cannot mend, or with that
// of fn. It takes a server key.
//
// Nothing is stored: after each reset, the first of which comes at the start, what
// was before has to be read, by [Client.Rooms] and [Client.Members]. An event may
// come twice, and one that was read already may come after the read: its version
// tells, for one epoch.
func (c *Client) Events(ctx context.Context, prefix string, fn func(*Happening) error) error {
	for failures := 0; ; failures++ {
		began := time.Now()
		e := c.hearEvents(ctx, prefix, fn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e.verdict == stop {
			return e.err
		}
		if time.Since(began) > stays {
			failures = 0
		}
		c.log.Debug("events ended", "err", e.err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff(failures, e, rand.Float64)):
		}
	}
}

// hearEvents hears one stream of events to its end.
func (c *Client) hearEvents(ctx context.Context, prefix string, fn func(*Happening) error) *ending {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint.at(query, "events"), nil)
	if err != nil {
		return stopped(withoutQuery(err))
	}
	request.Header.Set("Accept", "text/event-stream")
	c.endpoint.authorize(request.Header, "")
	response, err := c.http.Do(request)
	if err != nil {
		return cutOff(withoutQuery(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(response.Body, readLimit))
		e := judgeAnswer(response.StatusCode, response.Header, fmt.Errorf("read events: %w", problem(response, raw)))
		if e.verdict == token || response.StatusCode == http.StatusNotFound {
			e.verdict = stop // a key does not become another
		}
		return e
	}
	// A server that says nothing, not even a comment, is gone.
	silent := time.AfterFunc(eventSilence, cancel)
	defer silent.Stop()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, readLimit)
	var name wire.Event
	for lines.Scan() {
		silent.Reset(eventSilence)
		line := lines.Bytes()
		switch {
		case bytes.HasPrefix(line, []byte("event: ")):
			name = wire.Event(line[len("event: "):])
		case bytes.HasPrefix(line, []byte("data: ")):
			h, err := wire.DecodeHappening(name, line[len("data: "):])
			switch {
			case err != nil:
				return cutOff(fmt.Errorf("read events: %w", err)) // the reset of the next stream mends it
			case h == nil:
			case h.Bye != nil:
				return judgeBye(h.Bye)
			default:
				if err := fn(h); err != nil {
					return stopped(err)
				}
			}
		}
	}
	return cutOff(fmt.Errorf("read events: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF)))
}

// eventSilence is how long a stream of events may say nothing: some beats of the
// slowest server that there should be.
const eventSilence = time.Minute
