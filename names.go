package rollcall

import (
	"slices"
	"sort"
)

// roomNames is the names of rooms in byte order: pieces of a sorted list, none of
// them empty or longer than namesPiece. Finding a place takes O(log n); a name that
// comes or goes moves no more than its piece and the list of pieces.
type roomNames struct{ pieces [][]RoomID }

const namesPiece = 512

// piece is the first piece whose last name is not before id; the last piece if
// there is none.
func (n *roomNames) piece(id RoomID) int {
	i := sort.Search(len(n.pieces), func(i int) bool {
		p := n.pieces[i]
		return p[len(p)-1] >= id
	})
	return min(i, len(n.pieces)-1)
}

// add adds a name that is not there.
func (n *roomNames) add(id RoomID) {
	if len(n.pieces) == 0 {
		n.pieces = append(n.pieces, []RoomID{id})
		return
	}
	i := n.piece(id)
	at, _ := slices.BinarySearch(n.pieces[i], id)
	p := slices.Insert(n.pieces[i], at, id)
	n.pieces[i] = p
	if len(p) > namesPiece {
		half := slices.Clone(p[len(p)/2:])
		clear(p[len(p)/2:])
		n.pieces[i] = p[:len(p)/2]
		n.pieces = slices.Insert(n.pieces, i+1, half)
	}
}

// remove removes a name that is there.
func (n *roomNames) remove(id RoomID) {
	i := n.piece(id)
	at, _ := slices.BinarySearch(n.pieces[i], id)
	n.pieces[i] = slices.Delete(n.pieces[i], at, at+1)
	if len(n.pieces[i]) == 0 {
		n.pieces = slices.Delete(n.pieces, i, i+1)
	}
}

// from visits the names that are not before id, in order, until visit returns
// false.
func (n *roomNames) from(id RoomID, visit func(RoomID) bool) {
	if len(n.pieces) == 0 {
		return
	}
	i := n.piece(id)
	at, _ := slices.BinarySearch(n.pieces[i], id)
	for ; i < len(n.pieces); i, at = i+1, 0 {
		for _, name := range n.pieces[i][at:] {
			if !visit(name) {
				return
			}
		}
	}
}
