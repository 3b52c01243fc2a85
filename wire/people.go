package wire

import "rollcall"

// Users over all rooms: what is asked for, told and answered.

// UserStatus is the status of a user, over all rooms that the reader may know of.
type UserStatus struct {
	User   rollcall.UserID
	Status rollcall.Status // StatusUnset, null on the wire: nowhere
	// LastSeen is in Unix milliseconds; 0 if it is not known, and left out.
	LastSeen int64
}

// User is the answer to a read of one user.
type User struct {
	UserStatus
	Rooms []rollcall.RoomID
}

// AppendUser appends {"user","status","rooms","lastSeen"?}.
func AppendUser(b []byte, u *User) []byte {
	b = appendUserStatus(b, &u.UserStatus)
	b = append(b, `,"rooms":[`...)
	for i, room := range u.Rooms {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, string(room))
	}
	b = append(b, ']')
	b = appendLastSeen(b, u.LastSeen)
	return append(b, '}')
}

// AppendUserStatuses appends {"users":[{"user","status","lastSeen"?}]}.
func AppendUserStatuses(b []byte, users []UserStatus) []byte {
	b = append(b, `{"users":[`...)
	for i := range users {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendUserStatus(b, &users[i])
		b = appendLastSeen(b, users[i].LastSeen)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// AppendPresentUsers appends {"present":[{"user","status"}]}: those of the users
// that are watched who are somewhere.
func AppendPresentUsers(b []byte, present []UserStatus) []byte {
	return append(appendPresentUsers(b, present), '}')
}

// AppendUserChanges appends {"present":[{"user","status"}],"absent":[user]}, the
// body of the event users.
func AppendUserChanges(b []byte, c *UserChanges) []byte {
	b = appendPresentUsers(b, c.Present)
	b = append(b, `,"absent":[`...)
	for i, user := range c.Absent {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, string(user))
	}
	return append(b, "]}"...)
}

func appendPresentUsers(b []byte, present []UserStatus) []byte {
	b = append(b, `{"present":[`...)
	for i := range present {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendUserStatus(b, &present[i]), '}')
	}
	return append(b, ']')
}

// appendUserStatus leaves the object open.
func appendUserStatus(b []byte, u *UserStatus) []byte {
	b = append(b, `{"user":`...)
	b = appendString(b, string(u.User))
	b = append(b, `,"status":`...)
	if u.Status == rollcall.StatusUnset {
		return append(b, "null"...)
	}
	return appendString(b, u.Status.String())
}

func appendLastSeen(b []byte, seen int64) []byte {
	if seen == 0 {
		return b
	}
	return appendNumber(append(b, `,"lastSeen":`...), seen)
}

// UserChanges is what changed of the users that a stream watches: the event
// users.
type UserChanges struct {
	Present []UserStatus
	Absent  []rollcall.UserID
}

func readUserChanges(f *fields) any {
	var c UserChanges
	for f.next() {
		switch string(f.key) {
		case "present":
			c.Present = f.userStatuses()
		case "absent":
			c.Absent = readIDs[rollcall.UserID](f, maxList)
		}
	}
	return &c
}

// maxList is more ids than a server ever sends in one list.
const maxList = 1 << 20

// userStatuses reads a list of {user, status, lastSeen?}; never nil.
func (f *fields) userStatuses() []UserStatus {
	list := []UserStatus{}
	f.each(func(in *fields) {
		var u UserStatus
		for in.next() {
			u.field(in)
		}
		in.need("user", u.User != "")
		list = append(list, u)
	})
	return list
}

// field reads a field that it has. A status of a later release is none.
func (u *UserStatus) field(f *fields) {
	switch string(f.key) {
	case "user":
		f.user(&u.User)
	case "status":
		var s string
		f.textOrNull(&s)
		u.Status, _ = rollcall.ParseStatus(s)
	case "lastSeen":
		f.integer(&u.LastSeen)
	}
}

// DecodeUser reads the answer to a read of one user.
func DecodeUser(raw []byte) (u User, err error) {
	f := answer("user", raw)
	for f.next() {
		if string(f.key) == "rooms" {
			u.Rooms = readIDs[rollcall.RoomID](&f, maxList)
		} else {
			u.field(&f)
		}
	}
	f.need("user", u.User != "")
	return u, asError(f.err)
}

// DecodeUserStatuses reads the answer to a look-up of users.
func DecodeUserStatuses(raw []byte) (users []UserStatus, err error) {
	f := answer("answer", raw)
	for f.next() {
		if string(f.key) == "users" {
			users = f.userStatuses()
		}
	}
	f.need("users", users != nil)
	return users, asError(f.err)
}

// DecodePresentUsers reads the answer to a watch of users.
func DecodePresentUsers(raw []byte) (present []UserStatus, err error) {
	f := answer("answer", raw)
	for f.next() {
		if string(f.key) == "present" {
			present = f.userStatuses()
		}
	}
	f.need("present", present != nil)
	return present, asError(f.err)
}

// Watch is the body of a watch of users.
type Watch struct {
	Users  []rollcall.UserID
	Resume string
}

// DecodeWatch reads {users, resume?}, the users as [DecodeUsers].
func DecodeWatch(raw []byte, most int) (w Watch, err error) {
	f := body(raw)
	for f.next() {
		switch string(f.key) {
		case "users":
			w.Users = readIDs[rollcall.UserID](&f, most)
		case "resume":
			f.text(&w.Resume)
		}
	}
	f.need("users", w.Users != nil)
	return w, asError(f.err)
}

// maxSession is the most bytes of a session, as in a token.
const maxSession = 256

// DecodeDisconnect reads {session?}.
func DecodeDisconnect(raw []byte) (session string, err error) {
	f := body(raw)
	for f.next() {
		if string(f.key) != "session" {
			continue
		}
		f.text(&session)
		if f.err == nil && (session == "" || len(session) > maxSession) {
			f.err = rollcall.LimitError(rollcall.CodeBadRequest, maxSession, "session must be 1 to %d bytes of UTF-8", maxSession)
		}
	}
	return session, asError(f.err)
}

// AppendDisconnect appends {"session"?}.
func AppendDisconnect(b []byte, session string) []byte {
	b, start := append(b, '{'), len(b)
	b = appendTextField(b, "session", session)
	return closeObject(b, start)
}
