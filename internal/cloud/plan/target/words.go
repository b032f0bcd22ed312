package target

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
