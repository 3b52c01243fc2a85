package server

import "time"

// A link of 20 kbit/s carries two thousand bytes a second. Whatever more is handed
// to the kernel stands in a queue there, and is old when it comes: positions of
// cursors by many seconds, and joins and leaves behind them. So signals are
// written only when what was written before has arrived, and so much of them that
// this takes less than half a second. What stands before them in the same write, such
// as a snapshot, is counted with them: what does not fit behind it waits until it has
// arrived, which also tells what the link of a newcomer carries.
const (
	paceLook  = 250 * time.Millisecond // a fast link is looked at no sooner after a write
	paceFast  = 240 * time.Millisecond // what takes no longer may be twice as much
	paceSlow  = 500 * time.Millisecond // what takes longer has to be less
	paceAim   = 400 * time.Millisecond
	paceStale = 200 * time.Millisecond // if nobody looked for longer, it is not known when it arrived

	paceLeast = 512       // bytes of signals at once
	paceStart = 2 << 10   // of a link that is not known yet, or is slow all of a sudden
	paceMost  = 32 << 10  // a link that takes more in time is fast
	unpaced   = 1<<31 - 1 // no bound
)

// pace is how much of the signals a stream can take. The zero value has no bound.
// Guarded by the mu of the connection.
type pace struct {
	link    link
	written uint64 // bytes that the kernel was given
	mark    uint64 // the link is watched until so many have arrived; 0: it is not
	size    int    // how many of them were written last
	marked  instant
	looked  instant // when they had not arrived yet; 0: nobody has looked
	most    int     // bytes of signals at once; 0: no bound
}

// link tells what is on its way. Streams that cannot tell have no bound.
type link interface{ Unacknowledged() (int, bool) }

func newPace(conn any) pace {
	l, _ := conn.(link)
	return pace{link: l, most: paceStart}
}

// wrote notes what the kernel was given.
func (p *pace) wrote(n int, now instant) {
	if p.link == nil {
		return
	}
	p.written += uint64(n)
	if p.mark == 0 {
		p.mark, p.size, p.marked, p.looked = p.written, n, now, 0
	}
}

// allows is how many bytes of signals may be written now, behind so many of
// something else; 0 while something is on its way.
func (p *pace) allows(now instant, before int) int {
	if p.link == nil {
		return unpaced
	}
	if p.mark != 0 && !p.arrivedBy(now) {
		return 0
	}
	if p.link == nil || p.most == 0 {
		return unpaced
	}
	return max(p.most-before, 0)
}

// arrivedBy reports whether what is watched has arrived, or need not be looked at.
func (p *pace) arrivedBy(now instant) bool {
	took := now.sub(p.marked)
	if p.most == 0 && took < paceLook {
		return true
	}
	out, ok := p.link.Unacknowledged()
	switch {
	case !ok:
		p.link = nil
		return true
	case p.written-uint64(out) < p.mark:
		if p.most == 0 {
			p.most = paceStart
		}
		p.looked = now
		return false
	}
	known := took <= paceStale || p.looked != 0 && now.sub(p.looked) <= paceStale
	p.mark = 0
	if p.most == 0 || !known {
		return true
	}
	size := max(p.most, p.size)
	switch {
	case took <= paceFast:
		if p.most = 2 * size; p.most > paceMost {
			p.most = 0
		}
	case took > paceSlow:
		p.most = max(paceLeast, int(time.Duration(size)*paceAim/took))
	}
	return true
}
