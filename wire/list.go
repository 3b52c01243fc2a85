package wire

import "rollcall"

// DecodeUsers reads {users:[...]}: each user once, in the order of the request.
// More than most, counted as they stand, is too_large.
func DecodeUsers(raw []byte, most int) ([]rollcall.UserID, error) {
	return decodeIDs[rollcall.UserID](raw, "users", most)
}

// DecodeRooms reads {rooms:[...]}, as [DecodeUsers].
func DecodeRooms(raw []byte, most int) ([]rollcall.RoomID, error) {
	return decodeIDs[rollcall.RoomID](raw, "rooms", most)
}

func decodeIDs[ID ~string](raw []byte, name string, most int) ([]ID, error) {
	var ids []ID
	f := body(raw)
	found := false
	for f.next() {
		if string(f.key) == name {
			found = true
			ids = readIDs[ID](&f, most)
		}
	}
	f.need(name, found)
	if f.err != nil {
		return nil, f.err
	}
	return ids, nil
}

// readIDs reads a list of ids; nothing twice.
func readIDs[ID ~string](f *fields, most int) []ID {
	if f.value[0] != '[' {
		f.fail("a list")
		return nil
	}
	name := string(f.key)
	list := newItems(f.value)
	ids := []ID{}
	seen := make(map[ID]struct{})
	for n := 0; list.next(); n++ {
		if n == most {
			f.err = rollcall.LimitError(rollcall.CodeTooLarge, most, "%s has more than %d ids", name, most)
			return nil
		}
		item := fields{key: f.key, value: list.value, path: "each of "}
		id := ID(item.id())
		if f.err = item.err; f.err != nil {
			return nil
		}
		if _, twice := seen[id]; !twice {
			seen[id] = struct{}{}
			ids = append(ids, id)
		}
	}
	return ids
}

// items goes over an array that the scanner accepted.
type items struct {
	in    []byte
	pos   int
	value []byte
}

func newItems(array []byte) items { return items{in: array, pos: 1} }

func (l *items) next() bool {
	if l.pos < len(l.in) && l.in[l.pos] == ',' {
		l.pos++
	}
	end := skip(l.in, l.pos)
	if end < 0 {
		return false
	}
	l.value, l.pos = l.in[l.pos:end], end
	return true
}
