package rollcall

import "sort"

// joinOrder keeps values in the order of their joins. Since a join always has
// the highest version, it is a slice that grows at its end; a removal leaves a
// hole, unless it is at the end, and holes are closed when they are half of it:
// amortized O(1) a change, O(log n) to find a place.
type joinOrder[T interface {
	comparable
	setPlace(int)
}] struct {
	places []place[T]
	holes  int
}

type place[T any] struct {
	version Version
	value   T
}

// push adds v at the end and tells it its place.
func (o *joinOrder[T]) push(version Version, v T) {
	v.setPlace(len(o.places))
	o.places = append(o.places, place[T]{version, v})
}

// remove takes out the value at a place.
func (o *joinOrder[T]) remove(i int) {
	var none T
	o.places[i].value = none
	o.holes++
	// Those who joined last are often the first to leave, and the first page
	// should not walk over their holes.
	n := len(o.places)
	for n > 0 && o.places[n-1].value == none {
		n--
		o.holes--
	}
	o.places = o.places[:n]
	if o.holes > 16 && o.holes > n/2 || cap(o.places) > 64 && n < cap(o.places)/4 {
		o.compact()
	}
}

func (o *joinOrder[T]) compact() {
	var none T
	kept := o.places[:0]
	for _, p := range o.places {
		if p.value != none {
			p.value.setPlace(len(kept))
			kept = append(kept, p)
		}
	}
	clear(o.places[len(kept):])
	o.places, o.holes = kept, 0
	if cap(kept) > 64 && len(kept) < cap(kept)/4 {
		o.places = append(make([]place[T], 0, len(kept)*2), kept...)
	}
}

// before visits the values that joined before version, newest first, until visit
// returns false. Version 0 means from the newest.
func (o *joinOrder[T]) before(version Version, visit func(version Version, v T) bool) {
	var none T
	i := len(o.places)
	if version > 0 {
		i = sort.Search(len(o.places), func(i int) bool { return o.places[i].version >= version })
	}
	for i--; i >= 0; i-- {
		if p := o.places[i]; p.value != none && !visit(p.version, p.value) {
			return
		}
	}
}
