package rollcall

import "time"

// Revocation refuses the tokens that a user was issued until a moment: all of
// them, or those of one session of the application.
type Revocation struct {
	User    UserID
	Session string // "": every session
	Before  int64  // Unix ms, on the clock of the store, which fills it in
}

// Revoked is what has been revoked of one user. The zero value is nothing.
type Revoked struct {
	// Before is the moment until which the user's tokens are refused, in Unix
	// ms; 0 if none are.
	Before int64
	// Sessions is the same for single sessions of the application.
	Sessions map[string]int64
}

// Refuses reports whether a token is refused, by when it was issued and by the
// session that it names. A token that does not say when counts as issued before
// anything. Issuers that tell whole seconds have the tokens of the second of the
// revocation refused: it cannot be told which of them are older.
func (r Revoked) Refuses(issued time.Time, session string) bool {
	before := r.Before
	if session != "" {
		before = max(before, r.Sessions[session])
	}
	return before != 0 && (issued.IsZero() || issued.UnixMilli() <= before)
}

// Note adds a revocation.
func (r *Revoked) Note(rev Revocation) {
	if rev.Session == "" {
		r.Before = max(r.Before, rev.Before)
		return
	}
	if r.Sessions == nil {
		r.Sessions = make(map[string]int64)
	}
	r.Sessions[rev.Session] = max(r.Sessions[rev.Session], rev.Before)
}

// forget takes a revocation away, unless it was repeated since.
func (r *Revoked) forget(rev Revocation) {
	switch {
	case rev.Session == "" && r.Before == rev.Before:
		r.Before = 0
	case rev.Session != "" && r.Sessions[rev.Session] == rev.Before:
		delete(r.Sessions, rev.Session)
	}
}

// PartitionOfUser is the partition that keeps what is known of a user, whatever
// rooms the user is in.
func PartitionOfUser(user UserID) int { return PartitionOf(RoomID(user)) }

// keptRevocation is a revocation and when it may be forgotten, on the lease
// clock.
type keptRevocation struct {
	Revocation
	until time.Duration
}

// Revoke refuses from now on the tokens that r names, for the longest life of a
// token. r comes back with the moment.
func (p *Partition) Revoke(now time.Time, r Revocation) (Revocation, *Frame) {
	p.begin(now)
	known := p.revoked[r.User]
	r.Before = max(p.wall, known.Before, known.Sessions[r.Session])
	p.keepRevocation(r, p.limits.TokenLife)
	p.revocations = append(p.revocations, r)
	return r, p.frame()
}

func (p *Partition) keepRevocation(r Revocation, life time.Duration) {
	known := p.revoked[r.User]
	known.Note(r)
	p.revoked[r.User] = known
	p.kept = append(p.kept, keptRevocation{r, p.clock.Elapsed() + life})
}

// Revoked is what has been revoked of a user.
func (p *Partition) Revoked(user UserID) Revoked {
	known := p.revoked[user]
	all := Revoked{Before: known.Before}
	for session, before := range known.Sessions {
		all.Note(Revocation{Session: session, Before: before})
	}
	return all
}

// forgetRevocations forgets those whose tokens have all run out.
func (p *Partition) forgetRevocations(elapsed time.Duration) {
	n := 0
	for n < len(p.kept) && p.kept[n].until <= elapsed {
		r := p.kept[n].Revocation
		known := p.revoked[r.User]
		known.forget(r)
		p.revoked[r.User] = known
		if known.Before == 0 && len(known.Sessions) == 0 {
			delete(p.revoked, r.User)
		}
		n++
	}
	if n > 0 {
		p.kept = append([]keptRevocation(nil), p.kept[n:]...)
	}
}

// SavedRevocation is a revocation and for how long it has to be kept.
type SavedRevocation struct {
	User    UserID        `json:"user"`
	Session string        `json:"session,omitempty"`
	Before  int64         `json:"before"`
	Left    time.Duration `json:"left"`
}

func (p *Partition) saveRevocations() []SavedRevocation {
	var saved []SavedRevocation
	for _, k := range p.kept {
		saved = append(saved, SavedRevocation{
			User: k.User, Session: k.Session, Before: k.Before, Left: max(k.until-p.clock.Elapsed(), 0),
		})
	}
	return saved
}

func (p *Partition) restoreRevocations(saved []SavedRevocation) {
	for _, s := range saved {
		p.keepRevocation(Revocation{User: s.User, Session: s.Session, Before: s.Before}, s.Left)
	}
}
