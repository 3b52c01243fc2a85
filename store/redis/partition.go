package redis

import (
	"fmt"
	"strings"

	"rollcall"
)

// tags are the hash tags of the partitions: tag i hashes into the i-th of 64
// equal ranges of the slots, so that any even cut of a cluster gets an even share
// of partitions. They are part of the layout and never change.
var tags [rollcall.Partitions]string

func init() {
	for i := range tags {
		tags[i] = findTag(i)
	}
}

const (
	slots      = 16384
	slotsOfTag = slots / rollcall.Partitions
)

// slotOf is the slot of a key or channel.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slots
}

func findTag(partition int) string {
	name := fmt.Sprintf("p%02d", partition)
	for n := 0; ; n++ {
		tag := name + suffix(n)
		if slotOf(tag)/slotsOfTag == partition {
			return tag
		}
	}
}

// suffix counts "", a, b, ... z, aa, ab, ...
func suffix(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

// crc16 is the checksum that Redis Cluster maps keys to slots by (XMODEM).
func crc16(s string) (crc uint16) {
	for i := 0; i < len(s); i++ {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// prefix begins every key of a partition.
func prefix(partition int) string { return "{" + tags[partition] + "}:" }
