package cloud

import "strings"

// MaxWords is the length, in runes, at which Words cuts.
const MaxWords = 256

// Words makes a text that strangers wrote fit to be shown to people: without control characters and line ends, and not longer than
// MaxWords.
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
