package demo

import (
	"crypto/rand"
	"errors"
	"unicode/utf16"
)

// Limits of a text. What is over them is refused.
const (
	maxText    = 20_000 // UTF-16 units
	maxEdits   = 64     // of one change
	maxChanges = 1_000  // remembered; who is further behind gets the whole text
)

// edit replaces the UTF-16 units from From to To by Text, in the text as the
// edits before it left it.
type edit struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
}

// change leads from one version of a text to the next.
type change struct {
	ID    string `json:"id"` // made by who wrote it, so that a lost answer does no harm
	Edits []edit `json:"edits"`
}

// news is what happened to a text since the version that somebody holds.
type news struct {
	Epoch   string   `json:"epoch"`   // another one is another text
	Version int      `json:"version"` // of the text after the changes
	Changes []change `json:"changes"` // one a version
	Text    *string  `json:"text"`    // the whole of it, where the changes are not known; else null
}

var (
	errNoEdit  = errors.New("an edit reaches beyond the text, or into the middle of a character")
	errTooLong = errors.New("the text would be too long")
)

// text is one text. Its order is the order in which changes came; whoever wrote
// on an older version has to move their change and ask again. That is all that
// is needed for everybody to end up with the same. Not safe for concurrent use.
type text struct {
	epoch   string
	version int
	units   []uint16
	changes []change // the newest, up to version
}

func newText(start string) *text {
	return &text{epoch: rand.Text(), units: utf16.Encode([]rune(start))}
}

// since tells what happened after a version.
func (t *text) since(epoch string, version int) news {
	n := news{Epoch: t.epoch, Version: t.version, Changes: []change{}}
	first := t.version - len(t.changes)
	if epoch == t.epoch && version >= first && version <= t.version {
		n.Changes = append(n.Changes, t.changes[version-first:]...)
		return n
	}
	whole := string(utf16.Decode(t.units))
	n.Text = &whole
	return n
}

// write applies a change that was made on the newest version, and tells what
// happened after the version that it was made on. If that is not the newest, the
// change is not applied: it is not in what is told.
func (t *text) write(epoch string, version int, c change) (news, error) {
	if epoch != t.epoch || version != t.version {
		return t.since(epoch, version), nil
	}
	units := t.units
	for _, e := range c.Edits {
		if e.From < 0 || e.To < e.From || e.To > len(units) || splits(units, e.From) || splits(units, e.To) {
			return news{}, errNoEdit
		}
		next := make([]uint16, 0, len(units)+len(e.Text))
		next = append(next, units[:e.From]...)
		next = append(next, utf16.Encode([]rune(e.Text))...)
		units = append(next, units[e.To:]...)
	}
	if len(units) > maxText {
		return news{}, errTooLong
	}
	t.units = units
	t.version++
	if t.changes = append(t.changes, c); len(t.changes) > maxChanges {
		t.changes = append([]change(nil), t.changes[len(t.changes)-maxChanges:]...)
	}
	return t.since(epoch, version), nil
}

// splits reports whether a place is between the two halves of one character.
func splits(units []uint16, at int) bool {
	return at > 0 && at < len(units) && utf16.IsSurrogate(rune(units[at-1])) && units[at-1] < 0xdc00 &&
		utf16.IsSurrogate(rune(units[at])) && units[at] >= 0xdc00
}
