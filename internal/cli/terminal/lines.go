package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Screen is the width that texts for people are laid out for.
const Screen = 80

// Folded lays a text out in lines of at most Screen characters, between words; lines after the
// first begin with indent. A word that is longer than a line, such as a command to copy, is left
// whole.
func Folded(first, indent, text string) string {
	var b strings.Builder
	b.WriteString(first)
	column, fresh := utf8.RuneCountInString(first), true
	for _, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		if !fresh && column+1+width > Screen {
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

// Cut shortens a text to a width, so that a column stays one.
func Cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "~"
}

// Plural is a number with the right word.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
