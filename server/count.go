package server

import "rollcall/wire"

// appendCount appends what an observer of the number is due: the number at
// first, and then when it has changed, at most once a second. Called with the
// room locked.
func (s *stream) appendCount(b []byte, sub *sub, deliveries int) ([]byte, int) {
	r, v := sub.room, &sub.view
	h := s.c.h
	now, n := h.clock.now(), r.shownCountLocked()
	epoch, version := r.positionLocked()
	switch {
	case v.phase == viewNew && v.sent == version && v.epoch == epoch:
		b = s.append(b, wire.EventResumed, wire.AppendResumed(nil, r.id, v.epoch, version))
	case v.phase == viewNew:
		b = s.append(b, wire.EventSnapshot, r.appendCountsLocked(nil, n, nil))
	case v.phase != viewLive || n == v.count:
		return b, deliveries
	case now.sub(v.told) < r.settings.Modes.Every:
		h.pulse.again(s.c)
		return b, deliveries
	case v.epoch != epoch: // a count does not tell it
		b = s.append(b, wire.EventSnapshot, r.appendCountsLocked(nil, n, nil))
	default:
		b = s.append(b, wire.EventCount, r.appendCountLocked(nil, n, nil))
	}
	v.phase, v.epoch, v.sent, v.count, v.told = viewLive, epoch, version, n, now
	return b, deliveries + 1
}
