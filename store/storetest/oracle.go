package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rollcall"
)

// Oracle is what a store ought to be, written as naively as possible: a flat
// list of every lease there ever was, from which everything else is computed
// anew whenever it is asked for. It is slow, and there is nowhere in it for a
// clever mistake to hide.
type Oracle struct {
	timing     rollcall.Timing
	limits     rollcall.Limits
	partitions map[int]*oraclePartition
	claims     []*claim
	stays      []*stay
	bans       map[bareUpdate]time.Duration // until when, on the lease clock of the room
	steps      int
	slack      time.Duration // by how much the time of the store may differ

	events []Event
	ended  []rollcall.Ended
}

type oraclePartition struct {
	clock      time.Duration
	last       time.Time
	generation rollcall.Generation // the newest
}

// claim is one lease, for ever.
type claim struct {
	lease         rollcall.Lease
	deadline, ttl time.Duration
	status        rollcall.Status
	data          json.RawMessage
	changed       int // step of the last change of data; 0: never set
	closing       bool
	replaced      bool
	over          bool
	overAt        time.Duration // on the lease clock
	reason        rollcall.Reason
}

func (c *claim) live() bool { return !c.over && !c.replaced }

// stay is the time of a user in a room from a join to its leave.
type stay struct {
	room   rollcall.RoomID
	user   rollcall.UserID
	info   json.RawMessage
	since  int64
	joined int
	gone   bool
}

// Event is a join or a leave.
type Event struct {
	Room   rollcall.RoomID
	User   rollcall.UserID
	Reason rollcall.Reason // ReasonNone: a join
	// either are the reasons, as bits, of leases that a single tick found to be
	// due: it does not matter which of them it ends last.
	either uint
}

// NewOracle makes an oracle that knows nobody.
func NewOracle(o Options) *Oracle {
	return &Oracle{timing: o.Timing, limits: o.Limits, partitions: make(map[int]*oraclePartition), bans: make(map[bareUpdate]time.Duration)}
}

// observe advances the lease clock of the partition of a room.
func (o *Oracle) observe(now time.Time, partition int) *oraclePartition {
	p := o.partitions[partition]
	if p == nil {
		p = &oraclePartition{last: now}
		o.partitions[partition] = p
	}
	passed := now.Sub(p.last)
	if most := min(2*time.Second, o.timing.Lease/6); passed > most {
		passed = most
	}
	if passed > 0 {
		p.clock += passed
	}
	p.last = now
	return p
}

func (o *Oracle) observeRoom(now time.Time, room rollcall.RoomID) *oraclePartition {
	return o.observe(now, rollcall.PartitionOf(room))
}

// Clock is the lease clock of the partition of a room.
func (o *Oracle) Clock(room rollcall.RoomID) time.Duration {
	if p := o.partitions[rollcall.PartitionOf(room)]; p != nil {
		return p.clock
	}
	return 0
}

func (o *Oracle) claimsOf(room rollcall.RoomID, user rollcall.UserID) []*claim {
	var live []*claim
	for _, c := range o.claims {
		if c.live() && c.lease.Room == room && c.lease.User == user {
			live = append(live, c)
		}
	}
	return live
}

func (o *Oracle) current(room rollcall.RoomID, user rollcall.UserID, connection rollcall.ConnectionID) *claim {
	for _, c := range o.claimsOf(room, user) {
		if c.lease.Connection == connection {
			return c
		}
	}
	return nil
}

func (o *Oracle) stayOf(room rollcall.RoomID, user rollcall.UserID) *stay {
	for _, s := range o.stays {
		if !s.gone && s.room == room && s.user == user {
			return s
		}
	}
	return nil
}

// Member is what a user ought to look like; nil if not in the room.
func (o *Oracle) Member(room rollcall.RoomID, user rollcall.UserID) *rollcall.Member {
	claims := o.claimsOf(room, user)
	if len(claims) == 0 {
		return nil
	}
	s := o.stayOf(room, user)
	m := &rollcall.Member{User: user, Info: s.info, Since: s.since}
	newest := 0
	for _, c := range claims {
		if !c.closing {
			m.Connections++
		}
		if c.status > m.Status {
			m.Status = c.status
		}
		if c.changed > newest {
			newest, m.Data = c.changed, c.data
		}
	}
	if m.Connections == 0 {
		m.Connections = 1
	}
	return m
}

