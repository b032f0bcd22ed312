package plan

import (
	"fmt"
	"strings"
)

// Counted is a number of things, for example "2 groups".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listed is how many names stand in a line before the rest is counted.
const listed = 4

// Listed returns names in a row: of more than five the first four, and how many more there are, unless all are wanted.
func Listed(names []string, all bool) string {
	if all || len(names) <= listed+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
