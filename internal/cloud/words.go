package cloud

import (
	"fmt"
	"strings"
)

// MaxWords is the length, in runes, at which Words cuts.
const MaxWords = 256

// Words makes a text that strangers wrote fit to be shown to people: without control characters and
// line ends, and not longer than MaxWords.
func Words(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > MaxWords {
		return string(r[:MaxWords])
	}
	return s
}

// Counted is a number of things, for example "2 groups".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listed is how many names stand in a line before the rest is counted.
const listed = 4

// Listed returns names in a row: of more than five the first four, and how many more there are,
// unless all are wanted.
func Listed(names []string, all bool) string {
	if all || len(names) <= listed+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
