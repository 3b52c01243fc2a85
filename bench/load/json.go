package load

import "bytes"

// Text is the member of an object whose value is a plain string: the first of its
// name, at any depth; "" if there is none.
func Text(object []byte, name string) string {
	_, rest, _ := bytes.Cut(object, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// Number is the same for a whole number; -1 if there is none.
func Number(object []byte, name string) int {
	_, rest, ok := bytes.Cut(object, []byte(`"`+name+`":`))
	if !ok || len(rest) == 0 || rest[0] < '0' || rest[0] > '9' {
		return -1
	}
	n := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