// Members is everybody in a room, newest join first.
func (o *Oracle) Members(room rollcall.RoomID) []*rollcall.Member {
	var here []*stay
	for _, s := range o.stays {
		if !s.gone && s.room == room {
			here = append(here, s)
		}
	}
	slices.SortFunc(here, func(a, b *stay) int { return b.joined - a.joined })
	var members []*rollcall.Member
	for _, s := range here {
		members = append(members, o.Member(room, s.user))
	}
	return members
}

// States is what each connection of a user has set, by connection.
func (o *Oracle) States(room rollcall.RoomID, user rollcall.UserID) map[rollcall.ConnectionID]rollcall.ConnectionState {
	states := make(map[rollcall.ConnectionID]rollcall.ConnectionState)
	for _, c := range o.claimsOf(room, user) {
		states[c.lease.Connection] = rollcall.ConnectionState{Connection: c.lease.Connection, Status: c.status, Data: c.data, TTL: c.ttl}
	}
	return states
}

// Connections is the number of live leases in a room.
func (o *Oracle) Connections(room rollcall.RoomID) int {
	n := 0
	for _, c := range o.claims {
		if c.live() && c.lease.Room == room {
			n++
		}
	}
	return n
}

// live is the number of live leases.
func (o *Oracle) live() int {
	n := 0
	for _, c := range o.claims {
		if c.live() {
			n++
		}
	}
	return n
}

// Apply carries out op, compares what it came to with what it ought to come to,
// and takes over the generation that the store issued.
func (o *Oracle) Apply(now time.Time, op *rollcall.Op, got *rollcall.Result) error {
	p := o.observeRoom(now, op.Room)
	o.steps++
	if op.Kind == rollcall.OpGrant {
		return o.grant(now, p, op, got)
	}
	if op.Kind == rollcall.OpEndUser {
		claims := o.claimsOf(op.Room, op.User)
		if len(claims) == 0 {
			return wantCode(got, rollcall.CodeNotFound)
		}
		for _, c := range claims {
			o.end(c, op.Reason)
		}
		if op.Ban > 0 {
			at := bareUpdate{op.Room, op.User}
			o.bans[at] = max(o.bans[at], p.clock+op.Ban)
		}
		return o.wantDone(op, got)
	}
	c := o.current(op.Room, op.User, op.Connection)
	switch {
	case c == nil:
		return wantCode(got, rollcall.CodeGone)
	case op.Generation != 0 && op.Generation != c.lease.Generation,
		op.Kind == rollcall.OpClose && c.closing:
		if got.Err != nil || !got.Stale {
			return fmt.Errorf("got %+v, want stale", *got)
		}
		return nil
	}
	switch op.Kind {
	case rollcall.OpSet:
		data := op.Data
		if op.Merge && data != nil {
			data = naiveMerge(c.data, data)
		}
		if len(op.Data) > o.limits.Data || len(data) > o.limits.Data {
			return wantCode(got, rollcall.CodeTooLarge)
		}
		o.change(c, op.Status, data)
	case rollcall.OpClose:
		if op.Grace <= 0 {
			o.end(c, rollcall.ReasonClosed)
			break
		}
		c.closing = true
		if p.clock+op.Grace < c.deadline {
			c.deadline = p.clock + op.Grace
		}
	case rollcall.OpEnd:
		o.end(c, op.Reason)
	}
	return o.wantDone(op, got)
}

// change sets what is given. Setting what is there already changes nothing.
func (o *Oracle) change(c *claim, status rollcall.Status, data json.RawMessage) {
	if status != rollcall.StatusUnset {
		c.status = status
	}
	if data != nil && !bytes.Equal(data, c.data) {
		c.data, c.changed = data, o.steps
	}
}

