package client

import "rollcall"

// Kind is what a [Change] tells.
type Kind uint8

// The kinds.
const (
	// KindSnapshot: Members is the whole roster, and replaces what was known. It
	// comes first; again when the room changes between names and numbers; and
	// instead of changes that were not read in time.
	KindSnapshot Kind = iota + 1
	// KindJoin: Member is here now.
	KindJoin
	// KindUpdate: Member has changed.
	KindUpdate
	// KindLeave: Member, as it was last known, is gone, for Reason.
	KindLeave
	// KindCount: the number of members of a room in counts mode changed.
	KindCount
	// KindEnded: the client's own lease in the room ended, for Reason.
	KindEnded
	// KindState: State changed. Err says why it is [StateReconnecting] or
	// [StateOver]; nil after Leave and Close.
	KindState
	// KindSignals: Signals of others changed; the Data of one that has ended is
	// nil. After a snapshot that stands for changes that were not read,
	// [Room.Signals] says what lives.
	KindSignals
	// KindPage: the page named Page changed; [Room.Page] is what it shows.
	KindPage
	// KindContacts: who of our contacts is here changed; see [Room.Contacts].
	KindContacts
)

var kindWords = [...]string{"", "snapshot", "join", "update", "leave", "count", "ended", "state", "signals", "page", "contacts"}

// String is a word in lower case.
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return ""
}

// Change is one thing that happened in a room. The fields that a kind does not
// name are zero, except Count and State, which always stand.
type Change struct {
	Kind    Kind
	Member  *rollcall.Member
	Members []*rollcall.Member // newest join first; the sample in counts mode
	Signals []rollcall.Signal
	Page    string          // the name of a page
	Reason  rollcall.Reason // ReasonNone if it is not known
	Count   int             // members after the change
	State   State
	Err     error
}

// State is how well the client knows a room.
type State uint8

// The states.
const (
	// StateEntering: nothing is known yet.
	StateEntering State = iota
	// StateLive: what is known is current.
	StateLive
	// StateReconnecting: the connection is lost and on its way back; what is
	// known may be old.
	StateReconnecting
	// StateOver: the room was left, the lease was ended by somebody else, or the
	// server does not want the client back. Nothing changes any more.
	StateOver
)

var stateWords = [...]string{"entering", "live", "reconnecting", "over"}

// String is a word in lower case.
func (s State) String() string {
	if int(s) < len(stateWords) {
		return stateWords[s]
	}
	return ""
}

// changesKept is the capacity of a channel of changes.
const changesKept = 256

// feed is the way of changes to the application: a channel that never blocks
// whoever fills it. When it is full, what was not read is dropped for one
// snapshot, which says the same. Guarded by the mu of the client.
type feed struct {
	ch     chan Change // nil until somebody asks for it; closed when the room is over
	closed bool
}

// put adds changes. snapshot makes the change that stands for all earlier ones.
func (f *feed) put(changes []Change, snapshot func() Change) {
	if f.ch == nil || f.closed {
		return
	}
	for i, c := range changes {
		select {
		case f.ch <- c:
			continue
		default:
		}
		f.drop()
		f.ch <- snapshot()
		// The snapshot holds the changes of members; the rest is said.
		for _, c := range changes[i:] {
			if c.Kind == KindEnded || c.Kind == KindState {
				f.ch <- c
			}
		}
		return
	}
}

// drop empties the channel; there is no other sender.
func (f *feed) drop() {
	for {
		select {
		case <-f.ch:
		default:
			return
		}
	}
}

func (f *feed) close() {
	if f.ch != nil && !f.closed {
		close(f.ch)
	}
	f.closed = true
}
