package wire

import (
	"rollcall"
)

// The readers of what tells the state of rooms.

func readSnapshot(f *fields) any {
	s := Snapshot{Version: -1, Count: -1}
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&s.Room)
		case "epoch":
			f.epoch(&s.Epoch)
		case "version":
			f.version(&s.Version)
		case "mode":
			var m string
			f.text(&m)
			s.Mode = Mode(m)
		case "count":
			f.count(&s.Count)
		case "members":
			s.Members = f.members()
		case "sample":
			s.Sample = f.members()
		case "estimate":
			f.boolean(&s.Estimate)
		case "standardError":
			f.fraction(&s.StandardError)
		case "settlingMs":
			f.millis(&s.Settling)
		}
	}
	f.need("room", s.Room != "")
	f.need("epoch", s.Epoch != "")
	f.need("version", s.Version >= 0)
	f.need("count", s.Count >= 0)
	f.need("mode", s.Mode != "")
	f.need("members", s.Mode != ModeFull || s.Members != nil)
	return &s
}

func readResumed(f *fields) any {
	r := Resumed{Version: -1}
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&r.Room)
		case "epoch":
			f.epoch(&r.Epoch)
		case "version":
			f.version(&r.Version)
		}
	}
	f.need("room", r.Room != "")
	f.need("epoch", r.Epoch != "")
	f.need("version", r.Version >= 0)
	return &r
}

func readDiff(f *fields) any {
	d := RoomDiff{Diff: rollcall.Diff{Prev: -1, Version: -1, Count: -1}}
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&d.Room)
		case "prev":
			f.version(&d.Prev)
		case "version":
			f.version(&d.Version)
		case "count":
			f.count(&d.Count)
		case "join":
			d.Join = f.members()
		case "update":
			d.Update = f.members()
		case "leave":
			d.Leave = f.leaves()
		}
	}
	f.need("room", d.Room != "")
	f.need("prev", d.Prev >= 0)
	f.need("version", d.Version >= 0)
	f.need("count", d.Count >= 0)
	return &d
}

func readCount(f *fields) any {
	c := Count{Version: -1, Count: -1}
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&c.Room)
		case "version":
			f.version(&c.Version)
		case "count":
			f.count(&c.Count)
		case "sample":
			c.Sample = f.members()
		case "estimate":
			f.boolean(&c.Estimate)
		case "standardError":
			f.fraction(&c.StandardError)
		}
	}
	f.need("room", c.Room != "")
	f.need("version", c.Version >= 0)
	f.need("count", c.Count >= 0)
	return &c
}

func readEnded(f *fields) any {
	var e EndedLease
	for f.next() {
		switch string(f.key) {
		case "room":
			f.room(&e.Room)
		case "reason":
			f.reason(&e.Reason)
		}
	}
	f.need("room", e.Room != "")
	return &e
}

// leaves reads the leaves of a diff; never nil.
func (f *fields) leaves() []rollcall.Leave {
	list := []rollcall.Leave{}
	f.each(func(in *fields) {
		var l rollcall.Leave
		for in.next() {
			switch string(in.key) {
			case "user":
				in.user(&l.User)
			case "reason":
				in.reason(&l.Reason)
			}
		}
		in.need("user", l.User != "")
		list = append(list, l)
	})
	return list
}

// reason reads a word; one of a later release is ReasonNone.
func (f *fields) reason(to *rollcall.Reason) {
	var s string
	f.text(&s)
	*to, _ = rollcall.ParseReason(s)
}

func (f *fields) epoch(to *rollcall.Epoch) {
	var s string
	f.text(&s)
	*to = rollcall.Epoch(s)
}

func (f *fields) version(to *rollcall.Version) {
	var n int64
	f.integer(&n)
	*to = rollcall.Version(n)
}

func (f *fields) count(to *int) {
	var n int64
	f.integer(&n)
	*to = int(n)
}
