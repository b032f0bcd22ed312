package target

import (
	"cmp"
	"maps"
	"slices"
)

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
