//go:build unix

package departures

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// viewer is somebody who sees a room: what it has been told, and when. It
// believes nothing that contradicts what it was told before.
type viewer struct {
	news
	name string // static

	mu       sync.Mutex
	shown    bool            // Guarded by mu. It has been shown the room.
	list     map[string]bool // Guarded by mu. Who is here; true while that is sure.
	version  int64           // Guarded by mu. 0 if it holds none.
	epoch    string          // Guarded by mu.
	seen     []sight         // Guarded by mu. In order.
	settling []time.Duration // Guarded by mu. Each settlingMs that it was told; the newest counts.
	wrong    []string        // Guarded by mu. What must not happen.
	slow     []string        // Guarded by mu. Reads that took long.
}

// sight is a join or a leave.
type sight struct {
	at     time.Time
	user   string
	leave  bool
	reason string
}

func (s sight) String() string {
	what := "join"
	if s.leave {
		what = "leave (" + s.reason + ")"
	}
	return fmt.Sprintf("%s %s at %s", what, s.user, s.at.Format("05.000"))
}

func newViewer(name string) *viewer { return &viewer{name: name, list: make(map[string]bool)} }

// notice is an event of a room.
type notice struct {
	Epoch      string
	Version    int64
	Prev       int64
	Count      int
	Members    []member
	SettlingMs int64
	Join       []member
	Update     []member
	Leave      []struct{ User, Reason string }
}

// take takes an event that came at the given time.
func (v *viewer) take(e event, at time.Time) {
	var n notice
	switch e.Name {
	case "snapshot", "diff", "resumed":
		if err := json.Unmarshal(e.Data, &n); err != nil {
			v.fault("%s: %v: %s", e.Name, err, e.Data)
			return
		}
	case "mode", "count":
		v.fault("%s in a small room: %s", e.Name, e.Data)
		return
	default:
		return
	}
	defer v.tell()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Name {
	case "snapshot":
		v.epoch, v.version = n.Epoch, n.Version
		v.replaceLocked(n.Members, time.Duration(n.SettlingMs)*time.Millisecond, at)
	case "resumed":
		if n.Version != v.version || n.Epoch != v.epoch {
			v.faultLocked("resumed at %s.%d, but holds %s.%d", n.Epoch, n.Version, v.epoch, v.version)
		}
	case "diff":
		v.diffLocked(&n, at)
	}
}

func (v *viewer) diffLocked(n *notice, at time.Time) {
	if n.Prev != v.version {
		v.faultLocked("diff after %d, but holds %d", n.Prev, v.version)
	}
	v.version = n.Version
	for _, l := range n.Leave {
		v.leaveLocked(l.User, l.Reason, at)
	}
	for _, m := range n.Join {
		if v.list[m.User] {
			v.faultLocked("join of %s, who is here", m.User)
		}
		v.joinLocked(m.User, at)
	}
	for _, m := range n.Update {
		if !v.list[m.User] {
			v.faultLocked("update of %s, who is not here", m.User)
		}
	}
	sure := 0
	for _, is := range v.list {
		if is {
			sure++
		}
	}
	if n.Count != sure {
		v.faultLocked("count %d, but lists %d", n.Count, sure)
	}
}

// waited notes a read that took long, or failed.
func (v *viewer) waited(d time.Duration, err error) {
	if d < slack/2 && err == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.slow) < 20 {
		v.slow = append(v.slow, fmt.Sprintf("%v until %s: %v", d.Round(time.Millisecond), time.Now().Format("05.000"), err))
	}
}

// replaceLocked takes a whole list. While the store settles, those missing from
// it may be on their way back.
func (v *viewer) replaceLocked(members []member, settling time.Duration, at time.Time) {
	v.shown = true
	here := make(map[string]bool, len(members))
	for _, m := range members {
		here[m.User] = true
		v.joinLocked(m.User, at)
	}
	for _, user := range slices.Sorted(maps.Keys(v.list)) {
		switch {
		case here[user]:
		case settling > 0:
			v.list[user] = false
		default:
			v.leaveLocked(user, "missing", at)
		}
	}
	if settling > 0 {
		v.settling = append(v.settling, settling)
	}
}

// settle ends the settling that was told as the nth, unless there was another
// one since: who has not come back is gone.
func (v *viewer) settle(n int) {
	defer v.tell()
	v.mu.Lock()
	defer v.mu.Unlock()
	if n != len(v.settling) {
		return
	}
	for user, sure := range v.list {
		if !sure {
			v.leaveLocked(user, "settled", time.Now())
		}
	}
}

func (v *viewer) joinLocked(user string, at time.Time) {
	if _, here := v.list[user]; !here {
		v.seen = append(v.seen, sight{at: at, user: user})
	}
	v.list[user] = true
}

func (v *viewer) leaveLocked(user, reason string, at time.Time) {
	if _, here := v.list[user]; !here {
		v.faultLocked("leave of %s, who is not here", user)
		return
	}
	delete(v.list, user)
	v.seen = append(v.seen, sight{at: at, user: user, leave: true, reason: reason})
}

func (v *viewer) fault(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faultLocked(format, args...)
}

func (v *viewer) faultLocked(format string, args ...any) {
	v.wrong = append(v.wrong, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (v *viewer) isShown() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown
}

// sees reports whether the viewer is sure that all of these are here.
func (v *viewer) sees(users ...string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, u := range users {
		if !v.list[u] {
			return false
		}
	}
	return true
}

// left is when the viewer was first told, after from, that user is gone.
func (v *viewer) left(user string, from time.Time) (at time.Time, reason string, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.seen {
		if s.leave && s.user == user && s.at.After(from) {
			return s.at, s.reason, true
		}
	}
	return time.Time{}, "", false
}

// since is the joins and leaves after from.
func (v *viewer) since(from time.Time) []sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	var after []sight
	for _, s := range v.seen {
		if s.at.After(from) {
			after = append(after, s)
		}
	}
	return after
}

// users is who the viewer lists.
func (v *viewer) users() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.list))
}

// faults is what must not happen and did. Joins and leaves alternate for each
// user by the way they are noted; only known users may be named.
func (v *viewer) faults(known func(user string) bool) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := slices.Clone(v.wrong)
	for _, s := range v.seen {
		if !known(s.user) {
			all = append(all, fmt.Sprintf("%v, who was never here", s))
		}
	}
	return all
}

// settled is each settlingMs that the viewer was told.
func (v *viewer) settled() []time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.settling)
}
