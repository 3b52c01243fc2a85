// Package client is the Go client of Rollcall, for bots, back ends and tools.
//
// A [Client] has one connection to a server, over WebSocket, and is present in
// (or watches) any number of rooms over it:
//
//	c, err := client.New(client.Options{URL: "https://presence.example.com", Token: token})
//	defer c.Close()
//	room, err := c.Enter(ctx, "doc:42", client.EnterOptions{Status: rollcall.StatusActive})
//	for change := range room.Changes() {
//		fmt.Println(change.Kind, change.Member)
//	}
//
// The client reconnects by itself, keeps its lease where it can, and says again
// what it wants to be in each room; the application notices a [StateReconnecting]
// and nothing else. A roster that may be old is kept and marked stale, never
// emptied.
//
// Reading needs no connection: [Client.Room], [Client.Members],
// [Client.Member], [Client.Lookup] and [Client.Counts] are plain HTTP calls.
//
// What a server refuses is a [*rollcall.Error] with its stable code; errors.As
// finds it.
package client