func (o *Oracle) grant(now time.Time, p *oraclePartition, op *rollcall.Op, got *rollcall.Result) error {
	claims := o.claimsOf(op.Room, op.User)
	old := o.current(op.Room, op.User, op.Connection)
	var refusals []rollcall.Code
	if !rollcall.ValidID(string(op.Room)) || !rollcall.ValidID(string(op.User)) {
		refusals = append(refusals, rollcall.CodeBadRequest)
	}
	if o.bans[bareUpdate{op.Room, op.User}] > p.clock {
		refusals = append(refusals, rollcall.CodeForbidden)
	}
	if op.ResumeOnly && old == nil {
		refusals = append(refusals, rollcall.CodeGone)
	}
	if old == nil && len(claims) >= o.limits.ConnectionsPerUser {
		refusals = append(refusals, rollcall.CodeRateLimited)
	}
	if len(op.Info) > o.limits.Info || len(op.Data) > o.limits.Data {
		refusals = append(refusals, rollcall.CodeTooLarge)
	}
	if len(refusals) > 0 {
		return wantCode(got, refusals...)
	}
	if got.Err != nil {
		return fmt.Errorf("refused (%v), want a lease", got.Err)
	}
	if got.Lease.Generation <= p.generation {
		return fmt.Errorf("generation %d after %d, want a greater one", got.Lease.Generation, p.generation)
	}
	p.generation = got.Lease.Generation
	if l := got.Lease; l.Room != op.Room || l.User != op.User || l.Connection != op.Connection {
		return fmt.Errorf("lease %+v names something else than %+v", l, *op)
	}

	c := &claim{lease: got.Lease, ttl: op.TTL, status: rollcall.StatusActive}
	if c.ttl == 0 {
		c.ttl = o.timing.Lease
	}
	c.deadline = p.clock + c.ttl - op.Age
	if old != nil {
		c.status, c.data, c.changed = old.status, old.data, old.changed
		if !old.closing && old.ttl == c.ttl && old.deadline > c.deadline {
			c.deadline = old.deadline
		}
		old.replaced = true
	}
	o.change(c, op.Status, op.Data)
	o.claims = append(o.claims, c)
	if len(claims) == 0 {
		since := now.UnixMilli()
		if m := got.Member; m != nil && time.Duration(max(m.Since-since, since-m.Since))*time.Millisecond < o.slack {
			since = m.Since
		}
		o.stays = append(o.stays, &stay{room: op.Room, user: op.User, info: op.Info, since: since, joined: o.steps})
		o.events = append(o.events, Event{Room: op.Room, User: op.User})
	} else if op.Info != nil {
		o.stayOf(op.Room, op.User).info = op.Info
	}
	return o.wantDone(op, got)
}

// end ends a claim, and the stay with its last.
func (o *Oracle) end(c *claim, reason rollcall.Reason) {
	c.over, c.overAt, c.reason = true, o.Clock(c.lease.Room), reason
	l := c.lease
	o.ended = append(o.ended, rollcall.Ended{Connection: l.Connection, User: l.User, Generation: l.Generation, Reason: reason})
	if len(o.claimsOf(l.Room, l.User)) == 0 {
		o.stayOf(l.Room, l.User).gone = true
		o.events = append(o.events, Event{Room: l.Room, User: l.User, Reason: reason})
	}
}

func wantCode(got *rollcall.Result, codes ...rollcall.Code) error {
	if got.Err == nil || !slices.Contains(codes, got.Err.Code) {
		return fmt.Errorf("got %+v, want the error %v", *got, codes)
	}
	return nil
}

func (o *Oracle) wantDone(op *rollcall.Op, got *rollcall.Result) error {
	if got.Err != nil || got.Stale {
		return fmt.Errorf("got %+v (%v), want done", *got, got.Err)
	}
	return differ(got.Member, o.Member(op.Room, op.User))
}

