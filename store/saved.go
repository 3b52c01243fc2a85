package store

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"rollcall"
)

// savedLayout is the layout of a saved memory.
const savedLayout = 1

type savedMemory struct {
	Layout     int                       `json:"layout"`
	Epoch      rollcall.Epoch            `json:"epoch"`
	Partitions []rollcall.SavedPartition `json:"partitions"`
	Seen       []savedSeen               `json:"seen,omitempty"`
}

// Save writes the whole memory to w, for [RestoreMemory]. To be called when no
// call is under way any more, before or after Close.
func (m *Memory) Save(w io.Writer) error {
	s := savedMemory{Layout: savedLayout, Epoch: m.epoch, Partitions: make([]rollcall.SavedPartition, len(m.partitions))}
	for i := range m.partitions {
		p := &m.partitions[i]
		p.mu.Lock()
		s.Partitions[i] = p.state.Save()
		p.mu.Unlock()
	}
	s.Seen = m.index.save()
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // info and data are kept to the byte
	if err := e.Encode(&s); err != nil {
		return fmt.Errorf("save memory: %w", err)
	}
	return nil
}

// RestoreMemory makes a store that goes on from what [Memory.Save] wrote: the
// same epoch, versions and members, and every lease in full. So nobody who comes
// back within a lease was ever away.
func RestoreMemory(o MemoryOptions, r io.Reader) (*Memory, error) {
	var s savedMemory
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, fmt.Errorf("restore memory: %w", err)
	}
	if s.Layout != savedLayout || len(s.Partitions) != rollcall.Partitions || s.Epoch == "" {
		return nil, fmt.Errorf("restore memory: the state is of another layout (%d, not %d)", s.Layout, savedLayout)
	}
	o.Settled = true
	m := NewMemory(o)
	m.epoch = s.Epoch
	m.index.restore(s.Seen)
	for i := range m.partitions {
		now := time.Now()
		p := rollcall.NewPartition(rollcall.PartitionOptions{
			Index: i, Epoch: m.epoch, Timing: o.Timing, Limits: o.Limits, Modes: o.Modes, Rules: o.Rules,
		}, now)
		p.Restore(now, &s.Partitions[i], func(h rollcall.Held) { m.restored = append(m.restored, h) })
		m.index.enterAll(&s.Partitions[i])
		m.partitions[i].state = p
	}
	return m, nil
}

// Restored is the leases that were restored, for whoever serves their
// connections.
func (m *Memory) Restored() []rollcall.Held { return m.restored }
