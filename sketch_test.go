package rollcall

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// crowdOf is n visitors by their hashes, others for each seed.
func crowdOf(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 99))
	all := make([]uint64, n)
	for i := range all {
		all[i] = r.Uint64()
	}
	return all
}

func sketchOf(at int64, hashes ...uint64) *Sketch {
	s := &Sketch{}
	for _, h := range hashes {
		s.Add(h, at)
	}
	return s
}

func (s *Sketch) copy() *Sketch {
	c := &Sketch{}
	c.Merge(s)
	return c
}

// A45: the same sketch again changes nothing, and the order does not matter.
func TestMergesAreThoseOfSets(t *testing.T) {
	a, b := sketchOf(7, 1, 2, 3), sketchOf(9, 4, 5)
	d := &Sketch{}
	for range 3 {
		d.Merge(a)
		d.Merge(b)
		if n, e := d.Since(0); n != 5 || e != 0 {
			t.Fatalf("%d with error %g, want 5 exactly", n, e)
		}
	}
	d.Merge(&Sketch{})
	if n, _ := d.Since(0); n != 5 {
		t.Errorf("merged with nobody: %d, want 5", n)
	}
	if n, _ := d.Since(8); n != 2 {
		t.Errorf("since b: %d, want 2", n)
	}

	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		var three [3]*Sketch
		pool := crowdOf(seed, 3000)
		for i := range three {
			three[i] = &Sketch{}
			for range r.IntN(1 << (4 + r.IntN(9))) { // small and large ones
				three[i].Add(pool[r.IntN(len(pool))], int64(r.IntN(100)))
			}
		}
		x, y, z := three[0], three[1], three[2]
		merged := func(parts ...*Sketch) []byte {
			s := &Sketch{}
			for _, p := range parts {
				s.Merge(p)
			}
			return s.Append(nil)
		}
		want := merged(x, y, z)
		yz := y.copy()
		yz.Merge(z)
		for what, got := range map[string][]byte{
			"commutative": merged(z, y, x), "associative": merged(x, yz), "idempotent": merged(x, y, x, z, yz, y, z),
		} {
			if !bytes.Equal(got, want) {
				t.Fatalf("seed %d: merging is not %s", seed, what)
			}
		}
	}
}

// A45: the error is within its bound.
func TestEstimatesAreWithinTheirError(t *testing.T) {
	sizes := []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}
	const seeds = 20
	within := make(map[int]int)
	for seed := range uint64(seeds) {
		s := &Sketch{}
		added := 0
		hashes := rand.New(rand.NewPCG(seed, 17))
		for _, n := range sizes {
			for ; added < n; added++ {
				s.Add(hashes.Uint64(), 1)
			}
			got, e := s.Since(0)
			if n <= SketchExact && (got != n || e != 0) {
				t.Errorf("seed %d: %d visitors are told as %d with error %g", seed, n, got, e)
			}
			relative := math.Abs(float64(got-n)) / float64(n)
			if relative > 3*SketchError {
				t.Errorf("seed %d: %d visitors are told as %d: off by %.2f%%", seed, n, got, 100*relative)
			}
			if relative <= SketchError {
				within[n]++
			}
		}
	}
	for _, n := range sizes {
		if within[n] < seeds/2 {
			t.Errorf("%d visitors: %d of %d seeds are within one standard error, want half of them at least", n, within[n], seeds)
		}
	}
}

// TestWindowsAreThoseOfSets compares windows of every length with a set, in time
// that passes.
func TestWindowsAreThoseOfSets(t *testing.T) {
	for _, crowd := range []int{40, 250, 2000, 20000} {
		r := rand.New(rand.NewPCG(uint64(crowd), 3))
		pool := crowdOf(uint64(crowd), crowd)
		last := make(map[uint64]int64)
		s := &Sketch{}
		for at := int64(1000); at < 2000; at += 10 {
			for range crowd / 20 {
				h := pool[r.IntN(len(pool))]
				s.Add(h, at)
				last[h] = at
			}
			if at%100 == 0 {
				other := s.copy()
				if s.Merge(other); at%200 == 0 {
					decoded, err := DecodeSketch(s.Append(nil))
					if err != nil {
						t.Fatal(err)
					}
					s = decoded
				}
			}
		}
		s.Forget(1100)
		for since := int64(1100); since <= 2000; since += 50 {
			want := 0
			for _, at := range last {
				if at >= since {
					want++
				}
			}
			got, e := s.Since(since)
			if off := math.Abs(float64(got - want)); off > 3*e*float64(want)+2 || e == 0 && off > 0 {
				t.Errorf("of %d, since %d: %d, want %d within 3 times %g", crowd, since, got, want, e)
			}
		}
		if s.Forget(5000); !s.Empty() {
			t.Error("everybody is forgotten, and somebody is left")
		}
	}
}

