package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"rollcall"
	"rollcall/wire"
)

// RoomInfo is what a read of a room answers.
type RoomInfo = wire.RoomInfo

// MembersPage is one page of the members of a room.
type MembersPage = wire.MembersPage

// Room reads how many are in a room. A room nobody is in has a count of 0.
func (c *Client) Room(ctx context.Context, room rollcall.RoomID) (RoomInfo, error) {
	return read(c, ctx, "read room", room, nil, nil, wire.DecodeRoomInfo)
}

// Members reads a page of limit members (1 to 200; 0: as many as the server
// likes), newest join first. cursor is "" for the first page, and then the
// NextCursor of the page before; "" there tells that it was the last. A member
// that stays is seen exactly once over the pages.
func (c *Client) Members(ctx context.Context, room rollcall.RoomID, cursor string, limit int) (MembersPage, error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return read(c, ctx, "read members of room", room, query, nil, wire.DecodeMembersPage, "members")
}

// Member reads the member of one user. Who is not there is an error with
// [rollcall.CodeNotFound].
func (c *Client) Member(ctx context.Context, room rollcall.RoomID, user rollcall.UserID) (*rollcall.Member, error) {
	if err := checkUser(user); err != nil {
		return nil, err
	}
	return read(c, ctx, "read member of room", room, nil, nil, wire.DecodeMember, "members", string(user))
}

// Lookup reads which of some users (at most 1000) are in a room.
func (c *Client) Lookup(ctx context.Context, room rollcall.RoomID, users ...rollcall.UserID) ([]*rollcall.Member, error) {
	return read(c, ctx, "look up in room", room, nil, wire.AppendUsers(nil, users), wire.DecodePresent, "members", "lookup")
}

// Counts reads the number of members of some rooms (at most 500). Every room
// that was asked for is in the answer.
func (c *Client) Counts(ctx context.Context, rooms ...rollcall.RoomID) (map[rollcall.RoomID]int, error) {
	for _, room := range rooms {
		if err := checkRoom(room); err != nil {
			return nil, err
		}
	}
	raw, err := c.call(ctx, c.endpoint.at(nil, "counts"), wire.AppendRooms(nil, rooms))
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	list, err := wire.DecodeRoomCounts(raw)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	counts := make(map[rollcall.RoomID]int, len(list))
	for _, n := range list {
		counts[n.Room] = n.Count
	}
	return counts, nil
}

// read makes one call about a room.
func read[T any](c *Client, ctx context.Context, what string, room rollcall.RoomID, query url.Values, body []byte, decode func([]byte) (T, error), path ...string) (answer T, err error) {
	if err := checkRoom(room); err != nil {
		return answer, err
	}
	raw, err := c.call(ctx, c.endpoint.at(query, append([]string{"rooms", string(room)}, path...)...), body)
	if err == nil {
		answer, err = decode(raw)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s %q: %w", what, room, err)
	}
	return answer, nil
}

// call makes one HTTP call: a POST if there is a body, else a GET.
func (c *Client) call(ctx context.Context, address string, body []byte) ([]byte, error) {
	method := http.MethodGet
	var content io.Reader
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, withoutQuery(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a token: %w", err)
	}
	c.endpoint.authorize(request.Header, token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, withoutQuery(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, readLimit))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return nil, problem(response, raw)
	}
	return raw, nil
}

// problem is the error of an answer that is not a good one: what the server says
// if it says it in our words.
func problem(response *http.Response, body []byte) error {
	if e, _, err := wire.DecodeProblem(body); err == nil {
		return e
	}
	return fmt.Errorf("the server answered %s, and not as a Rollcall server does", response.Status)
}

// release leaves every room by HTTP, when a client is closed that has no stream
// to say so. Best effort: what is not heard runs out.
func (c *Client) release() {
	c.mu.Lock()
	body := (&wire.Release{Resume: c.resume}).Append(nil)
	address := c.endpoint.at(nil, "connections", string(c.connection), "release")
	needed := len(c.leaving) > 0 && c.resume != ""
	c.mu.Unlock()
	if !needed {
		return
	}
	if _, err := c.call(c.ctx, address, body); err != nil {
		c.log.Debug("release failed", "err", err)
	}
}
