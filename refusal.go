package rollcall

import "time"

// The refusals of operations, in one place, so that every store gives the same.

// RefuseID refuses a room or user id that is none.
func RefuseID() *Error {
	return Errorf(CodeBadRequest, "room and user ids are 1 to %d bytes of UTF-8, neither . nor ..", MaxID)
}

// RefuseGone refuses what names a lease that the connection does not hold.
func RefuseGone() *Error {
	return Errorf(CodeGone, "the connection has no lease in this room")
}

// RefuseAbsent refuses what names a user who is not in the room.
func RefuseAbsent() *Error { return Errorf(CodeNotFound, "the user is not in this room") }

// RefuseBanned refuses a grant to a user who was kicked, until then.
func RefuseBanned(until time.Time) *Error {
	return Errorf(CodeForbidden, "the user was removed from this room, and may come back after %s", until.Add(time.Second-1).UTC().Format(time.RFC3339))
}

// RefuseKind refuses an operation of a kind that is none.
func RefuseKind(k OpKind) *Error { return Errorf(CodeBadRequest, "unknown operation %d", k) }

// RefuseConnections refuses one connection too many of a user in a room.
func (l *Limits) RefuseConnections() *Error {
	return LimitError(CodeRateLimited, l.ConnectionsPerUser, "a user may hold %d connections in a room", l.ConnectionsPerUser)
}

// CheckInfo refuses an info over its limit; nil if it is not.
func (l *Limits) CheckInfo(size int) *Error {
	if size <= l.Info {
		return nil
	}
	return LimitError(CodeTooLarge, l.Info, "info is %d bytes; the limit is %d", size, l.Info)
}

// CheckData refuses data over its limit; nil if it is not.
func (l *Limits) CheckData(size int) *Error {
	if size <= l.Data {
		return nil
	}
	return LimitError(CodeTooLarge, l.Data, "data is %d bytes; the limit is %d", size, l.Data)
}

// Check refuses an operation for what can be told without looking at the room;
// nil if it can go on.
func (l *Limits) Check(op *Op) *Error {
	if op.Kind > OpEndUser {
		return RefuseKind(op.Kind)
	}
	if op.Kind != OpGrant {
		return nil
	}
	if !ValidID(string(op.Room)) || !ValidID(string(op.User)) {
		return RefuseID()
	}
	if err := l.CheckInfo(len(op.Info)); err != nil {
		return err
	}
	return l.CheckData(len(op.Data))
}
