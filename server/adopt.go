package server

import (
	"rollcall"
	"rollcall/server/auth"
)

// restorer is a store that began with leases of connections that no hub has met.
type restorer interface{ Restored() []rollcall.Held }

// adopt takes over the connections of restored leases, so that their clients
// come back to them.
func (h *hub) adopt(held []rollcall.Held) {
	for i := range held {
		l := &held[i]
		identity := &auth.Identity{User: l.Lease.User, Info: l.Info}
		c := h.connections.add(h.newConnection(l.Lease.Connection, identity))
		c.mu.Lock()
		c.subs = append(c.subs, &sub{
			c: c, id: l.Lease.Room, partition: uint8(rollcall.PartitionOf(l.Lease.Room)), lease: l.Lease, status: l.Status, data: l.Data, ttl: l.TTL != h.timing.Lease,
		})
		c.mu.Unlock()
	}
}
