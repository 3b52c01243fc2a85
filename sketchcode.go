package rollcall

import (
	"errors"
	"slices"
)

// The written form of a sketch, of which moments are ages in seconds before the
// newest:
//
//	byte     layout, 1
//	byte     0: small, 1: large
//	4 bytes  the newest moment, big-endian as all numbers
//	small: for each visitor, by rising hash: 8 bytes hash, 2 bytes age
//	large: for each register that has marks, by number: 2 bytes register, 1 byte
//	       number of marks, and for each, by rising rank: 1 byte rank, 2 bytes age
const sketchLayout = 1

// maxAge is the highest age that is written: who is older is left out.
const maxAge = 1<<16 - 1

var (
	errSketchLayout = errors.New("sketch: a layout that this release does not know")
	errSketch       = errors.New("sketch: not one of ours, or broken")
)

// Append appends the written form: the same bytes for the same visitors.
func (s *Sketch) Append(b []byte) []byte {
	newest := seconds(s.Newest())
	kind := byte(0)
	if s.marks != nil {
		kind = 1
	}
	b = append(b, sketchLayout, kind, byte(newest>>24), byte(newest>>16), byte(newest>>8), byte(newest))
	for _, v := range s.visits {
		if age := newest - v.at; age <= maxAge {
			for shift := 56; shift >= 0; shift -= 8 {
				b = append(b, byte(v.hash>>shift))
			}
			b = append(b, byte(age>>8), byte(age))
		}
	}
	count, of := 0, -1 // where the number of marks of a register stands
	for _, m := range s.marks {
		age := newest - m.at()
		if age > maxAge {
			continue
		}
		if m.register() != of {
			b = append(b, byte(m.register()>>8), byte(m.register()), 0)
			count, of = len(b)-1, m.register()
		}
		b[count]++
		b = append(b, byte(m.rank()), byte(age>>8), byte(age))
	}
	return b
}

// DecodeSketch reads what [Sketch.Append] has written. Anything else is an error.
func DecodeSketch(b []byte) (*Sketch, error) {
	switch {
	case len(b) < 6:
		return nil, errSketch
	case b[0] != sketchLayout:
		return nil, errSketchLayout
	case b[1] > 1:
		return nil, errSketch
	}
	newest := uint32(b[2])<<24 | uint32(b[3])<<16 | uint32(b[4])<<8 | uint32(b[5])
	s, ok := &Sketch{}, false
	if b[1] == 0 {
		s.visits, ok = decodeVisits(b[6:], newest)
	} else {
		s.marks, ok = decodeMarks(b[6:], newest)
	}
	if !ok || s.Newest() != int64(newest) {
		return nil, errSketch
	}
	return s, nil
}

func age(b []byte, newest uint32) (at uint32, ok bool) {
	n := uint32(b[0])<<8 | uint32(b[1])
	return newest - n, n <= newest
}

func decodeVisits(b []byte, newest uint32) ([]visit, bool) {
	const size = 10
	if len(b)%size != 0 || len(b)/size > SketchExact {
		return nil, false
	}
	visits := make([]visit, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		var v visit
		for _, c := range b[:8] {
			v.hash = v.hash<<8 | uint64(c)
		}
		var ok bool
		v.at, ok = age(b[8:], newest)
		if n := len(visits); !ok || n > 0 && visits[n-1].hash >= v.hash {
			return nil, false
		}
		visits = append(visits, v)
	}
	return visits, true
}

func decodeMarks(b []byte, newest uint32) ([]mark, bool) {
	marks := make([]mark, 0, len(b)/4)
	last := -1
	for len(b) >= 3 {
		register, n := int(b[0])<<8|int(b[1]), int(b[2])
		b = b[3:]
		if register <= last || register >= sketchRegisters || n == 0 || len(b) < 3*n {
			return nil, false
		}
		last = register
		for i := range n {
			at, ok := age(b[1:], newest)
			rank := int(b[0])
			b = b[3:]
			if !ok || rank < 1 || rank > sketchRanks {
				return nil, false
			}
			m := makeMark(register, rank, at)
			if i > 0 {
				if before := marks[len(marks)-1]; before.rank() >= rank || before.at() <= at {
					return nil, false
				}
			}
			marks = append(marks, m)
		}
	}
	return slices.Clip(marks), len(b) == 0 && len(marks) > 0
}
