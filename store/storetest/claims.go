package storetest

import "rollcall"

// A lease that is brought back late does not take the place of one that its
// connection was granted since, on another node.
func lateClaimTakesNothingOver(s *scene) {
	open := rollcall.Op{Kind: rollcall.OpGrant, Room: hall, User: ana, Connection: "c1", Claim: 7}
	now := s.do(open).Lease
	late := open
	late.Claim, late.Late = 6, true
	if r := s.apply(late)[0]; !r.Stale || r.Err != nil || r.Member == nil {
		s.t.Fatalf("a late grant under an older claim: got %+v, want it stale", r)
	}
	s.renewal(now, rollcall.Renewed)
	late.Claim = 7
	again := s.do(late)
	s.renewal(now, rollcall.Replaced)
	older := open
	older.Claim = 3
	s.do(older) // a stream that opens under an older secret
	s.renewal(again.Lease, rollcall.Replaced)
}

func (s *scene) renewal(l rollcall.Lease, want rollcall.Outcome) {
	s.t.Helper()
	r := []rollcall.Renewal{{Lease: &l}}
	if err := s.store.Renew(s.t.Context(), r); err != nil || r[0].Outcome != want {
		s.t.Fatalf("renewal of %+v: outcome %d, %v, want %d", l, r[0].Outcome, err, want)
	}
}
