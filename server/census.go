package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"rollcall"
)

// census counts who is present by the leases that this node holds, whenever the
// metrics are asked for. With many nodes a user with tabs on two of them is counted
// by both.
type census struct{ h *hub }

var (
	censusMembers = prometheus.NewDesc("rollcall_members",
		"Users in rooms by the leases of this node's connections: each once a room.", nil, nil)
	censusRooms = prometheus.NewDesc("rollcall_rooms",
		"Rooms in which connections of this node hold leases; in counts mode as far as the node watches them.",
		[]string{"mode"}, nil)
)

// Describe implements prometheus.Collector.
func (c census) Describe(ch chan<- *prometheus.Desc) {
	ch <- censusMembers
	ch <- censusRooms
}

// Collect implements prometheus.Collector.
func (c census) Collect(ch chan<- prometheus.Metric) {
	members, rooms := c.h.count()
	ch <- prometheus.MustNewConstMetric(censusMembers, prometheus.GaugeValue, float64(members))
	for _, mode := range []rollcall.Mode{rollcall.ModeFull, rollcall.ModeCounts} {
		ch <- prometheus.MustNewConstMetric(censusRooms, prometheus.GaugeValue, float64(rooms[mode]), mode.String())
	}
}

// count counts the members of rooms that this node knows to be present, and the
// rooms by their mode.
func (h *hub) count() (members int, rooms map[rollcall.Mode]int) {
	type seat struct {
		room rollcall.RoomID
		user rollcall.UserID
	}
	seats := make(map[seat]bool)
	taken := make(map[rollcall.RoomID]bool)
	h.connections.each(func(c *connection) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.subs {
			if s.leased() {
				seats[seat{s.id, c.user}] = true
				taken[s.id] = true
			}
		}
	})
	rooms = make(map[rollcall.Mode]int)
	for id := range taken {
		rooms[h.modeOf(id)]++
	}
	return len(seats), rooms
}

// modeOf is the mode of a room, as far as this node watches it.
func (h *hub) modeOf(id rollcall.RoomID) rollcall.Mode {
	shard := &h.rooms[rollcall.PartitionOf(id)]
	shard.mu.RLock()
	r := shard.rooms[id]
	shard.mu.RUnlock()
	if r == nil {
		return rollcall.ModeFull
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.modeLocked()
}
