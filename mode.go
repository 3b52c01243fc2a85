package rollcall

import "time"

// Mode is how a room is shown to its viewers.
type Mode uint8

// The modes.
const (
	// ModeFull names every member.
	ModeFull Mode = iota
	// ModeCounts tells a number at a fixed pace, and names members on demand.
	ModeCounts
)

// String is the word on the wire.
func (m Mode) String() string {
	if m == ModeCounts {
		return "counts"
	}
	return "full"
}

// Modes are the thresholds between the modes and the pace of counts. A room keeps
// those that it was created with, so two configurations during a deploy cannot
// make it flip.
type Modes struct {
	Above int           // a full room with more members turns to counts (200)
	Below int           // a counts room with fewer turns back (150); at most Above
	Every time.Duration // least time between two counts of a room to a viewer (1 s)
}

// DefaultModes is the design's table.
func DefaultModes() Modes { return Modes{Above: 200, Below: 150, Every: time.Second} }

// SampleSize is the most members of the sample of a room in counts mode: those
// that have been present longest, so that it does not reshuffle.
const SampleSize = 12

// emit publishes one change of a room, with what it did to the mode.
func (p *Partition) emit(r *room, c Change) {
	c.Room, c.Prev, c.Count = r.id, r.version, len(r.users)
	switch {
	case r.mode == ModeFull && c.Count > r.modes.Above:
		r.mode, c.Switched = ModeCounts, true
	case r.mode == ModeCounts && c.Count < r.modes.Below:
		r.mode, c.Switched = ModeFull, true
	}
	c.Mode = r.mode
	r.version = c.Version
	p.changes = append(p.changes, c)
}

// sample is the members that have been present longest, the longest first.
func (r *room) sample() []*Member {
	sample := make([]*Member, 0, SampleSize)
	for _, place := range r.order.places {
		if place.value != nil {
			if sample = append(sample, place.value.member); len(sample) == SampleSize {
				break
			}
		}
	}
	return sample
}