// A45: 900 of 1000 leave, and a window later they are not counted.
func TestWindowForgetsWhoLeft(t *testing.T) {
	for seed := range uint64(20) {
		all := crowdOf(seed, 1000)
		s := sketchOf(1000, all...)
		s.Merge(sketchOf(1300, all[900:]...))
		if n, _ := s.Since(1000); n < 950 || n > 1050 {
			t.Errorf("seed %d: %d in the window, want about 1000", seed, n)
		}
		if n, _ := s.Since(1001); n > 150 || n < 90 {
			t.Errorf("seed %d: %d a window later, want about 100", seed, n)
		}
	}
}

func TestSketchMovesToAnotherClock(t *testing.T) {
	for _, n := range []int{10, 1000} {
		s := sketchOf(500, crowdOf(1, n)...)
		s.Shift(70)
		if before, _ := s.Since(571); before != 0 || s.Newest() != 570 {
			t.Errorf("%d of %d are later than they were moved to; the newest at %d", before, n, s.Newest())
		}
	}
}

// TestSketchOfTheOldIsNotWrittenWrong: what is too old for the written form is
// left out.
func TestSketchOfTheOldIsNotWrittenWrong(t *testing.T) {
	for _, n := range []int{10, 1000} {
		all := crowdOf(2, n)
		s := sketchOf(10, all[:n/2]...)
		s.Merge(sketchOf(100_000, all[n/2:]...))
		got, err := DecodeSketch(s.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := s.Since(11)
		if all, _ := got.Since(0); all != want {
			t.Errorf("%d are read, want the %d who are not too old", all, want)
		}
	}
}

func FuzzDecodeSketch(f *testing.F) {
	f.Add([]byte{})
	f.Add((&Sketch{}).Append(nil))
	f.Add(sketchOf(1_700_000_000, 1, 2, 3).Append(nil))
	large := sketchOf(1_700_000_000, crowdOf(1, 300)...)
	large.Merge(sketchOf(1_700_000_100, crowdOf(2, 20)...))
	f.Add(large.Append(nil))
	f.Add([]byte("HYLL\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSketch(b)
		if err != nil {
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is written again as %x", b, again)
		}
		s.Merge(sketchOf(5, 1<<60, 77))
		if n, _ := s.Since(0); n < 1 {
			t.Errorf("two visitors more, and %d in all", n)
		}
		s.Forget(5)
		s.Shift(-3)
		if _, err := DecodeSketch(s.Append(nil)); err != nil {
			t.Errorf("what was read and changed cannot be read again: %v", err)
		}
	})
}

func BenchmarkSketch(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		s := sketchOf(1000, crowdOf(1, n)...)
		more := crowdOf(2, 1<<16)
		b.Run(fmt.Sprintf("add/%d", n), func(b *testing.B) {
			c := s.copy()
			i := 0
			for b.Loop() {
				if n <= SketchExact {
					c.Add(c.visits[i%n].hash, int64(1000+i>>10))
				} else {
					c.Add(more[i&0xffff], int64(1000+i>>10))
				}
				i++
			}
		})
		b.Run(fmt.Sprintf("merge/%d", n), func(b *testing.B) {
			o := sketchOf(1010, more[:n/4]...)
			for b.Loop() {
				c := *s
				c.Merge(o)
			}
		})
		b.Run(fmt.Sprintf("since/%d", n), func(b *testing.B) {
			for b.Loop() {
				s.Since(900)
			}
		})
		b.Run(fmt.Sprintf("write/%d", n), func(b *testing.B) {
			var out []byte
			for b.Loop() {
				out = s.Append(out[:0])
			}
			b.ReportMetric(float64(len(out)), "bytes")
		})
	}
}
