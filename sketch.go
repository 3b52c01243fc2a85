package rollcall

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// Sketch tells how many distinct visitors there were since any moment, without
// knowing them: of few it keeps a number each and is exact; of more it keeps what
// is needed to estimate them. It is a set of (visitor, last moment), so merging is
// idempotent, commutative and associative. The zero value is empty. Not safe for
// concurrent use.
//
// A large sketch is a sliding HyperLogLog: of each of its registers it keeps the
// ranks that are the highest since some moment, with their last moments
// (Y. Chabchoub, G. Hebrail: Sliding HyperLogLog, 2010, after P. Flajolet et al.:
// HyperLogLog, 2007).
type Sketch struct {
	// visits are the visitors, by their hashes, at most SketchExact. nil once
	// there were more.
	visits []visit
	// marks, once there were more visitors: by register, then by rising rank, with
	// falling moments.
	marks []mark
}

const (
	// SketchExact is how many visitors a sketch tells exactly.
	SketchExact = 256
	// SketchError is the standard error of what is not exact, as a part of it:
	// 1.04 over the root of the number of registers (Flajolet et al. 2007).
	SketchError = 1.04 / 64

	sketchBits      = 12 // of a hash, that choose the register
	sketchRegisters = 1 << sketchBits
	sketchRanks     = 64 - sketchBits + 1 // the highest rank
)

// visit is a visitor and the last moment of a visit, in seconds.
type visit struct {
	hash uint64
	at   uint32
}

// mark is a register, a rank, and the last moment that the rank was seen, packed
// so that they compare in this order.
type mark uint64

func makeMark(register, rank int, at uint32) mark {
	return mark(register)<<40 | mark(rank)<<32 | mark(at)
}

func (m mark) register() int { return int(m >> 40) }
func (m mark) rank() int     { return int(m >> 32 & 0xff) }
func (m mark) at() uint32    { return uint32(m) }

// markOf is what a visitor leaves.
func markOf(v visit) mark {
	register := int(v.hash >> (64 - sketchBits))
	rank := min(bits.LeadingZeros64(v.hash<<sketchBits)+1, sketchRanks)
	return makeMark(register, rank, v.at)
}

// Empty reports whether nobody was ever added.
func (s *Sketch) Empty() bool { return len(s.visits)+len(s.marks) == 0 }

// Add notes that a visitor was here at a moment, in seconds of a clock that is the
// caller's. hash has to be a good one, of 64 bits.
func (s *Sketch) Add(hash uint64, at int64) {
	v := visit{hash, seconds(at)}
	if s.marks != nil {
		s.mark(markOf(v))
		return
	}
	i := sort.Search(len(s.visits), func(i int) bool { return s.visits[i].hash >= hash })
	if i < len(s.visits) && s.visits[i].hash == hash {
		s.visits[i].at = max(s.visits[i].at, v.at)
		return
	}
	s.visits = slices.Insert(s.visits, i, v)
	if len(s.visits) > SketchExact {
		s.condense()
	}
}

func seconds(at int64) uint32 { return uint32(min(max(at, 0), math.MaxUint32)) }

// mark adds one mark to a large sketch.
func (s *Sketch) mark(m mark) {
	from := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].register() >= m.register() })
	i := from
	for ; i < len(s.marks) && s.marks[i].register() == m.register(); i++ {
		if old := s.marks[i]; old.rank() >= m.rank() {
			if old.at() >= m.at() {
				return // a later visit of at least that rank
			}
			break
		}
	}
	// Those of lower or the same rank that are not later say nothing any more.
	to := i
	if to < len(s.marks) && s.marks[to].register() == m.register() && s.marks[to].rank() == m.rank() {
		to++
	}
	for i > from && s.marks[i-1].at() <= m.at() {
		i--
	}
	s.marks = slices.Replace(s.marks, i, to, m)
}

// condense makes a small sketch a large one.
func (s *Sketch) condense() { s.marks, s.visits = s.asMarks(), nil }

// asMarks are the marks of a sketch, whatever its size.
func (s *Sketch) asMarks() []mark {
	if s.marks != nil {
		return s.marks
	}
	all := make([]mark, len(s.visits))
	for i, v := range s.visits {
		all[i] = markOf(v)
	}
	slices.Sort(all)
	return prune(all)
}

