package main

import (
	"strconv"
	"strings"
	"unicode"
)

// plain makes a text from outside safe to show: what is not printable, such as
// the escape sequences of a terminal, is written out.
func plain(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }

// nearest is the word that s is most likely a slip of; "" if none is near.
func nearest(s string, words []string) string {
	best, least := "", max(2, len(s)/3)+1
	for _, w := range words {
		if d := distance(strings.ReplaceAll(strings.ToLower(s), "_", "-"), w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of letters to add, drop, or change to get from a to b
// (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
