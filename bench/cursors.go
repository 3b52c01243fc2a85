package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/bench/load"
)

// movers are clients of one room who all move their cursors. A delivery is one
// position of somebody else that a client reads.
type movers struct {
	rate    int // moves of each, a second
	clients []*load.WS
	began   time.Time
	inside  atomic.Int64
	deliver atomic.Int64
	frames  atomic.Int64
	bytes   atomic.Int64 // of the frames
	closing atomic.Bool
	lost    atomic.Int64

	mu   sync.Mutex
	ages []time.Duration // Guarded by mu. From the sending to the reading, of one frame in eight.
	wg   sync.WaitGroup
}

func (m *movers) open(addr string, n int) error {
	m.began = time.Now()
	for i := range n {
		c, err := load.DialWS(addr, load.Login{User: fmt.Sprint("u", i)}, load.BufferWhole)
		if err != nil {
			return err
		}
		m.clients = append(m.clients, c)
		own := fmt.Appendf(nil, `"user":"u%d"`, i)
		seen := false
		frames := rand.IntN(8)
		m.wg.Go(func() {
			c.Read(func(kind, body []byte) {
				switch string(kind) {
				case "snapshot":
					if !seen {
						seen = true
						m.inside.Add(1)
					}
				case "signals":
					m.deliver.Add(int64(bytes.Count(body, []byte(`"user":`)) - bytes.Count(body, own)))
					m.frames.Add(1)
					m.bytes.Add(int64(len(body)))
					if frames++; frames%8 == 0 {
						m.age(body)
					}
				}
			})
			if !m.closing.Load() {
				m.lost.Add(1)
			}
		})
		if err := c.Join("cursors", "", 0); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(10 * time.Second); m.inside.Load() < int64(n); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d clients were shown the room", m.inside.Load(), n)
		}
	}
	return nil
}

// age notes how old the positions of a frame are.
func (m *movers) age(body []byte) {
	now := time.Since(m.began)
	var ages []time.Duration
	for {
		_, rest, ok := bytes.Cut(body, []byte(`"t":`))
		if !ok {
			break
		}
		end := bytes.IndexByte(rest, '}')
		if end < 0 {
			break
		}
		if t, err := strconv.ParseInt(string(rest[:end]), 10, 64); err == nil {
			ages = append(ages, now-time.Duration(t)*time.Microsecond)
		}
		body = rest[end:]
	}
	m.mu.Lock()
	m.ages = append(m.ages, ages...)
	m.mu.Unlock()
}

// move moves all cursors for a while, each in its own phase. It returns how many
// moves it made.
func (m *movers) move(span time.Duration) int {
	n := len(m.clients)
	gap := time.Second / time.Duration(m.rate*n)
	start := time.Now()
	moves := 0
	for time.Since(start) < span {
		// Behind by any time, it catches up: the rate is what was asked for.
		for due := int(time.Since(start) / gap); moves < due; moves++ {
			c := m.clients[moves%n]
			c.Send(1, fmt.Appendf(nil, `{"type":"signal","room":"cursors","kind":"cursor","data":{"x":%d,"y":%d,"t":%d}}`,
				rand.IntN(1920), rand.IntN(1080), time.Since(m.began).Microseconds()))
		}
		time.Sleep(time.Millisecond)
	}
	return moves
}

func (m *movers) stop() {
	if m.closing.Swap(true) {
		return
	}
	for _, c := range m.clients {
		c.Close()
	}
	m.wg.Wait()
}

// forget begins to count anew.
func (m *movers) forget() {
	m.deliver.Store(0)
	m.frames.Store(0)
	m.bytes.Store(0)
	m.mu.Lock()
	m.ages = nil
	m.mu.Unlock()
}

// cursors is rooms in which everybody moves, one after the other, and again.
func cursors(s *Settings) (*Result, error) {
	r := &Result{title: fmt.Sprintf("Cursors: everybody moves %d times a second, WebSocket", s.Rate)}
	runs := make([][][]number, len(s.Rooms))
	for range s.Runs {
		for i, size := range s.Rooms {
			numbers, err := cursorsOf(s, size)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], numbers)
		}
	}
	for i, size := range s.Rooms {
		r.addMedians(fmt.Sprintf("room of %d: ", size), runs[i])
	}
	r.note("A delivery is one position of somebody else; the age is that at the viewer, in a process that shares the machine. "+
		"A write that does nothing else is of as many bytes, to as many sockets, in a process of its own. Medians of %d runs.", s.Runs)
	return r, nil
}

// cursorsOf is one run of a room.
func cursorsOf(s *Settings, size int) ([]number, error) {
	server, err := startChild()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	m := &movers{rate: s.Rate}
	defer m.stop()
	if err := m.open(server.addr, size); err != nil {
		return nil, err
	}
	m.move(500 * time.Millisecond)
	began, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	if s.Profiles != "" {
		server.tell("cpu " + filepath.Join(s.Profiles, fmt.Sprintf("cursors-%d.cpu.prof", size)))
	}
	m.forget()
	start := time.Now()
	moves := m.move(s.Span)
	deliveries, events, span := float64(m.deliver.Load()), float64(m.frames.Load()), time.Since(start).Seconds()
	ended, err := server.ask("stats")
	if err != nil {
		return nil, err
	}
	if s.Profiles != "" {
		server.tell("cpu")
	}
	if m.lost.Load() > 0 {
		return nil, fmt.Errorf("%d clients were disconnected", m.lost.Load())
	}
	if deliveries == 0 {
		return nil, fmt.Errorf("nothing was delivered")
	}
	bytes := float64(m.bytes.Load()) / events
	m.stop()
	floor, err := writeCost(size, int(bytes))
	if err != nil {
		return nil, err
	}
	ages := slices.Sorted(slices.Values(m.ages))
	goalCPU, goalAge := "", ""
	if size == 100 && s.Rate == 10 {
		goalCPU, goalAge = "<= 0.8 us", "<= 65 ms"
	}
	delta := func(name string) float64 { return ended.Counters[name] - began.Counters[name] }
	cpu := ended.CPU - began.CPU
	return []number{
		{"moves a second", "", "%.0f", float64(moves) / span},
		{"deliveries a second", "", "%.0f", deliveries / span},
		{"events a second to each", "<= 20", "%.1f", events / span / float64(size)},
		{"bytes of an event", "", "%.0f", bytes},
		{"events encoded a second", "<= 20", "%.1f", delta("rollcall_signal_frames_total") / span},
		{"CPU a second", "", "%.0f ms", millis(cpu) / span},
		{"CPU of a delivery", goalCPU, "%.2f us", micros(cpu) / deliveries},
		{"of that, writes that do nothing else", "", "%.2f us", micros(floor) * delta("rollcall_writes_total") / deliveries},
		{"age at the viewer, median", "", "%.1f ms", millis(ages[len(ages)/2])},
		{"age at the viewer, p99", goalAge, "%.1f ms", millis(ages[len(ages)*99/100])},
	}, nil
}