// prune removes from sorted marks those that say nothing: of each register, those
// of which another has at least the rank and the moment. It reuses the slice.
func prune(all []mark) []mark {
	kept := len(all) // from here on to the end
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		if kept < len(all) && all[kept].register() == m.register() && all[kept].at() >= m.at() {
			continue
		}
		kept--
		all[kept] = m
	}
	return slices.Delete(all, 0, kept)
}

// Merge adds everybody of another sketch, whose moments are of the same clock.
func (s *Sketch) Merge(o *Sketch) {
	if s.marks == nil && o.marks == nil {
		s.visits = mergeVisits(s.visits, o.visits)
		if len(s.visits) > SketchExact {
			s.condense()
		}
		return
	}
	a, b := s.asMarks(), o.asMarks()
	all := make([]mark, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	s.marks, s.visits = prune(append(append(all, a...), b...)), nil
}

func mergeVisits(a, b []visit) []visit {
	all := make([]visit, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].hash < b[0].hash:
			all, a = append(all, a[0]), a[1:]
		case a[0].hash > b[0].hash:
			all, b = append(all, b[0]), b[1:]
		default:
			all = append(all, visit{a[0].hash, max(a[0].at, b[0].at)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// Forget lets go of everybody who was last here before a moment. A large sketch
// that nobody is left of is a small one again.
func (s *Sketch) Forget(before int64) {
	least := seconds(before)
	s.visits = slices.DeleteFunc(s.visits, func(v visit) bool { return v.at < least })
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return m.at() < least })
	if len(s.marks) == 0 {
		s.marks = nil
	}
}

// Shift moves all moments by a number of seconds: to those of another clock.
func (s *Sketch) Shift(by int64) {
	for i := range s.visits {
		s.visits[i].at = seconds(int64(s.visits[i].at) + by)
	}
	for i, m := range s.marks {
		s.marks[i] = makeMark(m.register(), m.rank(), seconds(int64(m.at())+by))
	}
}

// Newest is the last moment of anybody; 0 if there is none.
func (s *Sketch) Newest() int64 {
	var newest uint32
	for _, v := range s.visits {
		newest = max(newest, v.at)
	}
	for _, m := range s.marks {
		newest = max(newest, m.at())
	}
	return int64(newest)
}

// Since is how many distinct visitors there were at or after a moment, and the
// standard error of that number as a part of it: 0 if it is exact.
func (s *Sketch) Since(moment int64) (n int, standardError float64) {
	least := seconds(moment)
	if s.marks == nil {
		for _, v := range s.visits {
			if v.at >= least {
				n++
			}
		}
		return n, 0
	}
	var ranks [sketchRanks + 1]int // how many registers have each rank
	ranks[0] = sketchRegisters
	highest, of := 0, -1
	for _, m := range s.marks {
		if m.register() != of {
			highest, of = 0, m.register()
		}
		if m.at() >= least {
			ranks[highest]--
			highest = m.rank()
			ranks[highest]++
		}
	}
	return int(math.Round(estimate(&ranks))), SketchError
}

// estimate is the improved raw estimator of O. Ertl: New cardinality estimation
// algorithms for HyperLogLog sketches, 2017 (arXiv 1702.01284), section 4. It needs
// no correction at either end.
func estimate(ranks *[sketchRanks + 1]int) float64 {
	const m = float64(sketchRegisters)
	if ranks[0] == sketchRegisters {
		return 0
	}
	z := m * tau(1-float64(ranks[sketchRanks])/m)
	for k := sketchRanks - 1; k >= 1; k-- {
		z = (z + float64(ranks[k])) / 2
	}
	z += m * sigma(float64(ranks[0])/m)
	return m * m / (2 * math.Ln2 * z)
}

// sigma is x + the sum over k >= 1 of x^(2^k) 2^(k-1).
func sigma(x float64) float64 {
	sum, weight := x, 1.0
	for last := -1.0; sum != last; weight *= 2 {
		x *= x
		last = sum
		sum += x * weight
	}
	return sum
}

// tau is a third of 1 - x - the sum over k >= 1 of (1 - x^(2^-k))^2 2^-k.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	sum, weight := 1-x, 1.0
	for last := -1.0; sum != last; {
		x = math.Sqrt(x)
		last = sum
		weight /= 2
		sum -= (1 - x) * (1 - x) * weight
	}
	return sum / 3
}
