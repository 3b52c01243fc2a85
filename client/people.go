package client

import (
	"context"
	"fmt"
	"time"

	"rollcall"
	"rollcall/wire"
)

// User is where a user is, over all rooms, as far as the reader may know.
type User = wire.User

// UserStatus is the status of a user over all rooms.
type UserStatus = wire.UserStatus

// Kick ends every lease of a user in a room, and keeps the user out for ban
// (0: not at all; the server has a most). It takes a server key or the capability
// admin. Who is not there is an error with [rollcall.CodeNotFound].
func (c *Client) Kick(ctx context.Context, room rollcall.RoomID, user rollcall.UserID, ban time.Duration) error {
	if err := checkUser(user); err != nil {
		return err
	}
	nothing := func([]byte) (struct{}, error) { return struct{}{}, nil }
	_, err := read(c, ctx, "kick from room", room, nil, wire.AppendKick(nil, max(ban, 0)), nothing, "members", string(user), "kick")
	return err
}

// Disconnect ends all that a user has open, on every node, and has the tokens of
// the user refused that were issued until now; if session is not "", only those of
// that session of the application. It takes a server key.
func (c *Client) Disconnect(ctx context.Context, user rollcall.UserID, session string) error {
	if err := checkUser(user); err != nil {
		return err
	}
	_, err := c.call(ctx, c.endpoint.at(nil, "users", string(user), "disconnect"), wire.AppendDisconnect(nil, session))
	if err != nil {
		return fmt.Errorf("disconnect user %q: %w", user, err)
	}
	return nil
}

// LookupUser reads where a user is, over all rooms. One who is nowhere, or was never seen, is no error.
func (c *Client) LookupUser(ctx context.Context, user rollcall.UserID) (User, error) {
	if err := checkUser(user); err != nil {
		return User{}, err
	}
	raw, err := c.call(ctx, c.endpoint.at(nil, "users", string(user)), nil)
	if err != nil {
		return User{}, fmt.Errorf("read user %q: %w", user, err)
	}
	u, err := wire.DecodeUser(raw)
	if err != nil {
		return User{}, fmt.Errorf("read user %q: %w", user, err)
	}
	return u, nil
}

// LookupUsers reads the status of some users (at most 1000) over all rooms, in
// their order, each once.
func (c *Client) LookupUsers(ctx context.Context, users ...rollcall.UserID) ([]UserStatus, error) {
	raw, err := c.call(ctx, c.endpoint.at(nil, "users", "lookup"), wire.AppendUsers(nil, users))
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	statuses, err := wire.DecodeUserStatuses(raw)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	return statuses, nil
}

func checkUser(user rollcall.UserID) error {
	if !rollcall.ValidID(string(user)) {
		return rollcall.Errorf(rollcall.CodeBadRequest, "a user id is 1 to %d bytes of UTF-8, neither . nor ..", rollcall.MaxID)
	}
	return nil
}
