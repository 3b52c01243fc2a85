package auth

// Anywhere reports whether c is allowed in some room.
func (g Grants) Anywhere(c Capability) bool {
	if g.set == nil {
		return false
	}
	for _, e := range g.set.exact {
		if e.can.has(c) {
			return true
		}
	}
	for _, p := range g.set.prefixes {
		if p.can.has(c) {
			return true
		}
	}
	return false
}

// Everywhere reports whether c is allowed in every room, by the pattern `*`.
func (g Grants) Everywhere(c Capability) bool {
	if g.set == nil || len(g.set.prefixes) == 0 {
		return false
	}
	all := g.set.prefixes[0] // in order, nothing stands before ""
	return all.prefix == "" && all.can.has(c)
}