// Renew carries out a renewal and compares the outcome. named tells that the
// lease was named from outside: the store may then have forgotten how it ended.
func (o *Oracle) Renew(now time.Time, r *rollcall.Renewal, named bool) error {
	p := o.observeRoom(now, r.Lease.Room)
	current := o.current(r.Lease.Room, r.Lease.User, r.Lease.Connection)
	got := fmt.Sprintf("outcome %d reason %q", r.Outcome, r.Reason)
	if current != nil && current.lease.Generation == r.Lease.Generation {
		if current.closing {
			if r.Outcome != rollcall.Over || r.Reason != rollcall.ReasonClosed {
				return fmt.Errorf("got %s, want over because it is closing", got)
			}
			return nil
		}
		if r.Outcome != rollcall.Renewed {
			return fmt.Errorf("got %s, want renewed", got)
		}
		if d := p.clock + current.ttl - r.Age; d > current.deadline {
			current.deadline = d
		}
		return nil
	}
	if current != nil && r.Outcome == rollcall.Replaced {
		return nil
	}
	for _, c := range o.claims {
		if c.lease.Generation == r.Lease.Generation && c.lease.Room == r.Lease.Room {
			if c.over && r.Outcome == rollcall.Over && r.Reason == c.reason {
				return nil
			}
			if c.replaced && r.Outcome == rollcall.Replaced {
				return nil
			}
			// How a lease ended is kept for a lease, and only of the last one
			// of a connection.
			forgotten := c.replaced && current == nil || c.over && p.clock-c.overAt >= o.timing.Lease*9/10
			if forgotten && r.Outcome == rollcall.Lost {
				return nil
			}
		}
	}
	if named && current == nil && r.Outcome == rollcall.Lost {
		return nil
	}
	return fmt.Errorf("got %s for a lease that is not current (%v)", got, current != nil)
}

// Tick ends what is due, in every partition.
func (o *Oracle) Tick(now time.Time) {
	before := len(o.events)
	for n := range o.partitions {
		o.observe(now, n)
	}
	type who struct {
		room rollcall.RoomID
		user rollcall.UserID
	}
	reasons := make(map[who]uint)
	for _, c := range o.claims {
		if c.live() && c.deadline <= o.Clock(c.lease.Room) {
			reason := rollcall.ReasonExpired
			if c.closing {
				reason = rollcall.ReasonClosed
			}
			o.end(c, reason)
			reasons[who{c.lease.Room, c.lease.User}] |= 1 << reason
		}
	}
	for i := range o.events[before:] {
		e := &o.events[before+i]
		e.either = reasons[who{e.Room, e.User}]
	}
	o.forget()
}

// forget drops what ended long ago, so that long runs stay quadratic in what is
// alive only.
func (o *Oracle) forget() {
	if len(o.claims) > 400 {
		kept := o.claims[:0]
		for i, c := range o.claims {
			if c.live() || i > len(o.claims)-200 {
				kept = append(kept, c)
			}
		}
		o.claims = kept
	}
	o.stays = slices.DeleteFunc(o.stays, func(s *stay) bool { return s.gone })
}

// take hands over the events since the last call.
func (o *Oracle) take() ([]Event, []rollcall.Ended) {
	events, ended := o.events, o.ended
	o.events, o.ended = nil, nil
	return events, ended
}

// differ tells how two members differ; nil if they do not.
func differ(got, want *rollcall.Member) error {
	if (got == nil) != (want == nil) {
		return fmt.Errorf("got member %s, want %s", show(got), show(want))
	}
	if got == nil {
		return nil
	}
	if got.User != want.User || got.Status != want.Status || got.Connections != want.Connections ||
		got.Since != want.Since || !bytes.Equal(got.Info, want.Info) || !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("got member %s, want %s", show(got), show(want))
	}
	return nil
}

func show(m *rollcall.Member) string {
	if m == nil {
		return "nobody"
	}
	return fmt.Sprintf("{%q %s x%d since %d info %s data %s}", m.User, m.Status, m.Connections, m.Since, m.Info, m.Data)
}

// naiveMerge merges two JSON objects key by key, in the order in which the keys
// first came.
func naiveMerge(old, patch json.RawMessage) json.RawMessage {
	if old == nil {
		return patch
	}
	var keys []string
	values := make(map[string]json.RawMessage)
	for _, object := range []json.RawMessage{old, patch} {
		d := json.NewDecoder(bytes.NewReader(object))
		d.Token()
		for d.More() {
			token, _ := d.Token()
			key := token.(string)
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				panic(err)
			}
			if _, ok := values[key]; !ok {
				keys = append(keys, key)
			}
			values[key] = value
		}
	}
	out := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(key)
		out = append(append(append(out, quoted...), ':'), values[key]...)
	}
	return append(out, '}')
}
