package rollcall

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type ordered struct{ place int }

func (o *ordered) setPlace(i int) { o.place = i }

// TestJoinOrderAgreesWithList compares with a list from which values are really
// taken out, and checks that the slice stays in proportion to what is in it.
func TestJoinOrderAgreesWithList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var order joinOrder[*ordered]
		var list []place[*ordered]
		var version Version
		grow := rapid.IntRange(1, 400).Draw(t, "grow")
		for n := rapid.IntRange(1, 600).Draw(t, "steps"); n > 0; n-- {
			if len(list) == 0 || n > 600-grow && rapid.IntRange(0, 9).Draw(t, "push") > 0 || rapid.IntRange(0, 2).Draw(t, "push") == 0 {
				version += 1 + Version(rapid.IntRange(0, 2).Draw(t, "gap"))
				o := &ordered{}
				order.push(version, o)
				list = append(list, place[*ordered]{version, o})
				continue
			}
			i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
			order.remove(list[i].value.place)
			list = slices.Delete(list, i, i+1)
		}
		from := Version(rapid.IntRange(0, int(version)+2).Draw(t, "from"))
		var want, got []*ordered
		for i := len(list) - 1; i >= 0; i-- {
			if from == 0 || list[i].version < from {
				want = append(want, list[i].value)
			}
		}
		order.before(from, func(_ Version, o *ordered) bool {
			got = append(got, o)
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("before %d: %d values, want %d in the same order", from, len(got), len(want))
		}
		if n := len(order.places); n > 2*len(list)+32 || n-order.holes != len(list) || n > 0 && order.places[n-1].value == nil {
			t.Fatalf("%d places with %d holes for %d values", n, order.holes, len(list))
		}
		if c := cap(order.places); c > 8*len(list)+200 {
			t.Fatalf("room for %d for %d values", c, len(list))
		}
	})
}
