package server

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/wire"
)

// lastEvent is what a client says of its last stream, by Last-Event-ID or by the
// resume secret alone.
type lastEvent struct {
	resume string     // "" if there is none
	since  wire.Since // single room: what it holds; Version 0 if it does not say
	digest string     // several rooms: the digest of what it holds; "" if it does not say
	asked  uint64     // a hash of the status and data in the URL of that stream; 0 if it does not say

	said     auth.Resume // what resume says
	ours     bool        // resume was signed by a node of ours
	verified string      // of which resume both are
}

// said is what the resume secret of a client says; ok is false if there is none or
// it is not one of ours. It is verified once, however many ask.
func (h *hub) said(l *lastEvent) (said auth.Resume, ok bool) {
	if l.resume == "" {
		return auth.Resume{}, false
	}
	if l.verified != l.resume {
		said, err := h.signer.Verify(l.resume)
		l.said, l.ours, l.verified = said, err == nil, l.resume
	}
	return l.said, l.ours
}

// The id of an event has four parts, with ~ between them: the resume secret,
// epoch and version of a single room, the digest of several, and the hash of what
// the URL asked for. Parts at the end that are empty are left out.

// appendState appends what the client holds once it has the write: epoch and
// version of the one room, or a digest over several.
func appendState(b []byte, subs []*sub, multi bool) []byte {
	if !multi && len(subs) == 1 {
		if v := viewingOf(subs[0]); v.version != 0 {
			b = append(b, v.epoch...)
			b = append(b, '.')
			return strconv.AppendInt(b, int64(v.version), 10)
		}
		return b
	}
	var sum uint64
	for _, s := range subs {
		if s.room != nil {
			sum += digest(viewingOf(s))
		}
	}
	b = append(b, '~')
	return strconv.AppendUint(b, sum, 36)
}

func viewingOf(s *sub) viewing {
	if s.room == nil || s.view.phase != viewLive {
		return viewing{room: s.id}
	}
	return viewing{s.id, s.view.epoch, s.view.sent}
}

// digest is a hash of one room's state; those of several rooms add up, in any
// order.
func digest(v viewing) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.WriteString(string(v.room))
	d.WriteString("\xff")
	d.WriteString(string(v.epoch))
	var b [9]byte
	b[0] = 0xff
	for i := range 8 {
		b[1+i] = byte(uint64(v.version) >> (8 * i))
	}
	d.Write(b[:])
	return d.Sum64()
}

// parseLastEvent reads an id that this or another node wrote. What it cannot
// read it leaves out: a client is never refused for it.
func parseLastEvent(id string) lastEvent {
	parts := append(strings.SplitN(id, "~", 5), "", "", "")
	l := lastEvent{resume: parts[0], digest: parts[2]}
	l.asked, _ = strconv.ParseUint(parts[3], 36, 64)
	if since, err := wire.ParseSince(parts[1]); err == nil {
		l.since = since
	}
	return l
}

// views says what the client holds of each of the rooms, as far as it is known to
// be still good: for several rooms, only that all of it is current.
func (l *lastEvent) views(rooms []*room, multi bool) []view {
	views := make([]view, len(rooms))
	if !multi && len(rooms) == 1 {
		if l.since.Version != 0 {
			views[0] = view{epoch: l.since.Epoch, sent: l.since.Version}
		}
		return views
	}
	if l.digest == "" {
		return views
	}
	var sum uint64
	for i, r := range rooms {
		epoch, version := r.state()
		sum += digest(viewing{r.id, epoch, version})
		views[i] = view{epoch: epoch, sent: version}
	}
	if strconv.FormatUint(sum, 36) != l.digest {
		clear(views)
	}
	return views
}

// state is the position of the replica.
func (r *room) state() (rollcall.Epoch, rollcall.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loadedLocked() {
		return "", 0
	}
	return r.positionLocked()
}
