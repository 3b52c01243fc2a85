package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

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
