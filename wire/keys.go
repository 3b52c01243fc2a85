package wire

import "bytes"

// keys are the decoded keys of all open objects, outer ones first. They are
// compared decoded, because two readers that disagree about which of two equal
// keys counts can be told two different things.
type keys [][]byte

// fewKeys is how many keys of one object are compared one by one before a map
// takes over, which keeps the whole linear.
const fewKeys = 16

// add notes a key of the innermost object; false if the object has it already.
func (k *keys) add(top *level, key []byte) bool {
	if top.seen != nil {
		if _, dup := top.seen[string(key)]; dup {
			return false
		}
		top.seen[string(key)] = struct{}{}
		return true
	}
	mine := (*k)[top.first:]
	for _, other := range mine {
		if bytes.Equal(other, key) {
			return false
		}
	}
	*k = append(*k, key)
	if len(mine) >= fewKeys {
		top.seen = make(map[string]struct{}, 4*fewKeys)
		for _, other := range (*k)[top.first:] {
			top.seen[string(other)] = struct{}{}
		}
	}
	return true
}
