package cli

import (
	"strings"
	"unicode/utf8"
)

// screen is the width that texts for people are laid out for.
const screen = 80

// folded lays a text out in lines of at most screen characters, between words; lines after the
// first begin with indent. A word that is longer than a line, such as a command to copy, is left
// whole.
func folded(first, indent, text string) string {
	var b strings.Builder
	b.WriteString(first)
	column, fresh := utf8.RuneCountInString(first), true
	for _, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		if !fresh && column+1+width > screen {
			b.WriteString("\n" + indent)
			column, fresh = utf8.RuneCountInString(indent), true
		}
		if !fresh {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column, fresh = column+width, false
	}
	return b.String()
}

// cut shortens a text to a width, so that a column stays one.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "~"
}
