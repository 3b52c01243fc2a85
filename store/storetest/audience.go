package storetest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"rollcall"
	"rollcall/store"
)

// visitors are n visitors by their hashes, others for each seed, who were last
// seen at a moment.
func visitors(seed uint64, from, to int, at int64) *rollcall.Sketch {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &rollcall.Sketch{}
	for i := range to {
		if h := r.Uint64(); i >= from {
			s.Add(h, at)
		}
	}
	return s
}

func (s *scene) audiences() store.Audiences {
	s.t.Helper()
	a, ok := s.store.(store.Audiences)
	if !ok {
		s.t.Fatal("the store keeps no audiences")
	}
	return a
}

func (s *scene) witness(now int64, room rollcall.RoomID, sketches ...*rollcall.Sketch) {
	s.t.Helper()
	for _, sketch := range sketches {
		if err := s.audiences().Witness(context.Background(), now, []store.RoomSketch{{Room: room, Sketch: sketch}}); err != nil {
			s.t.Fatalf("witness: %v", err)
		}
	}
}

// wantAudience reads an audience, which has to be exact with so many visitors.
func (s *scene) wantAudience(now int64, room rollcall.RoomID, window time.Duration, want int, exact bool) {
	s.t.Helper()
	n, e, err := s.audiences().Audience(context.Background(), room, now, window)
	if err != nil {
		s.t.Fatalf("audience: %v", err)
	}
	off := math.Abs(float64(n - want))
	if exact && (e != 0 || off != 0) || !exact && (e <= 0 || off > 3*e*float64(want)+1) {
		s.t.Fatalf("an audience of %d with error %g in %v, want %d", n, e, window, want)
	}
}

// A45: the same visitors again change nothing, whoever tells of them.
func audienceIsASet(s *scene) {
	now := time.Now().Unix()
	for range 3 {
		s.witness(now, hall, visitors(1, 0, 3, now), visitors(2, 0, 2, now), &rollcall.Sketch{})
		s.wantAudience(now, hall, time.Minute, 5, true)
	}
	s.witness(now, cellar, visitors(1, 0, 1, now))
	s.wantAudience(now, hall, time.Hour, 5, true)
	s.wantAudience(now, cellar, time.Hour, 1, true)
	s.wantAudience(now, "attic", time.Hour, 0, true)
}

// windowIsFromItsBeginningOn: who left before it is not counted, and who left
// within it is.
func windowIsFromItsBeginningOn(s *scene) {
	now := time.Now().Unix()
	s.witness(now, hall, visitors(1, 0, 10, now-900), visitors(1, 7, 20, now-58), visitors(1, 0, 2, now))
	s.wantAudience(now, hall, time.Minute, 15, true) // 7 to 19, 0 and 1
	s.wantAudience(now, hall, 45*time.Second, 2, true)
	s.wantAudience(now, hall, 5*time.Minute, 15, true)
	s.wantAudience(now, hall, 20*time.Minute, 20, true)

	// A45: 900 of 1000 leave, and one window later they are not counted.
	s.witness(now, cellar, visitors(2, 0, 1000, now-60), visitors(2, 0, 100, now))
	s.wantAudience(now, cellar, 5*time.Minute, 1000, false)
	n, _, err := s.audiences().Audience(context.Background(), cellar, now, time.Minute)
	if err != nil || n > 150 || n < 60 {
		s.t.Fatalf("a window later: %d, %v, want about the 100 who stayed", n, err)
	}
}

// audienceForgetsTheOld: nobody is remembered for longer than the longest window.
func audienceForgetsTheOld(s *scene) {
	now := time.Now().Unix()
	s.witness(now, hall, visitors(1, 0, 100, now-7200))
	s.witness(now, hall, visitors(2, 0, 3, now))
	s.wantAudience(now, hall, 3*time.Hour, 3, true)
}

// audienceIsThatOfAllNodes: many tell of the same room at once, some of them of the
// same visitors, and none is lost.
func audienceIsThatOfAllNodes(s *scene) {
	now := time.Now().Unix()
	const nodes, each = 4, 600
	var all sync.WaitGroup
	errs := make(chan error, nodes*5)
	for node := range nodes {
		all.Go(func() {
			for step := range 5 {
				from := node*each/2 + step*each/5
				seen := []store.RoomSketch{
					{Room: hall, Sketch: visitors(3, from, from+each/5, now)},
					{Room: cellar, Sketch: visitors(4, node*10+step, node*10+step+2, now)},
				}
				err := s.audiences().Witness(context.Background(), now, seen)
				for try := 0; err != nil && try < 20; try++ {
					time.Sleep(time.Duration(node+1) * time.Millisecond)
					err = s.audiences().Witness(context.Background(), now, []store.RoomSketch{
						{Room: hall, Sketch: visitors(3, from, from+each/5, now)},
						{Room: cellar, Sketch: visitors(4, node*10+step, node*10+step+2, now)},
					})
				}
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.wantAudience(now, hall, time.Minute, (nodes+1)*each/2, false)
	s.wantAudience(now, cellar, time.Minute, nodes*6, true)
}
